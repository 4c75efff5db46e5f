"""`chat`: its loop as a plain process against a scripted server and a scripted session, and its
stream read back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from evopolicy.agents import load_agent
from evopolicy.agents.chat.integration import AGENT_VARIABLE, Chat
from evopolicy.agents.chat.script.api import Answer, Call
from evopolicy.agents.chat.script.history import History, fenced_calls, parsed, split_thoughts
from evopolicy.agents.chat.script.schema import TOOLS, Mistaken, checked, schemas
from evopolicy.agents.chat.script.tools import HeadTail, Result, Toolbox
from evopolicy.agents.contract import AgentContract, check_agent
from evopolicy.kernel.errors import AgentError, ConfigError
from evopolicy.kernel.ports.protocols import AgentTask
from evopolicy.kernel.ports.transcript import Transcript
from evopolicy.kernel.run.stream import load_transcripts
from evopolicy.kernel.session.record import load_run

CONF = Path(__file__).parents[2] / "conf" / "agent" / "chat.yaml"
NEEDED: dict[str, Any] = {
    "model": "m-1",
    "base_url": "http://127.0.0.1:8000/v1",
    "retry_seconds": 0.01,
}
SESSION = '''\
"""Answers as a Session would; what it was asked is in `calls`."""
import json, pathlib, sys
verb, here = sys.argv[1], pathlib.Path(__file__).parent
with (here / "calls").open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
waits = (here / "calls").read_text().splitlines().count("wait")
over = here / "over"
if verb == "finish":
    over.touch()
if verb == "submit" and "99" in sys.argv[-1]:
    print("{}")
    print("There is no index 99.\\nName indices from 0 to 15.", file=sys.stderr)
    sys.exit(1)
answer = {"state": "finished" if over.exists() else "open"}
if verb in ("submit", "wait"):
    answer["submission"] = {"id": 1, "status": "published" if waits >= 2 else "running", "score": 9.5}
print(json.dumps(answer))
'''


def chat(**options: Any) -> Chat:
    agent = load_agent("chat", {**yaml.safe_load(CONF.read_text()), **NEEDED, **options})
    assert isinstance(agent, Chat)
    return agent


# --- a scripted server ----------------------------------------------------------------------------


@dataclass
class Said:
    """One answer of the model's."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    """Name and arguments; a text is sent as it is."""
    reasoning: str = ""
    finish: str = ""
    usage: dict[str, Any] | None = field(
        default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10}
    )


@dataclass
class Refused:
    """An HTTP status with an error."""

    status: int
    message: str = "no"
    headers: dict[str, str] = field(default_factory=dict)
    code: str = ""


@dataclass
class Broken:
    """A stream with these lines and no end."""

    lines: tuple[str, ...] = ()


FINISH = Said("Done.", [("finish", {})])
Reply = Said | Refused | Broken


