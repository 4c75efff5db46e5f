"""Qoder CLI: how it is started, and its stream, written from its format, as a transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.contract import example_task
from evopolicy.kernel.errors import AgentError, ConfigError
from evopolicy.kernel.ports.protocols import AgentIntegration, Invocation
from evopolicy.kernel.ports.transcript import Transcript, Usage
from tests.agents.fake_cli import ParserContract, agent, lines, node, package

TOKEN = "QODER_PERSONAL_ACCESS_TOKEN"
BEGIN = {"type": "system", "subtype": "init", "session_id": "q-1", "model": "auto"}
TOKENS = {
    "input_tokens": 400,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 50,
    "output_tokens": 80,
}


def said(message: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "assistant",
        "session_id": "q-1",
        "message": {"id": message, "content": list(parts)},
        **more,
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def used(id: str, command: str) -> dict[str, Any]:  # noqa: A002 (the protocol's word)
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}


def gave(id: str, content: Any, failed: bool = False) -> dict[str, Any]:  # noqa: A002
    part = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": failed}
    return {"type": "user", "session_id": "q-1", "message": {"role": "user", "content": [part]}}


def ended(
    words: str = "Done.", *, failed: bool = False, subtype: str = "success", **more: Any
) -> dict[str, Any]:
    told = {
        "type": "result",
        "subtype": subtype,
        "is_error": failed,
        "result": words,
        "session_id": "q-1",
    }
    return {**told, "usage": TOKENS, "total_credits": 3, "total_cost_usd": 0, **more}


STREAM = lines(
    BEGIN,
    said("m1", {"type": "thinking", "thinking": "What is asked?"}),
    said("m1", text("I will look.")),
    said("m1", used("t1", "cat TASK.md")),
    gave("t1", "the task"),
    said("m2", used("t2", "false")),
    gave("t2", [{"type": "text", "text": "exit 1"}], failed=True),
    said("m3", text("Done.")),
    ended(),
)


@pytest.fixture(autouse=True)
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Qoder and an interpreter on the PATH, in a home with its login."""
    link = package(tmp_path, "@qoder-ai/qodercli", "bundle/qodercli.js", "1.1.52")
    node(link.parent / "node", "v20.18.1")
    monkeypatch.setenv("PATH", f"{link.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".qoder" / ".auth").mkdir(parents=True)
    return link


def invoked(task: dict[str, Any] | None = None, **options: Any) -> Invocation:
    return agent("qoder", **options).invoke(example_task(**(task or {})))


def read(*events: dict[str, Any], logs: Path | None = None) -> Transcript:
    return agent("qoder").read(lines(*events), logs)


class TestContract(ParserContract):
    stream = STREAM
    parallel = lines(
        BEGIN,
        said("m1", used("a", "ls"), used("b", "ls")),
        gave("b", "of b"),
        gave("a", "of a"),
        ended(),
    )
    first = "the task"

    def make(self) -> AgentIntegration:
        return agent("qoder")


def test_the_prompt_is_in_a_file_that_a_short_argument_names() -> None:
    invocation = invoked(effort="high")
    argv = list(invocation.argv)
    assert argv[-2:] == ["--", "Read the file /staging/prompt.md and do what it says."]
    assert invocation.files["prompt.md"] == example_task().prompt
    assert argv[argv.index("--reasoning-effort") + 1] == "high"
    assert [argv[place + 1] for place, word in enumerate(argv) if word == "--disallowed-tools"][
        :2
    ] == [
        "WebFetch",
        "WebSearch",
    ]
    assert "--resume" not in argv


def test_a_session_is_resumed_by_its_id() -> None:
    argv = list(invoked({"session_id": "q-1"}).argv)
    assert argv[argv.index("--resume") + 1] == "q-1"


def test_mcp_servers_are_a_staged_file() -> None:
    invocation = invoked(mcp_servers={"tools": ["python3", "s.py"]})
    argv = list(invocation.argv)
    assert argv[argv.index("--mcp-config") + 1] == "/staging/mcp.json"
    assert json.loads(invocation.files["mcp.json"])["mcpServers"] == {
        "tools": {"command": "python3", "args": ["s.py"]}
    }


def test_its_login_is_copied_into_a_clean_home(tmp_path: Path) -> None:
    assert invoked().home == {".qoder/.auth": tmp_path / ".qoder" / ".auth"}
    mine = tmp_path / ".qoder"
    (mine / "logs").mkdir()
    assert invoked(configuration=str(mine)).home == {".qoder/.auth": mine / ".auth"}


def test_a_token_that_is_named_stands_for_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".qoder" / ".auth").rmdir()
    with pytest.raises(
        AgentError, match=r"agent\.login: there is no login in .*run `qodercli login` first"
    ):
        agent("qoder").probe()
    monkeypatch.setenv(TOKEN, "a-secret-token-of-mine")
    with_token = agent("qoder", variables=[TOKEN])
    assert with_token.probe() == {"qoder": "1.1.52", "node": "v20.18.1"}
    assert with_token.invoke(example_task()).home == {}


