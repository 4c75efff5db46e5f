"""The Host's proxy: what it lets through, what it adds and takes, what it makes of a provider that
fails."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from evopolicy.agents.provider import ModelProvider
from evopolicy.execution.agent import network as agent_network
from evopolicy.execution.proxy import rules as proxy_rules
from evopolicy.execution.proxy import state as proxies
from evopolicy.execution.proxy import tunnel
from evopolicy.execution.proxy.log import ProxyLog
from evopolicy.execution.proxy.rules import checked_body
from evopolicy.execution.proxy.server import Proxy
from evopolicy.execution.proxy.usage import UsageReader, tokens
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentLimits
from evopolicy.kernel.run.stream import PROXY_LOG
from tests.execution import upstream as up
from tests.execution.conftest import PATIENCE, becomes

KEY = "sk-the-real-key-0123456789"
NO_LIMITS = AgentLimits(None, None, 0)
EXAMPLE = ModelProvider(
    "https://api.example.com/v1", ("POST /chat", "GET /models"), key_variable="KEY"
)
Serve = Callable[..., tuple[Proxy, Any]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a provider that answers as told, and a proxy before it."""
    ends: list[Callable[[], None]] = []

    def start(answer: Any, *, limits: AgentLimits = NO_LIMITS, **changes: Any) -> tuple[Proxy, Any]:
        upstream = up.Upstream(answer)
        ends.append(upstream.close)
        options = {
            name: changes.pop(name) for name in ("tunnel", "answer_seconds") if name in changes
        }
        provider = ModelProvider(
            f"{upstream.url}/v1", ("POST /chat", "GET /models"), key_variable="KEY"
        )
        logs = tmp_path / "attempt-1"
        logs.mkdir(exist_ok=True)
        path = tmp_path / f"{len(ends)}.sock"
        proxy = Proxy(replace(provider, **changes), KEY, path, logs, limits=limits, **options)
        ends.append(proxy.close)
        return proxy, upstream

    yield start
    for end in reversed(ends):
        end()