class Server(ThreadingHTTPServer):
    """Answers the n-th request with the n-th of `replies`."""

    daemon_threads = True

    def __init__(self, replies: Sequence[Reply]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        assert self.path == "/v1/chat/completions"
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.server.keys.append(self.headers["Authorization"])
        number = len(self.server.bodies)
        reply = self.server.replies[number - 1] if number <= len(self.server.replies) else FINISH
        if isinstance(reply, Refused):
            error = {"error": {"message": reply.message, "code": reply.code or None}}
            return self.send(reply.status, "application/json", json.dumps(error), reply.headers)
        if isinstance(reply, Broken):
            return self.send(
                200, "text/event-stream", "".join(f"data: {line}\n\n" for line in reply.lines)
            )
        if body.get("stream"):
            assert body["stream_options"] == {"include_usage": True}
            return self.send(200, "text/event-stream", "".join(streamed(reply, number)))
        return self.send(200, "application/json", json.dumps(whole(reply, number)))

    def send(
        self, status: int, kind: str, text: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())


def message(said: Said) -> dict[str, Any]:
    calls = [
        {"index": i, "id": f"c{i}", "type": "function", "function": {
            "name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(said.calls)
    ]  # fmt: skip
    reasoning = {"reasoning_content": said.reasoning} if said.reasoning else {}
    return {"content": said.text or None, **reasoning, **({"tool_calls": calls} if calls else {})}


def ended(said: Said) -> str:
    return said.finish or ("tool_calls" if said.calls else "stop")


def whole(said: Said, number: int) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message(said)},
        "finish_reason": ended(said),
    }
    return {
        "id": f"r-{number}",
        "choices": [choice],
        **({"usage": said.usage} if said.usage else {}),
    }


def streamed(said: Said, number: int) -> Iterator[str]:
    """Every text in two pieces."""
    made = message(said)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for key in ("reasoning_content", "content"):
        if text := made.get(key):
            deltas += [{key: text[:3]}, {key: text[3:]}]
    for call in made.get("tool_calls", ()):
        first, rest = call["function"]["arguments"][:5], call["function"]["arguments"][5:]
        deltas += [
            {
                "tool_calls": [
                    {**call, "function": {"name": call["function"]["name"], "arguments": first}}
                ]
            }
        ]
        deltas += [{"tool_calls": [{"index": call["index"], "function": {"arguments": rest}}]}]
    for delta in deltas:
        yield f"data: {json.dumps({'id': f'r-{number}', 'choices': [{'index': 0, 'delta': delta}]})}\n\n"
    yield f"data: {json.dumps({'id': f'r-{number}', 'choices': [{'delta': {}, 'finish_reason': ended(said)}]})}\n\n"
    if said.usage:
        yield f"data: {json.dumps({'id': f'r-{number}', 'choices': [], 'usage': said.usage})}\n\n"
    yield "data: [DONE]\n\n"


@dataclass
class Done:
    """What one process of the loop left."""

    code: int
    lines: list[str]
    transcript: Transcript
    bodies: list[dict[str, Any]]
    keys: list[str | None]
    session: list[str]
    """What the session command was asked."""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def results(self) -> list[str]:
        return [event["text"] for event in self.of("tool_result")]


@dataclass
class Place:
    """A workspace, a home and a session command, kept from one process to the next."""

    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def task(self, url: str, **changes: Any) -> AgentTask:
        values: dict[str, Any] = {
            "workspace": self.workspace, "prompt": "Read TASK.md.", "seed": 3,
            "session_command": (sys.executable, "-I", "-S", str(self.folder / "session.py")),
            "python": Path(sys.executable), "staging": self.folder / "staging", "provider_url": url,
        }  # fmt: skip
        return AgentTask(**{**values, **changes})

    def run(
        self,
        replies: Sequence[Reply],
        *,
        variables: dict[str, str] | None = None,
        session_id: str = "",
        **options: Any,
    ) -> Done:
        """Run the loop to its end against a server that says `replies`, then finishes."""
        agent, server = chat(**options), Server(replies)
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            task = self.task(server.url, session_id=session_id, resumed=bool(session_id))
            invocation = agent.invoke(task)
            for name, text in invocation.files.items():
                (task.staging / name).parent.mkdir(parents=True, exist_ok=True)
                (task.staging / name).write_text(text)
            env = {
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder / "home"),
                "PYTHONSAFEPATH": "1",
            }
            done = subprocess.run(
                list(invocation.argv), cwd=self.workspace, env={**env, **(variables or {})}, input=invocation.stdin,
                capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        assert "Traceback" not in done.stderr, done.stderr
        lines = done.stdout.splitlines(keepends=True)
        calls = self.folder / "calls"
        asked = calls.read_text().splitlines() if calls.exists() else []
        return Done(done.returncode, lines, agent.read(lines), server.bodies, server.keys, asked)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in ("workspace/program", "home", "staging"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "workspace" / "TASK.md").write_text("Balance the pole.\n")
    (tmp_path / "session.py").write_text(SESSION)
    return Place(tmp_path)


# --- the loop -------------------------------------------------------------------------------------

WORK = [
    Said("I read.", [("read", {"path": "TASK.md"})], reasoning="First the task."),
    Said(
        "",
        [
            ("edit", {"path": "program/policy.py", "content": "x = 1\n"}),
            ("shell", {"command": "cat program/*.py"}),
        ],
    ),
    Said("", [("submit", {"episodes": "0:4"})]),
    FINISH,
]


@pytest.mark.parametrize("stream", [True, False])
def test_it_works_until_it_finishes_and_its_stream_says_all_of_it(
    place: Place, stream: bool
) -> None:
    done = place.run(WORK, stream=stream)
    assert done.code == 0
    assert done.results[0] == "Balance the pole.\n"
    assert done.results[2] == "x = 1\n[exit code 0]"
    assert done.session == ["submit program --episodes 0:4", "wait", "wait", "finish"], (
        "the tool itself waits"
    )
    transcript = done.transcript
    assert (transcript.completed, transcript.error, transcript.error_kind) == (True, "", "")
    assert [step.source for step in transcript.steps] == [
        "system",
        "user",
        "agent",
        "agent",
        "agent",
        "agent",
    ]
    assert transcript.steps[1].text == "Read TASK.md."
    reading = transcript.steps[2]
    assert (reading.text, reading.reasoning) == ("I read.", "First the task.")
    assert (reading.calls[0].name, reading.calls[0].arguments) == ("read", {"path": "TASK.md"})
    assert reading.calls[0].result == "Balance the pole.\n"
    assert [step.submission for step in transcript.steps] == [None, None, None, None, 1, None]
    usage = transcript.usage
    assert (usage.input_tokens, usage.output_tokens, usage.requests) == (400, 40, 4)
    assert transcript.response_ids == ("r-1", "r-2", "r-3", "r-4")
    assert transcript.session_id == done.events[0]["session_id"] != ""
    for step in transcript.steps[2:]:
        assert step.line is not None and done.events[step.line]["type"] == "message"
        for call in step.calls:
            assert call.line is not None and call.result_line is not None
            assert done.events[call.line]["id"] == done.events[call.result_line]["id"] == call.id
    assert len({call.id for step in transcript.steps for call in step.calls}) == 5, (
        "ids are told apart"
    )
    assert not transcript.unknown_events and not transcript.malformed_lines
    totals = done.of("done")[0]["totals"]
    assert (totals["turns"], totals["tool_calls"], totals["prompt_tokens"]) == (4, 5, 400)
    assert done.of("done")[0]["reason"] == "finished"
    check_agent(chat(), done.lines)


def test_the_conversation_goes_back_with_results_and_reasoning(place: Place) -> None:
    asked = place.run(WORK).bodies[1]["messages"]
    assert [m["role"] for m in asked] == ["system", "user", "assistant", "tool"]
    assert asked[2]["reasoning_content"] == "First the task."
    assert asked[2]["tool_calls"][0]["id"] == asked[3]["tool_call_id"]
    assert asked[3]["content"] == "Balance the pole.\n"


def test_reasoning_is_kept_back_where_it_should_be(place: Place) -> None:
    assert (
        "reasoning_content" not in place.run(WORK, return_reasoning=False).bodies[1]["messages"][2]
    )


def test_options_are_in_the_request_and_those_left_open_are_not(place: Place) -> None:
    plain = place.run([FINISH]).bodies[0]
    assert set(plain) == {"model", "messages", "tools", "stream", "stream_options"}
    (place.folder / "over").unlink()
    options: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 500,
        "effort": "high",
        "send_seed": True,
    }
    more: dict[str, Any] = {
        "output_limit_key": "max_completion_tokens",
        "request": {"top_k": 20},
        "stream": False,
    }
    body = place.run([FINISH], **options, **more).bodies[0]
    assert {key: body[key] for key in set(body) - {"messages", "tools"}} == {
        "model": "m-1", "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 500, "reasoning_effort": "high",
        "seed": 3, "top_k": 20,
    }  # fmt: skip