def test_it_is_used_by_its_own_login_at_its_own_hosts_alone() -> None:
    provider = agent("qoder").provider
    assert (
        provider is not None and provider.subscription and "center.qoder.sh:443" in provider.hosts
    )
    with pytest.raises(ConfigError, match=r"agent\.login: Qoder is used with its own login alone"):
        agent("qoder", login="key")
    with pytest.raises(ConfigError, match=r"agent\.base_url"):
        agent("qoder", base_url="https://models.example.com")


# --- the stream -----------------------------------------------------------------------------------


def test_lines_of_one_message_are_one_step() -> None:
    transcript = agent("qoder").read(STREAM)
    first, second, last = transcript.steps
    assert (first.text, first.reasoning, first.line) == ("I will look.", "What is asked?", 1)
    (call,) = first.calls
    assert (call.name, call.arguments, call.result) == (
        "Bash",
        {"command": "cat TASK.md"},
        "the task",
    )
    assert (call.line, call.result_line, call.failed) == (3, 4, False)
    assert (second.calls[0].result, second.calls[0].failed) == ("exit 1", True)
    assert (last.text, transcript.session_id) == ("Done.", "q-1")


def test_tokens_are_those_of_the_result_and_no_cost_is_made_up() -> None:
    assert agent("qoder").read(STREAM).usage == Usage(400, 100, 50, 80)
    assert agent("qoder").read(STREAM[:-1]).usage == Usage()


def test_a_failure_that_calls_itself_a_success_is_one() -> None:
    transcript = read(
        BEGIN,
        said("m1", text("Not logged in"), error="authentication_failed"),
        ended("Not logged in", failed=True),
    )
    assert (transcript.completed, transcript.error, transcript.error_kind) == (
        False,
        "Not logged in",
        "authentication",
    )
    assert transcript.session_id == ""


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (ended("slower", failed=True, api_error_status=429), "rate_limit"),
        (ended("busy", failed=True, api_error_status=529), "overload"),
        (ended("prompt is too long", failed=True, api_error_status=400), "context"),
        (ended("no", failed=True, stop_reason="refusal"), "refusal"),
        (ended("it broke", failed=True, subtype="error_during_execution"), "other"),
        (ended("", subtype="error_max_turns"), "other"),
    ],
)
def test_an_error_has_its_kind(end: dict[str, Any], kind: str) -> None:
    transcript = read(BEGIN, said("m1", text("I")), end)
    assert (transcript.completed, transcript.error_kind) == (False, kind)
    assert transcript.error


def test_a_result_without_its_error_field_is_no_success() -> None:
    end = ended()
    del end["is_error"]
    assert not read(BEGIN, said("m1", text("I")), end).completed


def test_events_of_the_system_are_counted_by_their_subtype() -> None:
    seen = read(
        BEGIN, {"type": "system", "subtype": "task_started"}, said("m1", text("Done.")), ended()
    )
    assert (seen.completed, dict(seen.unknown_events)) == (True, {"system/task_started": 1})