def ask(
    tmp_path: Path,
    body: Any = None,
    *,
    method: str = "POST",
    target: str = "/chat",
    headers: Any = None,
    n: int = 1,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request to the proxy whose fixture was the `n`th."""
    client = up.Client(tmp_path / f"{n}.sock")
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    client.request(method, target, data, dict(headers or {}))
    response = client.getresponse()
    answer = response.read()
    client.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, answer


def logged(tmp_path: Path, count: int) -> list[dict[str, Any]]:
    """The log's lines in the order of their requests, once there are `count`: each is written after
    its answer."""
    path = tmp_path / "attempt-1" / PROXY_LOG
    assert becomes(lambda: path.exists() and path.read_bytes().count(b"\n") >= count), (
        f"{count} lines are needed"
    )
    return sorted(
        (json.loads(line) for line in path.read_text().splitlines()), key=lambda line: line["time"]
    )


# --- what reaches the provider --------------------------------------------------------------------


def test_the_host_adds_its_key_and_takes_away_every_login_of_the_agents(
    serve: Serve, tmp_path: Path
) -> None:
    _, upstream = serve(up.says({"ok": 1}))
    logins = {
        "Authorization": "Bearer mine",
        "X-Api-Key": "mine",
        "Cookie": "a=b",
        "OpenAI-Organization": "other",
    }
    status, _, body = ask(
        tmp_path,
        {"x": 1},
        target="/chat?beta=true&key=mine",
        headers={**logins, "Anthropic-Beta": "b", "Host": "h"},
    )
    assert (status, json.loads(body)) == (200, {"ok": 1})
    (asked,) = upstream.asked
    assert (asked.method, asked.target, asked.json) == ("POST", "/v1/chat?beta=true", {"x": 1})
    assert (asked.headers["authorization"], asked.headers["anthropic-beta"]) == (
        f"Bearer {KEY}",
        "b",
    )
    assert asked.headers["host"] == f"localhost:{upstream.port}"
    assert "mine" not in str(asked) and not {"cookie", "x-api-key", "openai-organization"} & set(
        asked.headers
    )


def test_what_may_be_read_as_another_method_or_login_is_dropped(
    serve: Serve, tmp_path: Path
) -> None:
    _, upstream = serve(up.says({}))
    odd = {
        "X-HTTP-Method-Override": "DELETE",
        "X-Method-Override": "PUT",
        "X-Original-URL": "/files",
        "X-Stainless": "1",
    }
    target = "/chat?alt=sse&_method=DELETE&api-version=2&token=mine&$httpMethod=PUT&pageSize=5&__proto__=1"
    assert ask(tmp_path, {}, target=target, headers=odd)[0] == 200
    (asked,) = upstream.asked
    assert asked.target == "/v1/chat?alt=sse&api-version=2&pageSize=5"
    assert [name for name in asked.headers if name.startswith("x-")] == ["x-stainless"]


def test_a_key_goes_where_the_provider_wants_it(serve: Serve, tmp_path: Path) -> None:
    _, upstream = serve(up.says({}), key_header="x-api-key", key_form="{key}")
    ask(tmp_path, {}, headers={"X-API-KEY": "dummy", "Authorization": "Bearer dummy"})
    assert upstream.asked[0].headers["x-api-key"] == KEY
    assert "authorization" not in upstream.asked[0].headers


def test_only_the_named_paths_and_methods_are_passed_on(serve: Serve, tmp_path: Path) -> None:
    _, upstream = serve(up.says({"models": []}))
    assert ask(tmp_path, method="GET", target="/models")[0] == 200
    refused = [
        ("GET", "/chat"), ("DELETE", "/models"), ("PUT", "/chat"), ("POST", "/chat/"),
        ("POST", "/files"), ("POST", "/../admin"), ("POST", "/chat/../files"), ("POST", "/%63hat"), ("PROPFIND", "/"),
        ("POST", f"http://localhost:{upstream.port}/v1/chat"), ("CONNECT", f"localhost:{upstream.port}"),
    ]  # fmt: skip
    for method, target in refused:
        status, _, body = ask(tmp_path, {}, method=method, target=target)
        assert (status, json.loads(body)["error"]["code"]) == (403, "path_refused"), (
            method,
            target,
        )
        assert "POST /chat" in json.loads(body)["error"]["message"]
    assert ask(tmp_path, method="HEAD", target="/")[::2] == (403, b"")
    assert len(upstream.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"model": "dear"}, {}, {"model": None}, {"model": ["m"]}, {"model": "m", "models": ["dear"]},
        b'{"model": "m", "model": "dear"}', {"model": "M"}, {"model": "m "}, {"model": "m-20250929-dear"},
    ],
    ids=str,
)  # fmt: skip
def test_a_request_for_another_model_is_refused(serve: Serve, tmp_path: Path, body: Any) -> None:
    _, upstream = serve(up.says({}), models=("m",))
    status, _, said = ask(tmp_path, body)
    assert (status, json.loads(said)["error"]["code"]) == (403, "model_refused")
    assert "this Run's model is 'm' (agent.model)" in json.loads(said)["error"]["message"]
    assert upstream.asked == []


@pytest.mark.parametrize("model", ["m", "m-20250929", "m-2025-09-29", "m@20250929"])
def test_a_dated_snapshot_of_the_runs_model_is_let_through(
    serve: Serve, tmp_path: Path, model: str
) -> None:
    _, upstream = serve(up.says({}), models=("m",))
    assert ask(tmp_path, {"model": model})[0] == 200
    assert len(upstream.asked) == 1


def test_a_model_named_by_the_path_needs_no_other_word_of_it(serve: Serve, tmp_path: Path) -> None:
    paths = ("POST /models/m:generate", "POST /models/mm:generate")
    _, upstream = serve(up.says({}), models=("m",), paths=paths)
    bodies = [{"contents": []}, {"model": "m"}, {"model": "dear"}, {"model": None}]
    assert [ask(tmp_path, body, target="/models/m:generate")[0] for body in bodies] == [
        200,
        200,
        403,
        403,
    ]
    assert ask(tmp_path, {}, target="/models/mm:generate")[0] == 403
    assert len(upstream.asked) == 2 and logged(tmp_path, 1)[0]["model"] == "m"


def test_the_provider_reads_the_same_model_as_the_host(serve: Serve, tmp_path: Path) -> None:
    _, upstream = serve(up.says({}), models=("m",))
    assert ask(tmp_path, b'{"model": "dear", "model": "m", "x": "\xc3\xa9"}')[0] == 200
    assert upstream.asked[0].body == b'{"model":"m","x":"\\u00e9"}'


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]},
        {"tools": [{"type": "web_search_preview_2025_03_11"}]},
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {"tools": [{"type": "code_execution_20250522"}]},
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"tools": [{"type": "mcp", "server_url": "https://x"}]},
        {"tools": [{"type": "namespace", "tools": [{"type": "Web-Search"}]}]},
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"google_search": {}}]},
        {"tools": [{"codeExecution": {}}, {"functionDeclarations": []}]},
        {"tools": [{"type": "function", "googleSearch": {}}]},
        {"tools": [{"type": "custom", "name": "f", "code_execution": {}}]},
        {"tools": [{"type": "namespace", "tools": [{"type": "function", "urlContext": {}}]}]},
        {"tools": {"googleSearch": {}}},
        {"mcp_servers": [{"url": "https://x"}]},
        {"web_search_options": {}},
        {"plugins": [{"id": "web"}]},
        {"input": [{"type": "additional_tools", "tools": [{"type": "web_search"}]}]},
        {"prompt": {"id": "pmpt_1"}},
        {str(number): 1 for number in range(30_000)},
    ],
    ids=lambda body: str(body)[:80],
)  # fmt: skip
def test_tools_that_work_elsewhere_are_refused(serve: Serve, tmp_path: Path, body: Any) -> None:
    _, upstream = serve(up.says({}))
    status, _, said = ask(tmp_path, body)
    assert (status, json.loads(said)["error"]["code"]) == (403, "tool_refused")
    assert re.search("outside the sandbox|cannot be checked", json.loads(said)["error"]["message"])
    assert upstream.asked == []
    assert logged(tmp_path, 1)[0]["refused"] == "tool_refused"


def test_tools_that_run_in_the_sandbox_pass_whatever_their_name(
    serve: Serve, tmp_path: Path
) -> None:
    serve(up.says({}))
    tools = [
        {"type": "function", "function": {"name": "web_search"}}, {"name": "web_fetch", "input_schema": {}},
        {"type": "bash_20250124", "name": "bash"}, {"type": "custom", "name": "mcp"}, {"type": "local_shell"},
        {"type": "function", "name": "mcp__x__y", "strict": True, "parameters": {"properties": {"mcp": {}}}},
        {"type": "custom", "name": "web_search", "input_schema": {}, "cache_control": {"type": "ephemeral"}},
        {"functionDeclarations": [{"name": "code_execution"}]},
    ]  # fmt: skip
    assert ask(tmp_path, {"tools": tools, "tool_choice": "auto"})[0] == 200
    told = [
        {"role": "user", "content": "web_search"},
        {"type": "additional_tools", "tools": tools},
        "mcp",
    ]
    assert ask(tmp_path, {"input": told, "prompt": "go"})[0] == 200


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"no json", {}, 400),
        (b"[1]", {}, 400),
        (b'{"model": "m", "Model": "dear"}', {}, 400),
        (b'{"Tools": [{"type": "web_search"}]}', {}, 400),
        (b'{"x": NaN}', {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"x": ' + b"9" * 5000 + b"}", {}, 400),
        (b"{}", {"Content-Encoding": "gzip"}, 415),
        (b"{}", {"Content-Length": str(proxy_rules.MAX_BODY_BYTES + 1)}, 413),
        (b'{"x":[' + b"[]," * 1_000_000 + b"[]]}", {}, 413),
        (b'{"x":[' + b'{"a":1},' * 700_000 + b"1]}", {}, 413),
        ('{"x":"' + "\u00e9" * (proxy_rules.MAX_BODY_BYTES // 4) + '"}', {}, 413),
    ],
    ids=[
        "text",
        "list",
        "case",
        "tools",
        "nan",
        "deep",
        "long",
        "gzip",
        "large",
        "lists",
        "objects",
        "escapes",
    ],
)
def test_a_body_that_cannot_be_checked_is_refused(
    serve: Serve, tmp_path: Path, body: bytes | str, headers: dict[str, str], status: int
) -> None:
    _, upstream = serve(up.says({}))
    assert (
        ask(tmp_path, body.encode() if isinstance(body, str) else body, headers=headers)[0]
        == status
    )
    assert upstream.asked == []


def test_one_body_at_a_time_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    most: list[int] = []

    def loads(_text: bytes, **_: Any) -> Any:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.02)
        inside.pop()
        return {}

    monkeypatch.setattr("evopolicy.execution.proxy.rules.json.loads", loads)
    asking = [
        threading.Thread(target=checked_body, args=(EXAMPLE, "POST", "/chat", b"{}", ""))
        for _ in range(8)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert most == [1] * 8


def test_a_long_text_full_of_marks_passes(serve: Serve, tmp_path: Path) -> None:
    serve(up.says({}))
    assert ask(tmp_path, {"x": "a, b: {c} [d]\n" * 50_000})[0] == 200


def test_a_body_in_chunks_is_taken_and_checked(serve: Serve, tmp_path: Path) -> None:
    _, upstream = serve(up.says({}), models=("m",))
    client = up.Client(tmp_path / "1.sock")
    client.request("POST", "/chat", iter([b'{"model":', b' "m"}']), encode_chunked=True)
    assert client.getresponse().status == 200
    assert upstream.asked[0].json == {"model": "m"}


# --- what comes back ------------------------------------------------------------------------------


def test_events_are_handed_on_one_by_one_as_they_come(serve: Serve, tmp_path: Path) -> None:
    seen = threading.Event()

    def answer(link: socket.socket, _: Any) -> None:
        link.sendall(up.EVENTS + up.chunk("data: one\n\n"))
        assert seen.wait(PATIENCE), "the first event was held back"
        usage = {
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            }
        }
        link.sendall(up.chunk(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n") + b"0\r\n\r\n")

    serve(answer)
    client = up.Client(tmp_path / "1.sock")
    client.request("POST", "/chat", b'{"stream": true, "model": "m"}')
    response = client.getresponse()
    assert response.getheader("Content-Type") == "text/event-stream"
    assert response.read1(1000) == b"data: one\n\n"
    seen.set()
    assert response.read().endswith(b"data: [DONE]\n\n")
    (line,) = logged(tmp_path, 1)
    assert (line["method"], line["path"], line["model"], line["status"]) == (
        "POST",
        "/chat",
        "m",
        200,
    )
    assert (line["input_tokens"], line["cached_tokens"], line["output_tokens"]) == (5, 4, 2)
    assert line["bytes"] > 20 and line["seconds"] >= 0 and "error" not in line


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 2}},
         (7, 0, 0, 3, 2)),
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 4}, (4, 5, 0, 4, 0)),
        (
            {"input_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 6, "output_tokens": 4},
            (1, 5, 6, 4, 0),
        ),
        (
            {"promptTokenCount": 9, "cachedContentTokenCount": 2, "candidatesTokenCount": 3, "thoughtsTokenCount": 1},
            (7, 2, 0, 4, 1),
        ),
        ({"input_tokens": -1, "output_tokens": "many"}, (0, 0, 0, 0, 0)),
    ],
)  # fmt: skip
def test_every_providers_usage_is_read_in_the_same_words(
    usage: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert tuple(tokens(usage).values()) == expected


def test_a_streams_usage_is_put_together_from_its_events_however_they_are_cut() -> None:
    events = [
        {"message": {"usage": {"input_tokens": 11, "cache_read_input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_delta", "delta": {"text": 'he said "usage"'}},
        {"type": "message_delta", "usage": {"output_tokens": 20}},
    ]  # fmt: skip
    text = "".join(f"event: x\r\ndata: {json.dumps(event)}\r\n\r\n" for event in events).encode()
    for size in (1, 7, len(text)):
        reader = UsageReader("text/event-stream; charset=utf-8")
        for start in range(0, len(text), size):
            reader.feed(text[start : start + size])
        assert (reader.usage()["input_tokens"], reader.usage()["cached_tokens"]) == (11, 3)
        assert reader.usage()["output_tokens"] == 20
    completed = UsageReader("text/event-stream")
    completed.feed(
        b'data: {"type": "response.completed", "response": {"usage": {"input_tokens": 2, "output_tokens": 3}}}\n'
    )
    assert completed.usage()["output_tokens"] == 3
    assert UsageReader("text/plain").usage() == {}


def test_a_bare_429_says_when_to_come_back_and_one_that_does_is_left_alone(
    serve: Serve, tmp_path: Path
) -> None:
    serve(up.says({"error": {}}, "429 Too Many Requests"), retry_after_seconds=7)
    serve(up.says({"error": {}}, "429 Too Many Requests", "Retry-After: 2"), retry_after_seconds=7)
    serve(up.says({"error": {}}, "429 Too Many Requests"))
    assert [ask(tmp_path, {}, n=n)[1].get("retry-after") for n in (1, 3, 5)] == ["7", "2", None]


# --- limits ---------------------------------------------------------------------------------------


def test_requests_over_the_cap_are_refused_with_a_sentence(serve: Serve, tmp_path: Path) -> None:
    _, upstream = serve(up.says({}), limits=replace(NO_LIMITS, requests=2))
    assert [ask(tmp_path, {})[0] for _ in range(2)] == [200, 200]
    status, _, body = ask(tmp_path, {})
    assert (
        status == 403
        and "2 requests to its provider are used up" in json.loads(body)["error"]["message"]
    )
    assert len(upstream.asked) == 2


def test_tokens_over_the_cap_are_refused_and_earlier_attempts_count(
    serve: Serve, tmp_path: Path
) -> None:
    earlier = tmp_path / "attempt-0"
    earlier.mkdir()
    lines = [
        {"input_tokens": 60, "output_tokens": 20, "reasoning_tokens": 20},
        {"refused": "limit"},
    ]
    (earlier / PROXY_LOG).write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + '{"half a li'
    )
    usage = {"usage": {"input_tokens": 10, "output_tokens": 15}}
    proxy, _ = serve(up.says(usage), limits=replace(NO_LIMITS, tokens=100, requests=5))
    assert (proxy.log.requests, proxy.log.tokens) == (1, 80)
    assert ask(tmp_path, {})[0] == 200
    logged(tmp_path, 1)
    status, _, body = ask(tmp_path, {})
    assert status == 403 and "100 tokens are used up" in json.loads(body)["error"]["message"]


def test_too_many_requests_at_once_are_told_to_come_back(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "IN_FLIGHT", 1)
    go, here = threading.Event(), threading.Event()

    def answer(link: socket.socket, asked: Any) -> None:
        here.set()
        go.wait(PATIENCE)
        up.says({})(link, asked)

    serve(answer)
    first = threading.Thread(target=ask, args=(tmp_path, {}))
    first.start()
    assert here.wait(PATIENCE)
    status, headers, _ = ask(tmp_path, {})
    assert (status, headers["retry-after"]) == (429, "2")
    go.set()
    first.join()
    logged(tmp_path, 2)
    assert ask(tmp_path, {})[0] == 200


def test_what_came_after_the_last_line_of_the_log_is_spent_in_the_next_attempt_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evopolicy.execution.proxy.log.MAX_LINES", 2)
    for name in ("attempt-1", "attempt-2"):
        (tmp_path / name).mkdir()
    first = ProxyLog(tmp_path / "attempt-1", NO_LIMITS)
    for _ in range(5):
        assert first.begin() == ""
        first.write({"input_tokens": 10, "output_tokens": 1})
        first.write({"refused": "limit"})
    assert len((tmp_path / "attempt-1" / PROXY_LOG).read_text().splitlines()) == 2
    second = ProxyLog(tmp_path / "attempt-2", NO_LIMITS)
    assert (second.requests, second.tokens) == (first.requests, first.tokens) == (5, 55)


@pytest.mark.parametrize("ending", ["usage", "nothing"])
def test_an_agent_that_hangs_up_early_pays_for_the_whole_answer(
    serve: Serve, tmp_path: Path, ending: str
) -> None:
    gone = threading.Event()

    def answer(link: socket.socket, _: Any) -> None:
        start = {"message": {"usage": {"input_tokens": 11, "output_tokens": 1}}}
        link.sendall(up.EVENTS + up.chunk(f"data: {json.dumps(start)}\n\n"))
        assert gone.wait(PATIENCE)
        for _number in range(100):
            link.sendall(up.chunk(f"data: {json.dumps({'delta': {'text': 'x' * 40}})}\n\n"))
            threading.Event().wait(0.001)
        if ending == "usage":
            link.sendall(up.chunk('data: {"usage": {"output_tokens": 900}}\n\n') + b"0\r\n\r\n")

    serve(answer)
    client = up.Client(tmp_path / "1.sock")
    client.request("POST", "/chat", b'{"stream": true}')
    assert client.getresponse().read1(20)
    client.close()
    gone.set()
    (line,) = logged(tmp_path, 1)
    assert line["input_tokens"] == 11 and line["error"].startswith("the agent left")
    assert (line["output_tokens"], line.get("estimated")) == (
        (900, None) if ending == "usage" else (1000, True)
    )


def test_a_streamed_chat_is_asked_to_report_its_tokens(serve: Serve, tmp_path: Path) -> None:
    _, upstream = serve(up.says({}), paths=("POST /chat/completions", "POST /responses"))
    for target, body in (
        ("/chat/completions", {"stream": True}),
        ("/chat/completions", {"stream": True, "stream_options": {"include_usage": False, "x": 1}}),
        ("/chat/completions", {"stream": False}), ("/responses", {"stream": True}),
    ):  # fmt: skip
        assert ask(tmp_path, body, target=target)[0] == 200
    assert [asked.json.get("stream_options") for asked in upstream.asked] == [
        {"include_usage": True}, {"include_usage": True, "x": 1}, None, None,
    ]  # fmt: skip


def test_an_answer_that_reports_nothing_is_estimated_from_its_bytes(
    serve: Serve, tmp_path: Path
) -> None:
    said = {"choices": [{"message": {"role": "assistant", "content": "y" * 400}}], "object": "chat"}
    paths = ("POST /chat", "POST /count_tokens")
    serve(up.says(said), limits=replace(NO_LIMITS, tokens=200), paths=paths)
    assert ask(tmp_path, {"x": "z" * 392}, target="/count_tokens")[0] == 200
    assert ask(tmp_path, {"x": "z" * 392})[0] == 200
    free, line = logged(tmp_path, 2)
    assert "input_tokens" not in free and (line["input_tokens"], line["output_tokens"]) == (
        100,
        100,
    )
    assert line["estimated"] is True
    assert ask(tmp_path, {})[0] == 403
    serve(up.says({"error": {"message": "e" * 400}}, "500 Oh"))
    assert ask(tmp_path, {"x": 1}, n=3)[0] == 500
    assert "estimated" not in logged(tmp_path, 4)[-1]


# --- a provider that fails ------------------------------------------------------------------------


def cut_before(link: socket.socket, _: Any) -> None:
    up.reset(link)


def nonsense(link: socket.socket, _: Any) -> None:
    link.sendall(b"\x00\x01 this is no HTTP\r\n\r\n")


def silent(link: socket.socket, _: Any) -> None:
    link.recv(1)


@pytest.mark.parametrize(
    ("fault", "status", "seconds"),
    [(cut_before, 502, PATIENCE), (nonsense, 502, PATIENCE), (silent, 504, 0.3)],
)
def test_a_provider_that_does_not_answer_is_a_clean_error(
    serve: Serve, tmp_path: Path, fault: Any, status: int, seconds: float
) -> None:
    serve(fault, answer_seconds=seconds)
    found, headers, body = ask(tmp_path, {})
    assert (found, headers["content-type"]) == (status, "application/json")
    assert json.loads(body)["error"]["message"].startswith("EvoPolicy: the provider")
    assert logged(tmp_path, 1)[0]["error"].startswith("provider_")


def test_an_answer_that_does_not_come_in_time_costs_what_was_asked(
    serve: Serve, tmp_path: Path
) -> None:
    serve(silent, answer_seconds=0.3)
    assert ask(tmp_path, {"x": "y" * 392})[0] == 504
    (line,) = logged(tmp_path, 1)
    assert (line["input_tokens"], line["output_tokens"], line["estimated"]) == (100, 0, True)


def test_a_provider_that_is_not_there_is_a_clean_error(serve: Serve, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # nobody else's either, and not listened at
        serve(up.says({}), url=f"http://127.0.0.1:{nobody.getsockname()[1]}")
        assert ask(tmp_path, {})[0] == 502


def short(link: socket.socket, _: Any) -> None:
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")


def no_last_chunk(link: socket.socket, _: Any) -> None:
    link.sendall(up.EVENTS + up.chunk("data: one\n\n"))


def stalled(link: socket.socket, _: Any) -> None:
    link.sendall(up.EVENTS + up.chunk("data: one\n\n"))
    link.recv(1)


@pytest.mark.parametrize("fault", [short, no_last_chunk, stalled])
def test_an_answer_that_breaks_off_is_broken_off_for_the_agent_too(
    serve: Serve, tmp_path: Path, fault: Any
) -> None:
    serve(fault, answer_seconds=0.5 if fault is stalled else PATIENCE)
    count = 1
    with pytest.raises(http.client.IncompleteRead) as broken:
        while (
            ask(tmp_path, {})[0] == 504
        ):  # A busy machine may not begin to answer in the time that is to run out.
            count += 1
    assert broken.value.partial in (b"only this", b"data: one\n\n", b"")
    line = logged(tmp_path, count)[-1]
    assert line["status"] == 200 and line["bytes"] > 0 and "answer" in line["error"]


def test_an_answer_that_is_reset_is_broken_off_for_the_agent_too(
    serve: Serve, tmp_path: Path
) -> None:
    seen = threading.Event()

    def answer(link: socket.socket, _: Any) -> None:
        link.sendall(up.EVENTS + up.chunk("data: one\n\n"))
        assert seen.wait(PATIENCE)
        up.reset(link)

    serve(answer)
    client = up.Client(tmp_path / "1.sock")
    client.request("POST", "/chat", b"{}")
    response = client.getresponse()
    assert response.read1(1000) == b"data: one\n\n"
    seen.set()
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    client.close()
    line = logged(tmp_path, 1)[0]
    assert line["status"] == 200 and line["bytes"] > 0 and "answer" in line["error"]


def test_a_request_the_agent_gives_up_harms_no_other(serve: Serve, tmp_path: Path) -> None:
    serve(
        lambda link, asked: up.says({})(link, asked) if asked.json else no_last_chunk(link, asked)
    )
    for sent in (
        b"",
        b"POST",
        b"POST /chat HTTP/1.1\r\nContent-Length: 10\r\n\r\n{",
        b"\x16\x03\x01" * 50,
        b"\r\n" * 500,
    ):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(tmp_path / "1.sock"))
            link.sendall(sent)
    assert ask(tmp_path, {"x": 1})[0] == 200


def test_closing_ends_a_request_that_hangs(serve: Serve, tmp_path: Path) -> None:
    here = threading.Event()

    def answer(link: socket.socket, _: Any) -> None:
        here.set()
        link.recv(1)

    proxy, _ = serve(answer)

    def wait() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(tmp_path, {})

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert here.wait(PATIENCE)
    proxy.close()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_an_agent_that_gives_up_on_a_silent_provider_ends_its_request(
    serve: Serve, tmp_path: Path
) -> None:
    here, ended = threading.Event(), threading.Event()

    def answer(link: socket.socket, _: Any) -> None:
        here.set()
        with contextlib.suppress(OSError):
            link.recv(1)
        ended.set()

    serve(answer)
    client = up.Client(tmp_path / "1.sock")
    client.request("POST", "/chat", b"{}")
    assert here.wait(PATIENCE)
    client.sock.shutdown(socket.SHUT_WR)  # all the sandbox's forwarder does when the agent closes
    assert ended.wait(PATIENCE), "the provider is still waited for"
    (line,) = logged(tmp_path, 1)
    assert "the agent left" in line["error"] and line["estimated"] is True
    client.close()


# --- the Host's own proxy -------------------------------------------------------------------------


@pytest.fixture
def corporate(monkeypatch: pytest.MonkeyPatch) -> Iterator[up.Upstream]:
    """The Host's own proxy: notes what it is asked and answers every plain request itself."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)

    def answer(link: socket.socket, asked: up.Asked) -> None:
        if asked.method != "CONNECT":
            up.says({"by": "proxy"})(link, asked)
        elif "none" in asked.target:
            link.sendall(b"HTTP/1.1 407 Login first\r\n\r\n")
        else:
            link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            link.sendall(link.recv(1000).upper())

    with up.provider(answer) as server:
        monkeypatch.setenv("HTTPS_PROXY", server.url.replace("localhost", "me:a%40b@localhost"))
        monkeypatch.setenv("HTTP_PROXY", server.url)
        yield server


def test_the_hosts_own_proxy_leads_to_the_provider(
    serve: Serve, tmp_path: Path, corporate: up.Upstream
) -> None:
    serve(up.says({}), url="http://api.invalid:81/v1")
    assert json.loads(ask(tmp_path, {})[2]) == {"by": "proxy"}
    assert corporate.asked[0].target == "http://api.invalid:81/v1/chat"
    assert corporate.asked[0].headers["host"] == "api.invalid:81"
    serve(up.says({}), url="https://none.invalid/v1")
    status, _, body = ask(tmp_path, {}, n=3)
    assert (
        status == 502
        and "the Host's own proxy: Tunnel connection failed: 407"
        in json.loads(body)["error"]["message"]
    )
    assert (corporate.asked[1].method, corporate.asked[1].target) == ("CONNECT", "none.invalid:443")
    assert corporate.asked[1].headers["proxy-authorization"] == "Basic bWU6YUBi"


def test_a_tunnel_goes_by_the_hosts_own_proxy_too(
    serve: Serve, tmp_path: Path, corporate: up.Upstream
) -> None:
    serve(up.says({}), url="https://api.invalid", tunnel=True)
    client = up.Client(tmp_path / "1.sock")
    client.connect()
    client.sock.sendall(b"CONNECT api.invalid:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert client.sock.recv(1000).startswith(b"HTTP/1.1 200")
    client.sock.sendall(b"hello")
    assert client.sock.recv(1000) == b"HELLO"
    client.close()
    assert corporate.asked[0].target == "api.invalid:443"


def test_this_machine_and_what_no_proxy_names_are_asked_straight(
    serve: Serve, tmp_path: Path, corporate: up.Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(up.says({"straight": 1}))
    assert json.loads(ask(tmp_path, {})[2]) == {"straight": 1}
    monkeypatch.setenv("NO_PROXY", "example.com,api.invalid")
    serve(up.says({}), url="http://api.invalid")
    assert ask(tmp_path, {}, n=3)[0] == 502
    assert corporate.asked == []


def test_a_proxy_of_another_kind_is_refused_before_anything_is_spent(
    corporate: up.Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert corporate
    monkeypatch.setenv("HTTPS_PROXY", "socks5://localhost:1080")
    for network in ("proxy", "allowlist"):
        with pytest.raises(AgentError, match=r"HTTPS_PROXY .*'http://name:port' is needed"):
            agent_network.check("bubblewrap", network, replace(EXAMPLE, key_variable=""))
    assert agent_network.check("bubblewrap", "open", replace(EXAMPLE, key_variable="")) == "open"


def test_the_log_holds_no_key_no_header_and_no_text(serve: Serve, tmp_path: Path) -> None:
    serve(up.says({"text": "the answer", "usage": {"input_tokens": 1, "output_tokens": 1}}))
    ask(
        tmp_path, {"prompt": "the question"}, target="/chat?key=abc", headers={"X-Mine": "a-header"}
    )
    ask(tmp_path, {}, method="POST", target=f"/files?key={KEY}")
    logged(tmp_path, 2)
    text = (tmp_path / "attempt-1" / PROXY_LOG).read_text()
    for secret in (KEY, "the question", "the answer", "a-header", "abc", "Bearer"):
        assert secret not in text


def test_a_long_path_holds_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    proxy = Proxy(
        replace(EXAMPLE, url="http://127.0.0.1:1"),
        "",
        folder / "proxy.sock",
        tmp_path,
        limits=NO_LIMITS,
    )
    assert (folder / "proxy.sock").is_socket()
    proxy.close()


# --- TLS ------------------------------------------------------------------------------------------


def certified(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS as localhost, and the certificate to trust it by."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = (
        f"req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {certificate} -subj "
        "/CN=localhost"
    )
    subprocess.run(
        ["openssl", *words.split(), "-addext", "subjectAltName=DNS:localhost"],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


@pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl: no such program to make a certificate with"
)
def test_the_providers_certificate_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, certificate = certified(tmp_path)
    with up.provider(up.says({"ok": 1}), context) as upstream:
        for n, (trusted, expected) in enumerate(((False, 502), (True, 200)), 1):
            if trusted:
                monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            provider = ModelProvider(upstream.url, ("POST /chat",))
            proxy = Proxy(provider, "", tmp_path / f"{n}.sock", tmp_path, limits=NO_LIMITS)
            assert ask(tmp_path, {}, n=n)[0] == expected
            proxy.close()


@pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl: no such program to make a certificate with"
)
def test_an_agent_shakes_hands_with_a_named_host_itself(serve: Serve, tmp_path: Path) -> None:
    context, certificate = certified(tmp_path)
    with up.provider(up.says({"ok": 1}), context) as upstream:
        serve(up.says({}), tunnel=True, hosts=(f"localhost:{upstream.port}",))
        client = up.Client(tmp_path / "1.sock")
        client.connect()
        client.sock.sendall(
            f"CONNECT localhost:{upstream.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        )
        assert client.sock.recv(1000).startswith(b"HTTP/1.1 200")
        mine = ssl.create_default_context(cafile=str(certificate))
        with mine.wrap_socket(client.sock, server_hostname="localhost") as link:
            link.sendall(b"GET /whoami HTTP/1.1\r\nAuthorization: Bearer my-login\r\n\r\n")
            said = b"".join(iter(lambda: link.recv(1000), b""))
        client.close()
    assert (
        said.endswith(b'{"ok": 1}')
        and upstream.asked[0].headers["authorization"] == "Bearer my-login"
    )
    (line,) = logged(tmp_path, 1)
    assert line["status"] == 200 and "my-login" not in str(line)


# --- a tunnel -------------------------------------------------------------------------------------


def test_a_tunnel_leads_to_the_named_hosts_only(serve: Serve, tmp_path: Path) -> None:
    _, upstream = serve(up.says({"ok": 1}), tunnel=True)
    other = up.Upstream(up.says({}))
    client = up.Client(tmp_path / "1.sock")
    client.connect()
    client.sock.sendall(f"CONNECT LOCALHOST:{upstream.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert client.sock.recv(1000).startswith(b"HTTP/1.1 200")
    client.sock.sendall(b"GET /anything HTTP/1.1\r\n\r\n")
    said = b""
    while data := client.sock.recv(1000):
        said += data
    client.close()
    assert said.endswith(b'{"ok": 1}') and upstream.asked[0].target == "/anything"
    assert "authorization" not in upstream.asked[0].headers
    for method, target in (
        ("CONNECT", f"localhost:{other.port}"), ("CONNECT", f"127.0.0.1:{upstream.port}"), ("CONNECT", "localhost"),
        ("GET", f"{upstream.url}/x"), ("POST", "/chat"),
    ):  # fmt: skip
        status, _, body = ask(tmp_path, {}, method=method, target=target)
        assert (status, json.loads(body)["error"]["code"]) == (403, "host_refused"), (
            method,
            target,
        )
    other.close()
    lines = logged(tmp_path, 6)
    done = next(line for line in lines if line.get("status") == 200)
    assert done["bytes"] == len(said) and done["bytes_up"] == 26
    assert sum("refused" in line for line in lines) == 5 and other.asked == []


def test_early_words_reach_the_named_host(serve: Serve, tmp_path: Path) -> None:
    _, upstream = serve(up.says({"ok": 1}), tunnel=True)
    client = up.Client(tmp_path / "1.sock")
    client.connect()
    # They come along with what asks for the tunnel.
    asked = (
        f"CONNECT localhost:{upstream.port} HTTP/1.1\r\nHost: x\r\n\r\n"
        + "GET /early HTTP/1.1\r\n\r\n"
    )
    client.sock.sendall(asked.encode())
    said = b""
    while data := client.sock.recv(1000):
        said += data
    client.close()
    assert said.endswith(b'{"ok": 1}') and upstream.asked[0].target == "/early"
    assert logged(tmp_path, 1)[0]["bytes_up"] == len("GET /early HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("moves", [0, 100])
def test_a_tunnel_that_is_quiet_one_way_goes_on_while_the_other_is_not(
    monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    waits: list[int] = []

    async def wait(tasks: Any, **_: Any) -> Any:
        """Nothing of what is waited for has ended; of `down`, a byte came a wait."""
        waits.append(1)
        down.total += len(waits) <= moves
        return set(), tasks

    async def carried() -> None:
        near, far = (tunnel.Stream(asyncio.StreamReader(), MagicMock()) for _ in range(2))
        await tunnel.carry(near, far, tunnel.Way(), down, 10.0)

    down = tunnel.Way()
    monkeypatch.setattr(tunnel, "asyncio", SimpleNamespace(**{**vars(asyncio), "wait": wait}))
    asyncio.run(carried())
    assert len(waits) == moves + 1
