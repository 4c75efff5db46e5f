"""The scripted provider: every protocol leads to the same work, it counts what it says, and it
fails as told."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.agents.model_server.engineer import (
    PLAN,
    WAIT,
    Call,
    Conversation,
    Tokens,
    Tool,
    arguments_for,
    reply,
    shell_of,
)
from tests.agents.model_server.faults import Fault, status
from tests.agents.model_server.server import ModelServer, model_server

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def post(server: ModelServer, path: str, body: Any) -> tuple[int, str, str | None]:
    """Status, body and Retry-After. Raises http.client.HTTPException or OSError where the
    connection breaks."""
    link = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=300)
    try:
        link.request("POST", path, json.dumps(body), {"Authorization": "Bearer k-1"})
        answer = link.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Retry-After"]
    finally:
        link.close()


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


# --- a client for each protocol: what it asks with, and what it makes of an answer ----------------

Exchange = tuple[
    str,
    dict[str, Any],
    Callable[[list[Any]], tuple[str, Any, Tokens]],
    Callable[[list[Any], str], None],
]
"""Path, body, reader (command, what is to be sent again, tokens), and how a result is added to the
conversation."""


def a_response(stream: bool) -> Exchange:
    body: dict[str, Any] = {
        "model": "m", "stream": stream, "input": [{"type": "message", "role": "user", "content": "Do it."}],
        "tools": [{"type": "function", "name": "shell", "parameters": SCHEMA}],
    }  # fmt: skip

    def read(found: list[Any]) -> tuple[str, Any, Tokens]:
        done = found[-1]["response"] if stream else found[0]
        items, usage = done["output"], done["usage"]
        cached = usage["input_tokens_details"]["cached_tokens"]
        thought = usage["output_tokens_details"]["reasoning_tokens"]
        call = next((item for item in items if item["type"] == "function_call"), None)
        said = json.loads(call["arguments"])["command"] if call else ""
        return (
            said,
            items,
            Tokens(usage["input_tokens"] - cached, cached, 0, usage["output_tokens"], thought),
        )

    def add(items: list[Any], output: str) -> None:
        call_id = items[-1]["call_id"]
        body["input"] += [
            *items,
            {"type": "function_call_output", "call_id": call_id, "output": output},
        ]

    return "/v1/responses", body, read, add


def a_message(stream: bool) -> Exchange:
    tool = {"name": "Bash", "input_schema": SCHEMA}
    body: dict[str, Any] = {
        "model": "m", "stream": stream, "messages": [{"role": "user", "content": "Do it."}], "tools": [tool],
    }  # fmt: skip

    def read(found: list[Any]) -> tuple[str, Any, Tokens]:
        if not stream:
            content, usage = found[0]["content"], found[0]["usage"]
        else:
            usage = {**found[0]["message"]["usage"], **found[-2]["usage"]}
            content = [
                event["content_block"] for event in found if event["type"] == "content_block_start"
            ]
            for event in found:
                if (
                    event["type"] == "content_block_delta"
                    and event["delta"]["type"] == "input_json_delta"
                ):
                    content[event["index"]]["input"] = json.loads(event["delta"]["partial_json"])
        call = next((block for block in content if block["type"] == "tool_use"), None)
        kinds = (
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
        )
        return (
            call["input"]["command"] if call else "",
            content,
            Tokens(*(usage[kind] for kind in kinds)),
        )

    def add(content: list[Any], output: str) -> None:
        result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": output}
        body["messages"] += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]

    return "/v1/messages", body, read, add


def a_chat(stream: bool) -> Exchange:
    tool = {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}
    body: dict[str, Any] = {
        "model": "m", "stream": stream, "messages": [{"role": "user", "content": "Do it."}], "tools": [tool],
    }  # fmt: skip

    def read(found: list[Any]) -> tuple[str, Any, Tokens]:
        usage = found[-1]["usage"]
        key = "delta" if stream else "message"
        said = [choice[key] for event in found for choice in event["choices"]]
        calls = [call for message in said for call in message.get("tool_calls") or ()]
        message = {"role": "assistant", "tool_calls": calls}
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        thought = usage["completion_tokens_details"]["reasoning_tokens"]
        used = Tokens(
            usage["prompt_tokens"] - cached, cached, 0, usage["completion_tokens"], thought
        )
        return (
            json.loads(calls[0]["function"]["arguments"])["command"] if calls else "",
            message,
            used,
        )

    def add(message: Any, output: str) -> None:
        answer = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": output}
        body["messages"] += [message, answer]

    return "/v1/chat/completions", body, read, add


def a_generation(stream: bool) -> Exchange:
    declared = {"name": "run_shell_command", "parametersJsonSchema": SCHEMA}
    body: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [{"text": "Do it."}]}], "tools": [{"functionDeclarations": [declared]}],
    }  # fmt: skip

    def read(found: list[Any]) -> tuple[str, Any, Tokens]:
        usage = found[-1]["usageMetadata"]
        parts = [part for event in found for part in event["candidates"][0]["content"]["parts"]]
        call = next((part["functionCall"] for part in parts if "functionCall" in part), None)
        cached, thought = usage["cachedContentTokenCount"], usage["thoughtsTokenCount"]
        output = usage["candidatesTokenCount"] + thought
        used = Tokens(usage["promptTokenCount"] - cached, cached, 0, output, thought)
        return call["args"]["command"] if call else "", parts, used

    def add(parts: list[Any], output: str) -> None:
        answer = {"functionResponse": {"name": "run_shell_command", "response": {"output": output}}}
        body["contents"] += [{"role": "model", "parts": parts}, {"role": "user", "parts": [answer]}]

    way = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/m:{way}", body, read, add


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("protocol", [a_response, a_message, a_chat, a_generation])
def test_every_protocol_tells_of_the_same_work_and_of_its_tokens(
    server: ModelServer, protocol: Callable[[bool], Exchange], stream: bool
) -> None:
    path, body, read, add = protocol(stream)
    typed, used = [], Tokens()
    for _ in range(len(PLAN) + 2):
        code, text, _ = post(server, path, body)
        assert code == 200
        command, said, tokens = read(events(text) if stream else [json.loads(text)])
        used += tokens
        if not command:
            break
        typed.append(command)
        # The first Submission takes a while.
        add(said, '{"status": "running"}' if command == PLAN[2] and WAIT not in typed else "done")
    assert typed == [*PLAN[:3], WAIT, *PLAN[3:]]
    assert used == server.tokens() and used.output == 20 * (len(PLAN) + 2)
    assert {answer.key for answer in server.answers} == {"k-1"}
    assert len({answer.id for answer in server.answers}) == len(server.answers)


def test_tokens_are_counted_beforehand_without_being_spent(server: ModelServer) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    assert json.loads(post(server, "/v1/messages/count_tokens", body)[1]) == {"input_tokens": 20}
    assert json.loads(post(server, "/v1beta/models/m:countTokens", {"contents": []})[1]) == {
        "totalTokens": 20
    }
    assert server.answers == []


def test_a_request_without_a_shell_is_a_side_call(server: ModelServer) -> None:
    post(server, "/v1/chat/completions", {"model": "m", "messages": []})
    assert server.tokens() == Tokens() and server.tokens(side=True).output == 5


def test_what_it_does_not_have_is_kept(server: ModelServer) -> None:
    assert post(server, "/v1/files", {})[0] == 404
    assert server.unknown == ["POST /v1/files"]


# --- the engineer ---------------------------------------------------------------------------------


def test_the_shell_is_typed_to_as_its_schema_says() -> None:
    codex = Tool("exec_command", {"properties": {"cmd": {"type": "string"}}, "required": ["cmd"]})
    listed = Tool("shell", {"properties": {"command": {"type": "array"}}, "required": ["command"]})
    told = Tool(
        "bash",
        {
            "properties": {"command": {}, "description": {"type": "string"}},
            "required": ["description"],
        },
    )
    assert arguments_for(codex, "ls") == {"cmd": "ls"}
    assert arguments_for(listed, "ls") == {"command": ["bash", "-lc", "ls"]}
    assert arguments_for(told, "ls") == {"command": "ls", "description": "Next step"}
    assert (
        shell_of([Tool("Edit"), Tool("Bash")]) == Tool("Bash") and shell_of([Tool("Edit")]) is None
    )


def test_a_command_that_codex_handed_back_is_polled_and_counts_once() -> None:
    tools = (Tool("exec_command"), Tool("write_stdin"))
    handed = Call("exec_command", {"cmd": PLAN[0]}, "Process running with session ID 17\n")
    asked = reply(Conversation("m", tools, (handed,)))
    assert (asked.tool, asked.arguments["session_id"]) == ("write_stdin", 17)
    ended = Call("write_stdin", asked.arguments, "Process exited with code 0")
    assert reply(Conversation("m", tools, (handed, ended))).arguments["command"] == PLAN[1]


# --- faults ---------------------------------------------------------------------------------------

ASKED = (
    "/v1/responses",
    {"model": "m", "stream": True, "tools": [{"name": "shell", "parameters": SCHEMA}]},
)


def test_a_fault_comes_when_it_is_told_to_and_as_often() -> None:
    with model_server(status(429, after=1, times=2, retry_after=2)) as server:
        answers = [post(server, *ASKED) for _ in range(4)]
    assert [(code, after) for code, _, after in answers] == [
        (200, None),
        (429, "2"),
        (429, "2"),
        (200, None),
    ]
    assert json.loads(answers[1][1])["error"]["code"] == "rate_limit_exceeded"
    assert [answer.fault for answer in server.answers] == ["", "status", "status", ""]
    assert server.tokens().output == 40


def test_side_calls_do_not_meet_faults() -> None:
    with model_server(status(500)) as server:
        assert post(server, "/v1/chat/completions", {"model": "m", "messages": []})[0] == 200


def test_a_drop_is_a_reset_before_a_word() -> None:
    with model_server(Fault("drop", times=1)) as server:
        with pytest.raises(ConnectionError):
            post(server, *ASKED)
        assert post(server, *ASKED)[0] == 200


def test_a_cut_is_a_reset_between_events() -> None:
    with model_server(Fault("cut")) as server:
        with pytest.raises((ConnectionError, http.client.IncompleteRead)):
            post(server, *ASKED)
        assert server.tokens() == Tokens()


def test_an_end_lacks_the_final_event() -> None:
    with model_server(Fault("end")) as server:
        kinds = [event["type"] for event in events(post(server, *ASKED)[1])]
    assert kinds and "response.completed" not in kinds


def test_malformed_events_are_no_json() -> None:
    with model_server(Fault("malformed")) as server:
        text = post(server, *ASKED)[1]
    assert text
    with pytest.raises(ValueError):
        events(text)


def test_a_stall_says_nothing_until_the_server_closes() -> None:
    with (
        model_server(Fault("stall")) as server,
        socket.create_connection(("127.0.0.1", server.server_port), 300) as link,
    ):
        body = json.dumps(ASKED[1]).encode()
        link.sendall(
            b"POST /v1/responses HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        received = b""
        while b"\r\n\r\n" not in received:
            received += link.recv(4096)
        link.settimeout(0.05)
        with pytest.raises(TimeoutError):
            link.recv(1)
        server.closing.set()
        link.settimeout(300)
        assert link.recv(1) == b""


@pytest.mark.parametrize("protocol", [a_response, a_message, a_chat, a_generation])
def test_each_protocol_has_its_words_for_a_long_conversation_and_a_refusal(
    protocol: Callable[[bool], Exchange],
) -> None:
    path, body, _, _ = protocol(False)
    with model_server(Fault("context")) as server:
        code, text, _ = post(server, path, body)
    assert code == 400 and any(
        word in text for word in ("context", "too long", "exceeds the maximum")
    )
    with model_server(Fault("refusal")) as server:
        code, text, _ = post(server, path, body)
    assert code == 200 and any(word in text for word in ("refusal", "content_filter", "SAFETY"))
    assert server.answers[0].tokens.output == 20