def test_the_key_goes_to_the_server_and_not_to_the_shell(place: Place) -> None:
    done = place.run(
        [Said("", [("shell", {"command": "env"})])],
        variables={AGENT_VARIABLE: "k-123", "OTHER": "seen"},
    )
    assert done.keys == ["Bearer k-123"] * 2
    assert "OTHER=seen" in done.results[0]
    assert "k-123" not in "".join(done.lines)
    (place.folder / "over").unlink()
    assert place.run([FINISH]).keys == [None]


def test_a_message_without_a_call_is_reminded_of_once(place: Place) -> None:
    silent = Said("I think I am done.")
    done = place.run([silent, Said("", [("status", {})]), silent, silent, FINISH])
    assert (done.code, done.of("done")[0]["reason"]) == (0, "no_call")
    assert len(done.of("reminder")) == 2, "a call in between makes it a new one"
    assert done.bodies[1]["messages"][-1]["role"] == "user"
    assert len(done.bodies) == 4
    assert [s.source for s in done.transcript.steps] == [
        "system",
        "user",
        "agent",
        "user",
        "agent",
        "agent",
        "user",
        "agent",
    ]


def test_a_session_closed_by_its_budget_or_through_the_shell_ends_the_work(place: Place) -> None:
    finish = f"{sys.executable} {place.folder}/session.py finish # evopolicy-session"
    done = place.run(
        [Said("", [("shell", {"command": finish}), ("read", {"path": "TASK.md"})]), FINISH]
    )
    assert (done.of("done")[0]["reason"], len(done.bodies), len(done.results)) == ("finished", 1, 1)


def test_a_loop_without_end_ends_after_max_turns(place: Place) -> None:
    done = place.run([Said("", [("status", {})])] * 9, max_turns=3)
    assert (done.code, done.of("done")[0]["reason"], len(done.bodies)) == (0, "max_turns", 3)


def test_what_the_session_refuses_is_told_with_its_remedy(place: Place) -> None:
    done = place.run([Said("", [("submit", {"episodes": "99"})])])
    assert done.results[0] == "There is no index 99.\nName indices from 0 to 15."
    assert done.transcript.steps[2].calls[0].failed
    assert done.transcript.steps[2].submission is None


def test_finish_names_its_submissions(place: Place) -> None:
    assert place.run([Said("", [("finish", {"submissions": [3, "1"]})])]).session == ["finish 3 1"]


# --- calls of models that cannot quite ------------------------------------------------------------


MALFORMED = [
    ("read", '{"path": "TASK', "read: the arguments are not valid JSON"),
    ("read", "[1]", "have to be one JSON object, found a list"),
    ("raed", {}, "There is no tool 'raed'. Did you mean 'read'? The tools are: shell, read"),
    ("", {}, "There is no tool ''"),
    (
        "edit",
        {},
        "edit: the argument 'path' is missing. Its arguments are: path, old, new, content.",
    ),
    ("read", {"path": "TASK.md", "lines": 3}, "read: there is no argument 'lines'"),
    ("read", {"path": {"a": 1}}, "'path' has to be a string"),
    ("read", {"path": "TASK.md", "first_line": "two"}, "'first_line' has to be an integer"),
    ("read", {"path": "nowhere.md"}, "No such file"),
    ("shell", {"command": "a\x00b"}, "null byte"),
]


def test_a_malformed_call_gets_a_clear_error_and_the_work_goes_on(place: Place) -> None:
    done = place.run([Said("", [(name, arguments)]) for name, arguments, _ in MALFORMED])
    for step, (_, _, said) in zip(done.transcript.steps[2:], MALFORMED, strict=False):
        assert said in (step.calls[0].result or "")
        assert step.calls[0].failed
    assert done.of("done")[0]["reason"] == "finished"
    for message in done.bodies[-1]["messages"]:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            assert isinstance(json.loads(function["arguments"]), dict) and function["name"], (
                "servers read it again"
            )


def test_a_call_that_was_cut_off_is_told_why(place: Place) -> None:
    done = place.run([Said("", [("edit", '{"path": "a", "content": "x')], finish="length")])
    assert "cut off at its length limit" in done.results[0]


def test_what_can_be_understood_is() -> None:
    assert parsed("") == {}
    assert parsed('{"content": "two\nlines"}') == {"content": "two\nlines"}
    assert checked("finish", {"submissions": "3, 1"}) == {"submissions": [3, 1]}
    assert checked("feedback", {"submission": "2"}) == {"submission": 2}
    assert checked("feedback", {"submission": None}) == {}
    with pytest.raises(Mistaken, match="'submission' has to be an integer, found true"):
        checked("feedback", {"submission": True})


def test_calls_are_put_together_however_a_server_numbers_them() -> None:
    numbered: list[list[dict[str, Any]]] = [
        [{"index": 0}, {"index": 1}],
        [{"index": 0}, {"index": 0}],
        [{}, {}],
    ]
    for keys in numbered:
        answer = Answer()
        for number, key in enumerate(keys):
            call = {**key, "id": f"id-{number}", "function": {"name": "read", "arguments": '{"pa'}}
            rest = {**key, "function": {"arguments": f'th": "{number}"}}'}}
            for piece in (call, rest):
                answer.feed({"choices": [{"delta": {"tool_calls": [piece]}}]})
        assert [parsed(call.arguments) for call in answer.calls] == [
            {"path": "0"},
            {"path": "1"},
        ], keys
        assert [call.name for call in answer.calls] == ["read", "read"]


def test_every_tool_is_described_and_takes_what_it_says() -> None:
    assert [schema["function"]["name"] for schema in schemas(60)] == list(TOOLS)
    for schema in schemas(60):
        parameters = schema["function"]["parameters"]
        assert set(parameters["required"]) <= set(parameters["properties"])
        assert "{" not in json.dumps([p["description"] for p in parameters["properties"].values()])


# --- text form ------------------------------------------------------------------------------------


def fenced(*calls: dict[str, Any]) -> str:
    return "\n".join(f"So:\n```tool\n{json.dumps(call)}\n```" for call in calls)


def test_a_model_without_a_tool_template_takes_part(place: Place) -> None:
    done = place.run(
        [
            Said(
                f"<think>hm ```tool\n{{}}\n```</think>{fenced({'name': 'read', 'arguments': {'path': 'TASK.md'}})}"
            ),
            Said(
                fenced(
                    {"tool": "edit", "path": "program/a.md", "content": "```tool\n```"},
                    {"name": "status"},
                )
            ),
            Said('```tool\n{"name": "read", "arguments": {"path": \n```'),
            Said("I wonder."),
            Said(fenced({"name": "finish", "arguments": {}})),
        ],
        tool_form="text",
    )
    assert done.of("done")[0]["reason"] == "finished"
    assert (place.workspace / "program" / "a.md").read_text() == "```tool\n```"
    assert done.results[0] == "Balance the pole.\n"
    assert "Your tool block cannot be read" in done.results[3]
    assert "```tool" in done.of("reminder")[0]["text"]
    assert done.transcript.steps[2].reasoning.startswith("hm")
    last = done.bodies[-1]
    assert "tools" not in last
    assert [m["role"] for m in last["messages"]] == ["user", "assistant"] * 4 + ["user"], (
        "they take turns"
    )
    assert "- submit: Measure the Program" in last["messages"][0]["content"]
    assert last["messages"][2]["content"] == "Result of read:\nBalance the pole.\n"
    assert "think" not in last["messages"][1]["content"]
    assert done.transcript.completed


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("no block", []),
        ('```json\n{"name": "read"}\n```', []),
        ('```tool\n{"name": "status"}\n```', [("status", "{}")]),
        ('  ``` tool \n\n{"name": "status"}```', [("status", "{}")]),
        ('```tool\n{"name": "a"}\n{"name": "b"}\n```\n', [("a", "{}"), ("b", "{}")]),
        ('```tool\n{"name": "a"}\n```tool\n{"name": "b"}', [("a", "{}"), ("b", "{}")]),
        ('```tool\n{"name": "a", "parameters": {"x": 1}}\n```', [("a", '{"x": 1}')]),
        ('```tool\n{"name": "a", "arguments": "{}"}\n```', [("a", "{}")]),
        ('```tool\n{"name": "a", "x": "l1\nl2"}\n```', [("a", '{"x": "l1\\nl2"}')]),
        ("```tool\nread TASK.md\n```\nand more", [("", "read TASK.md\n")]),
        ("```tool\n[1]\n```", [("", "[1]")]),
        ("```tool\n", [("", "")]),
    ],
)
def test_tool_blocks_are_found_in_text(text: str, calls: list[tuple[str, str]]) -> None:
    assert [(call.name, call.arguments) for call in fenced_calls(text)] == calls


def test_thoughts_a_server_left_in_the_text_are_parted_from_it() -> None:
    for text in ("<think>why\n</think>\n\nSo.", "why</think>So."):
        answer = Answer(text=text)
        split_thoughts(answer)
        assert (answer.reasoning, answer.text) == ("why", "So.")


# --- errors ---------------------------------------------------------------------------------------


def test_passing_errors_are_tried_again_and_told(place: Place) -> None:
    soon = formatdate(0, usegmt=True)
    event = json.dumps({"id": "r-cut", "choices": [{"delta": {"content": "Hal"}}]})
    done = place.run(
        [
            Refused(429, "slow down", {"Retry-After": "0"}), Refused(429, "slow down", {"Retry-After": soon}),
            Refused(503), Refused(529, "overloaded"), Broken((event,)), Broken(("{not json",)), Broken(),
            Broken((json.dumps({"error": {"message": "engine died", "code": 500}}),)), FINISH,
        ],
        retries=8,
    )  # fmt: skip
    assert done.code == 0
    retries = done.of("retry")
    assert [retry["kind"] for retry in retries] == [
        "rate_limit", "rate_limit", "overload", "overload", "network", "network", "network", "overload",
    ]  # fmt: skip
    assert [retry["wait_seconds"] for retry in retries[:2]] == [0, 0], "Retry-After is obeyed"
    doubled = [
        retry["wait_seconds"] / (NEEDED["retry_seconds"] * 2**n) for n, retry in enumerate(retries)
    ]
    assert all(0.75 < times < 1.25 for times in doubled[2:]), "each pause is about twice the last"
    assert [retry["attempt"] for retry in retries] == list(range(1, 9))
    assert retries[4]["response_id"] == "r-cut" in done.transcript.response_ids
    assert done.transcript.usage.requests == len(done.bodies) == 9
    assert done.transcript.completed


@pytest.mark.parametrize(
    ("reply", "kind", "requests"),
    [
        (Refused(429, "slow down"), "rate_limit", 3),
        (Refused(429, "slow down", {"Retry-After": "86400"}), "rate_limit", 1),
        (Refused(429, "You exceeded your quota", code="insufficient_quota"), "authentication", 1),
        (Refused(500), "overload", 3),
        (Refused(502, "EvoPolicy: the provider cannot be reached", code="provider_unreachable"), "network", 3),
        (Refused(401, "bad key"), "authentication", 1),
        (Refused(403, "EvoPolicy: this Run's 5 requests to its provider are used up", code="limit"), "other", 1),
        (Refused(404, "no such model"), "other", 1),
        (Refused(307, "elsewhere", {"Location": "/v1/other"}), "other", 1),
        (Refused(400, "This model's maximum context length is 4096 tokens", code="x"), "context", 1),
        (Refused(413), "context", 1),
        (Refused(400, "the request exceeds the available context size"), "context", 1),
        (Broken(), "network", 3),
        (Said("I will not.", finish="content_filter"), "refusal", 1),
    ],
)  # fmt: skip
def test_lasting_errors_end_it_by_their_kind(
    place: Place, reply: Reply, kind: str, requests: int
) -> None:
    done = place.run([reply] * 9, retries=2)
    assert done.code == 1
    assert len(done.bodies) == requests == done.transcript.usage.requests
    assert done.events[-1]["type"] == "error"
    assert (done.transcript.error_kind, done.transcript.completed) == (kind, False)
    assert done.transcript.error


def test_a_server_that_is_not_there_is_a_network_error(place: Place) -> None:
    task = place.task("http://127.0.0.1:9")
    agent = chat(retries=1)
    for name, text in agent.invoke(task).files.items():
        (task.staging / name).parent.mkdir(exist_ok=True)
        (task.staging / name).write_text(text)
    done = subprocess.run(
        list(agent.invoke(task).argv), input="Go.", env={"HOME": str(place.folder)}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert agent.read(done.stdout.splitlines()).error_kind == "network"


# --- context --------------------------------------------------------------------------------------

LONG = Said("", [("shell", {"command": "seq 1 2000"})])


def test_the_oldest_outputs_are_dropped_when_the_server_counts_too_many_tokens(
    place: Place,
) -> None:
    full = Said("", LONG.calls, usage={"prompt_tokens": 9000, "completion_tokens": 10})
    done = place.run([LONG, LONG, LONG, full, FINISH], context_tokens=8000)
    assert done.code == 0
    (compaction,) = done.of("compaction")
    assert compaction["reason"] == "estimate"
    assert compaction["tokens_after"] < compaction["tokens_before"]
    results = [m["content"] for m in done.bodies[-1]["messages"] if m["role"] == "tool"]
    assert results[0].startswith("1\n2\n3\n")
    assert "more characters were dropped here" in results[0]
    assert results[-1].endswith("[exit code 0]"), "the newest is whole"
    assert sum("dropped" in result for result in results) == compaction["outputs"]
    kept = done.transcript.steps[2].calls[0].result
    assert kept is not None
    assert "2000\n[exit code 0]" in kept, "the transcript keeps all"


def test_an_output_can_be_cut_again_and_the_count_stays_true(tmp_path: Path) -> None:
    history = History(tmp_path / "h.jsonl", native=True, return_reasoning=True)
    history.append("user", "Go.")
    history.append_answer(Answer(), [Call("1", "read", "{}")])
    history.append("tool", "x" * 9000, id="1", name="read")
    assert history.compact(0) == (1, 7000), "the newest keeps more"
    history.append_answer(Answer(), [Call("2", "read", "{}")])
    assert history.compact(0) == (1, 1600)
    assert (
        history.entries[2]["text"]
        == "x" * 400 + "\n[8600 more characters were dropped here to make room]"
    )
    assert history.compact(0) == (0, 0)
    again = History(history.path, native=True, return_reasoning=True)
    assert again.load() and again.entries == history.entries
    assert [call.id for call in again.pending()] == ["2"]


TOO_LONG = Refused(400, "Please reduce the length: maximum context length is 8192 tokens")


def test_a_refused_context_is_made_smaller_once(place: Place) -> None:
    done = place.run([LONG, TOO_LONG, FINISH])
    assert (done.code, len(done.bodies)) == (0, 3)
    assert done.of("compaction")[0]["reason"] == "server"
    assert done.transcript.usage.requests == 3
    (place.folder / "over").unlink()
    done = place.run([LONG, TOO_LONG, TOO_LONG, FINISH])
    assert (done.code, len(done.bodies), done.transcript.error_kind) == (1, 3, "context")


# --- going on -------------------------------------------------------------------------------------


def test_a_new_attempt_goes_on_where_the_last_one_was(place: Place) -> None:
    first = place.run([WORK[0], Refused(503)], retries=0)
    assert (first.code, first.transcript.error_kind) == (1, "overload")
    second = place.run([FINISH], session_id=first.transcript.session_id)
    assert second.code == 0
    assert second.transcript.session_id == first.transcript.session_id
    assert second.bodies[0]["messages"] == first.bodies[1]["messages"]
    assert second.transcript.usage.requests == 1, "of this process alone"
    assert [step.source for step in second.transcript.steps] == ["agent"]


def test_calls_a_killed_process_left_are_answered_as_interrupted(place: Place) -> None:
    first = place.run([WORK[0], Refused(503)], retries=0)
    (history,) = (place.folder / "home" / ".evopolicy-chat").glob("*.jsonl")
    lines = history.read_text().splitlines()
    history.write_text("\n".join(lines[:-1]) + '\n{"role": "to')
    second = place.run([FINISH], session_id=first.transcript.session_id)
    assert second.bodies[0]["messages"][-1]["content"].startswith(
        "Interrupted before it gave a result"
    )
    assert second.transcript.completed


def test_a_session_that_is_lost_or_no_session_of_ours_is_begun_anew(place: Place) -> None:
    for asked in ("0" * 32, "../../etc/passwd"):
        done = place.run([FINISH], session_id=asked)
        (place.folder / "over").unlink()
        assert done.code == 0
        assert len(done.transcript.session_id) == 32
        assert "This Run was begun before and goes on" in done.bodies[0]["messages"][1]["content"]


# --- tools ----------------------------------------------------------------------------------------


@pytest.fixture
def tools(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path, ("false",), 300.0, 2000, {"PATH": os.environ["PATH"]})


def cut(tools: Toolbox, command: str, began: Callable[[Result], bool]) -> tuple[Result, int]:
    """What `command` comes to that never ends, and its seconds: enough to begin, however busy the
    machine is."""
    for seconds in (1, 8, 64):
        result = tools.use("shell", {"command": command, "seconds": seconds})
        if began(result):
            break
    return result, seconds


def test_a_command_over_its_time_is_killed_with_its_children(tools: Toolbox) -> None:
    child = tools.workspace / "child"
    command = "sleep 600 & echo $! > new; mv new child; echo begun; exec sleep 600"
    result, seconds = cut(tools, command, lambda result: result.text.startswith("begun"))
    assert result.failed
    assert result.text == f"begun\n[killed after {seconds} seconds, with everything it started]"
    assert gone(int(child.read_text()))


def test_what_a_command_leaves_behind_ends_with_it(tools: Toolbox) -> None:
    result = tools.use("shell", {"command": "sleep 600 & echo $! | tee child"})
    assert result.text.endswith("\n[exit code 0]")
    assert gone(int((tools.workspace / "child").read_text()))


def gone(pid: int) -> bool:
    """Whether a process that was killed ends; one that nobody has reaped yet has."""
    for _ in range(10_000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_commands_time_is_below_the_limit(tmp_path: Path) -> None:
    tools = Toolbox(tmp_path, (), 0.2, 2000, {"PATH": os.environ["PATH"]})
    assert (
        "killed after 0.2 seconds"
        in tools.use("shell", {"command": "sleep 600", "seconds": 9999}).text
    )
    assert tools.use("shell", {"command": "true", "seconds": -1}).failed


def test_a_commands_end_is_told(tools: Toolbox) -> None:
    assert (
        tools.use("shell", {"command": "echo out; echo err >&2; exit 3"}).text
        == "out\nerr\n[exit code 3]"
    )
    assert tools.use("shell", {"command": "kill -9 $$"}).text == "[ended by signal 9]"
    assert tools.use("shell", {"command": "cat"}).text == "[exit code 0]", "there is no input"


def test_output_is_bounded_and_the_rest_counted(tools: Toolbox) -> None:
    text = tools.use("shell", {"command": "yes 0123456789 | head -c 5000000"}).text
    assert len(text) < 2100
    assert text.startswith("0123456789\n") and text.endswith("[exit code 0]")
    assert "[... 4998000 bytes omitted ...]" in text
    endless, seconds = cut(tools, "yes", lambda result: "bytes omitted" in result.text)
    assert len(endless.text) < 2200 and "bytes omitted" in endless.text
    assert endless.text.endswith(f"[killed after {seconds} seconds, with everything it started]")


def test_head_and_tail_are_kept_to_the_byte_however_it_comes() -> None:
    for step in (1, 3, 7, 100):
        kept = HeadTail(10)
        for place in range(0, 26, step):
            kept.feed(b"abcdefghijklmnopqrstuvwxyz"[place : place + step])
        assert kept.text() == "abcde\n[... 16 bytes omitted ...]\nvwxyz"
    kept = HeadTail(10)
    kept.feed("äöüäö".encode())
    assert kept.text() == "äöüäö"


def test_a_file_is_read_by_lines_and_bounded(tools: Toolbox) -> None:
    (tools.workspace / "a").write_text("".join(f"line {n}\n" for n in range(1, 1001)))
    assert tools.use("read", {"path": "a", "first_line": 3, "last_line": 4}).text == (
        "line 3\nline 4\n[lines 3 to 4 of 1000]"
    )
    whole = tools.use("read", {"path": "a"}).text
    assert len(whole) < 2100
    shown = int(whole.split("lines 1 to ")[1].split()[0])
    assert whole.endswith(f"[lines 1 to {shown} of 1000; the next is first_line={shown + 1}]")
    rest = tools.use("read", {"path": "a", "first_line": shown + 1}).text
    assert rest.startswith(f"line {shown + 1}\n")
    assert "has 1000" in tools.use("read", {"path": "a", "first_line": 2000}).text
    (tools.workspace / "b").write_text("x" * 9000)
    assert "[... 7000 bytes omitted ...]" in tools.use("read", {"path": "b"}).text
    os.mkfifo(tools.workspace / "pipe")
    assert "not a regular file" in tools.use("read", {"path": "pipe"}).text
    assert tools.use("read", {"path": "."}).text == "a\nb\npipe"


def test_an_edit_is_exact_or_refused(tools: Toolbox) -> None:
    file = tools.workspace / "new" / "a.py"
    assert (
        tools.use("edit", {"path": "new/a.py", "content": "x = 1\r\ny = 1\n"}).text
        == "Wrote new/a.py: 13 bytes."
    )
    assert tools.use("edit", {"path": "new/a.py", "old": "y = 1", "new": "y = 2"}).text.endswith(
        "at line 2."
    )
    assert file.read_bytes() == b"x = 1\r\ny = 2\n"
    for change, said in (
        ({"old": " = ", "new": "="}, "is in it 2 times"),
        ({"old": "z", "new": "="}, "is not in the file"),
        ({"old": "", "new": "="}, "`old` (not empty)"),
        ({"old": "x"}, "with `new` is needed"),
        ({"old": "x", "content": "x"}, "`content` alone"),
        ({"content": "half \ud800"}, "surrogates not allowed"),
    ):
        result = tools.use("edit", {"path": "new/a.py", **change})
        assert result.failed and said in result.text
    assert file.read_bytes() == b"x = 1\r\ny = 2\n"


# --- the real thing -------------------------------------------------------------------------------

GAINS = ("(0, 0, 1, 0)", "(0.1, 0.3, 1.0, 0.7)")
"""Of a weak and of a perfect linear controller."""
POLICY = """import numpy as np

class P:
    def act(self, observation):
        return int(np.dot({}, observation) > 0)

def make_policy(context):
    return P()
"""


def written(gains: str) -> tuple[str, dict[str, Any]]:
    return ("edit", {"path": "program/policy.py", "content": POLICY.format(gains)})


@pytest.mark.slow
def test_a_run_in_its_sandbox_resumes_and_ends_with_a_perfect_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    monkeypatch.setenv("CHAT_TEST_KEY", "sk-test-0123456789abcdef")
    measure = ("submit", {"episodes": "0:4"})
    server = Server(
        [
            Said("", [("read", {"path": "TASK.md"}), ("shell", {"command": "env"})], reasoning="First the task."),
            Said("", [written(GAINS[0]), measure]), Refused(503), Said("", [("feedback", {})]),
            Said("", [written(GAINS[1]), measure]), FINISH,
        ]
    )  # fmt: skip
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [
        sys.executable, "-m", "evopolicy.cli.main", "agent=chat", "agent.model=m-1", f"agent.base_url={server.url}",
        "agent.key_variable=CHAT_TEST_KEY", "agent.retries=0", "session.backoff_seconds=0.1", "benchmark=cartpole",
        "protocol=smoke", "tracking=off", "execution.isolation=bubblewrap", f"output={tmp_path}",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path
        )
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = tmp_path.glob("runs/cartpole/chat/*")
    run = load_run(folder)
    assert run.valid and run.result.assessment and run.result.assessment.mean == 500
    first, second = load_transcripts(folder)
    assert (first.error_kind, second.completed) == ("overload", True)
    assert first.session_id == second.session_id
    assert [step.submission for step in (*first.steps, *second.steps) if step.submission] == [1, 2]
    assert (run.state.usage["input_tokens"], run.state.usage["output_tokens"]) == (500, 50), (
        "what the server served"
    )
    assert run.state.unexplained_tokens in (None, 0)
    assert server.keys == ["Bearer sk-test-0123456789abcdef"] * 6
    kept = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and b"sk-test-0123456789" in path.read_bytes()
    ]
    assert kept == []


# --- config and stream ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": ""}, "agent.model: is empty"),
        ({"base_url": ""}, "agent.base_url: is empty; name the server"),
        ({"key_variable": "sk-not-a-name"}, "variables are named, not given"),
        ({"request": {"messages": []}}, "agent.request.messages: is set by the loop"),
        ({"request": {"top_k": float("nan")}}, "agent.request: cannot be written as JSON"),
        ({"tool_form": "xml"}, "agent.tool_form"),
        ({"retries": -1}, "agent.retries: at least 0"),
        (
            {"context_tokens": 2000, "max_output_tokens": 1000},
            "agent.context_tokens: more than twice",
        ),
    ],
)
def test_a_wrong_option_is_named_by_its_key(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        chat(**change)


def test_its_provider_is_the_server_with_one_path_and_one_model() -> None:
    provider = chat(key_variable="SOME_KEY").provider
    assert (provider.url, provider.paths) == (
        "http://127.0.0.1:8000/v1",
        ("POST /chat/completions",),
    )
    assert (provider.key_variable, provider.agent_variable, provider.models) == (
        "SOME_KEY",
        AGENT_VARIABLE,
        ("m-1",),
    )
    with pytest.raises(ConfigError, match="not a base URL"):
        _ = chat(base_url="127.0.0.1:8000").provider


def test_what_names_it_is_what_it_does_and_not_how_it_reaches_its_server() -> None:
    one, other = (
        chat(key_variable="A", retries=1).identity,
        chat(key_variable="B", retries=2).identity,
    )
    assert one == other
    assert one != chat(temperature=0.1).identity
    assert (one.name, one.model) == ("chat", "m-1")


def test_a_variable_that_is_not_set_is_found_before_anything_is_spent() -> None:
    with pytest.raises(AgentError, match="no 'NO_SUCH_VARIABLE_HERE'"):
        chat(variables=["NO_SUCH_VARIABLE_HERE"]).probe()


def lines(*events: dict[str, Any]) -> list[str]:
    return [json.dumps(event) + "\n" for event in events]


STREAM = lines(
    {"type": "start", "session_id": "a" * 32, "messages": [{"role": "user", "text": "Go."}]},
    {
        "type": "message",
        "text": "",
        "reasoning": "so",
        "response_id": "r",
        "usage": {"completion_tokens": 5},
    },
    {"type": "tool_call", "id": "1", "name": "shell", "arguments": {"command": "ls"}},
    {"type": "progress", "characters": 5},
    {"type": "tool_result", "id": "1", "text": "a\n", "failed": False},
    {"type": "done", "reason": "finished", "totals": {"requests": 1}},
)


class TestChatContract(AgentContract):
    stream = STREAM

    def make(self) -> Chat:
        return chat()


def test_a_stream_cut_anywhere_is_read(place: Place) -> None:
    text = "".join(place.run(WORK).lines)
    whole_transcript = chat().read(text.splitlines(keepends=True))
    for end in range(0, len(text), 97):
        cut = chat().read(text[:end].splitlines(keepends=True))
        assert not cut.completed
        assert len(cut.steps) <= len(whole_transcript.steps)
        assert (cut.usage.requests or 0) <= 4


def test_strange_lines_between_are_counted_and_harm_nothing() -> None:
    strange = [
        "Warning: mixed in\n",
        '{"type": "new"}\n',
        '{"type": 3}\n',
        "[1]\n",
        '{"type": "message", "usage": 4}\n',
    ]
    mixed = [line for pair in zip(STREAM, [*strange, "\x00\n"], strict=True) for line in pair]
    transcript = chat().read(mixed)
    assert transcript.completed
    assert transcript.malformed_lines == 3
    assert transcript.unknown_events == {"new": 1, "(no type)": 1}
    assert transcript.steps[1].calls[0].result == "a\n"
    assert transcript.usage.output_tokens is None, (
        "an answer that reports nothing leaves the sum unknown"
    )


def test_interleaved_calls_find_their_results() -> None:
    calls = [
        {"type": "tool_call", "id": str(n), "name": "read", "arguments": {"path": str(n)}}
        for n in range(3)
    ]
    results = [
        {"type": "tool_result", "id": str(n), "text": f"of {n}", "failed": n == 1}
        for n in (2, 0, 1)
    ]
    (step,) = chat().read(lines({"type": "message", "text": "x"}, *calls, *results)).steps
    assert [(call.result, call.failed) for call in step.calls] == [
        ("of 0", False),
        ("of 1", True),
        ("of 2", False),
    ]


def test_a_line_of_ten_megabytes_is_read_whole() -> None:
    big = "x" * 10_000_000
    transcript = chat().read(lines({"type": "message", "text": big}, {"type": "done"}))
    assert len(transcript.steps[0].text) == len(big)
    assert transcript.completed


def test_usage_is_summed_in_our_words() -> None:
    usage = {
        "prompt_tokens": 100, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 20}, "cost": 0.25,
    }  # fmt: skip
    said = chat().read(lines(*[{"type": "message", "text": "x", "usage": usage}] * 2)).usage
    assert (said.input_tokens, said.cached_tokens, said.output_tokens, said.reasoning_tokens) == (
        80,
        120,
        60,
        40,
    )
    assert (said.cost_usd, said.cost_is_estimate, said.requests) == (0.5, False, 2)
    assert chat().read([]).usage.requests is None
