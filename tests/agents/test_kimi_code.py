"""Kimi Code: how it is started, and its stream with its session's records as a transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.contract import EXAMPLE_URL, example_task
from evopolicy.kernel.errors import AgentError, ConfigError
from evopolicy.kernel.ports.protocols import AgentIntegration, Invocation
from evopolicy.kernel.ports.transcript import Transcript, Usage
from tests.agents.fake_cli import ParserContract, agent, binary, lines, node, package

BEGIN = {"role": "meta", "type": "system.version", "version": "2.1.0"}
END = {
    "role": "meta",
    "type": "session.resume_hint",
    "session_id": "session_1",
    "command": "kimi -r session_1",
}
SESSION = "sessions/wd_workspace_0a/session_1/agents/main/wire.jsonl"


def said(content: str, **calls: str) -> dict[str, Any]:
    told = [
        {"id": call, "function": {"name": "Bash", "arguments": given}}
        for call, given in calls.items()
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": told} if told else {})}


def gave(id: str, content: str) -> dict[str, Any]:  # noqa: A002 (the protocol's word)
    return {"role": "tool", "tool_call_id": id, "content": content}


STREAM = lines(
    BEGIN,
    said("I will look.", t1='{"command": "cat TASK.md"}'),
    gave("t1", "the task"),
    said("", t2='{"command": "false"}'),
    gave("t2", "nothing\nCommand failed with exit code: 1."),
    said("Done."),
    END,
)


def looped(kind: str, step: str, **event: Any) -> dict[str, Any]:
    return {
        "type": "context.append_loop_event",
        "event": {"type": kind, "stepUuid": step, **event},
        "time": 7,
    }


def counted(fresh: int, cached: int = 0, written: int = 0, output: int = 0) -> dict[str, Any]:
    usage = {
        "inputOther": fresh,
        "inputCacheRead": cached,
        "inputCacheCreation": written,
        "output": output,
    }
    return {"type": "usage.record", "usage": usage, "time": 7}


def stopped(step: str, **more: Any) -> dict[str, Any]:
    event = {"type": "step.end", "uuid": step, "finishReason": "end_turn", **more}
    return {"type": "context.append_loop_event", "event": event, "time": 8}


WIRE: tuple[dict[str, Any], ...] = (
    {"type": "metadata", "protocol_version": "1.5"},
    {"type": "turn.prompt", "time": 1},
    counted(100, 20, 5, 30),
    looped("content.part", "s1", part={"type": "think", "think": "What is asked?"}),
    looped("tool.call", "s1", toolCallId="t1"),
    looped("tool.result", "", toolCallId="t1", result={"output": "the task", "isError": True}),
    counted(200, 40, 0, 10),
    looped("content.part", "s2", part={"type": "text", "text": "Done."}),
    looped("content.part", "s2", part={"type": "think", "think": "Nothing is left."}),
    stopped("s2", providerFinishReason="completed"),
)


def home(attempt: Path, *records: dict[str, Any], name: str = SESSION) -> Path:
    """The logs of an attempt, whose session has kept `records`."""
    path = attempt / "home" / ".kimi-code" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines(*records)) + '{"type": "usage.rec')
    return attempt


@pytest.fixture(autouse=True)
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kimi on the PATH behind a Node that is too old, with a newer one in its own npm tree."""
    link = package(tmp_path, "@moonshot-ai/kimi", "dist/main.mjs", "2.1.0")
    node(tmp_path / "bin" / "node", "v24.14.9")
    node(tmp_path / "node_modules" / "node" / "bin" / "node", "v24.15.0")
    monkeypatch.setenv("PATH", f"{link.parent}:{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return link


def invoked(task: dict[str, Any] | None = None, **options: Any) -> Invocation:
    return agent("kimi_code", **options).invoke(example_task(**(task or {})))


def read(*events: dict[str, Any], logs: Path | None = None) -> Transcript:
    return agent("kimi_code").read(lines(*events), logs)


class TestContract(ParserContract):
    stream = STREAM
    parallel = lines(BEGIN, said("", a="{}", b="{}"), gave("b", "of b"), gave("a", "of a"), END)
    first = "the task"

    def make(self) -> AgentIntegration:
        return agent("kimi_code")


def test_the_prompt_is_in_a_file_that_a_short_argument_names() -> None:
    invocation = invoked(arguments=["--plan"])
    argv = list(invocation.argv)
    assert argv[-2:] == ["-p", "Read the file /staging/prompt.md and do what it says."]
    assert argv[-5:-2] == ["--output-format", "stream-json", "--plan"]
    assert (invocation.files["prompt.md"], invocation.stdin) == (example_task().prompt, "")


def test_its_model_is_named_in_its_environment_and_no_key() -> None:
    environment = invoked(effort="high").environment
    assert environment["KIMI_MODEL_NAME"] == "kimi-k2-thinking"
    assert (environment["KIMI_MODEL_BASE_URL"], environment["KIMI_MODEL_PROVIDER_TYPE"]) == (
        EXAMPLE_URL,
        "kimi",
    )
    assert environment["KIMI_MODEL_THINKING_EFFORT"] == "high"
    assert {"KIMI_DISABLE_TELEMETRY", "KIMI_CODE_NO_AUTO_UPDATE"} <= set(environment)
    assert "KIMI_MODEL_API_KEY" not in environment
    assert invoked(key_variable="").environment["KIMI_MODEL_API_KEY"] == "none-is-needed"


def test_web_tools_are_off_and_mcp_servers_are_laid_into_its_home() -> None:
    files = invoked(mcp_servers={"tools": ["python3", "s.py"]}).files
    places = json.loads(files["home.json"])
    assert (
        files[places[".kimi-code/config.toml"]] == '[tools]\ndisabled = ["WebSearch", "FetchURL"]\n'
    )
    servers = json.loads(files[places[".kimi-code/mcp.json"]])
    assert servers == {"mcpServers": {"tools": {"command": "python3", "args": ["s.py"]}}}


def test_a_session_is_resumed_by_its_id_and_its_records_are_collected() -> None:
    invocation = invoked({"session_id": "session_1"})
    argv = list(invocation.argv)
    assert argv[-4:-2] == ["-S", "session_1"]
    assert invocation.collect == (".kimi-code/sessions/**/wire.jsonl",)


def test_a_subscription_brings_the_login_and_its_own_model() -> None:
    subscribed = agent("kimi_code", login="subscription", model="kimi-code/k2")
    with pytest.raises(
        AgentError, match=r"agent\.login: there is no login .*run `kimi login` first"
    ):
        subscribed.probe()
    invocation = subscribed.invoke(example_task())
    assert set(invocation.home) == {".kimi-code/config.toml", ".kimi-code/credentials"}
    assert list(invocation.argv)[-4:-2] == ["-m", "kimi-code/k2"]
    assert not any(name.startswith("KIMI_MODEL") for name in invocation.environment)
    assert subscribed.provider is not None and "api.kimi.com:443" in subscribed.provider.hosts


def test_a_configuration_is_copied_without_its_login(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    for name in ("credentials", "sessions", "skills"):
        (mine / name).mkdir(parents=True)
    assert invoked(configuration=str(mine)).home == {".kimi-code/skills": mine / "skills"}


def test_a_wrong_protocol_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"agent\.protocol: one of kimi, openai is needed, found 'soap'"
    ):
        agent("kimi_code", protocol="soap")


# --- Node -----------------------------------------------------------------------------------------


def test_the_first_node_that_is_new_enough_runs_it(tmp_path: Path) -> None:
    assert agent("kimi_code").probe() == {"kimi_code": "2.1.0", "node": "v24.15.0"}
    invocation = invoked()
    assert str(tmp_path / "node_modules" / "node" / "bin" / "node") in invocation.argv
    assert tmp_path / "node_modules" / "@moonshot-ai" / "kimi" in invocation.readable


def test_a_node_that_is_named_is_the_one(tmp_path: Path) -> None:
    node(tmp_path / "other" / "node", "v25.0.0")
    assert agent("kimi_code", node=str(tmp_path / "other" / "node")).probe()["node"] == "v25.0.0"
    with pytest.raises(
        AgentError, match=r"needs Node 24\.15 or newer, found v24\.14\.9 .*npm install"
    ):
        agent("kimi_code", node=str(tmp_path / "bin" / "node")).probe()
    with pytest.raises(AgentError, match=r"agent\.node: '.*none' is not here"):
        agent("kimi_code", node=str(tmp_path / "none")).probe()


def test_where_no_node_is_new_enough_the_remedy_is_named(tmp_path: Path) -> None:
    (tmp_path / "node_modules" / "node" / "bin" / "node").unlink()
    with pytest.raises(AgentError, match=r"found v24\.14\.9 .*npm install --prefix"):
        agent("kimi_code").probe()


def test_the_node_named_is_no_part_of_what_the_agent_is(tmp_path: Path) -> None:
    assert agent("kimi_code", node=str(tmp_path)).identity == agent("kimi_code").identity


def test_a_program_that_needs_no_node_is_started_itself(tmp_path: Path) -> None:
    native = binary(tmp_path / "native" / "kimi", "2.3.0")
    assert agent("kimi_code", cli=str(native)).probe() == {"kimi_code": "2.3.0"}


@pytest.mark.parametrize(
    "says", ["kimi, version 1.52.0", "kimi-cli is deprecated, see https://example.com"]
)
def test_the_old_kimi_cli_is_told_apart(tmp_path: Path, says: str) -> None:
    old = binary(tmp_path / "old" / "kimi", says)
    with pytest.raises(
        AgentError, match=r"the old kimi-cli.*npm install -g @moonshot-ai/kimi-code"
    ):
        agent("kimi_code", cli=str(old)).probe()


# --- the stream -----------------------------------------------------------------------------------


def test_messages_calls_and_results_are_joined() -> None:
    transcript = agent("kimi_code").read(STREAM)
    first, second, last = transcript.steps
    (call,) = first.calls
    assert (first.text, first.line, call.name, call.arguments) == (
        "I will look.", 1, "Bash", {"command": "cat TASK.md"},
    )  # fmt: skip
    assert (call.result, call.line, call.result_line, call.failed) == ("the task", 1, 2, False)
    assert (second.text, second.calls[0].failed, last.text) == ("", True, "Done.")
    assert (transcript.session_id, transcript.usage) == ("session_1", Usage())


def test_arguments_that_are_no_json_are_kept_as_they_are() -> None:
    (step,) = read(BEGIN, said("", t1='{"command": '), END).steps
    assert step.calls[0].arguments == {"input": '{"command": '}


def test_tokens_reasoning_and_failures_are_those_of_its_records(tmp_path: Path) -> None:
    logs = home(tmp_path / "attempt-1", *WIRE)
    home(
        logs,
        counted(1000, output=1),
        name="sessions/wd_workspace_0a/session_1/agents/agent-1/wire.jsonl",
    )
    transcript = agent("kimi_code").read(STREAM, logs)
    assert transcript.completed
    assert transcript.usage == Usage(1300, 60, 5, 41, requests=3)
    assert [step.reasoning for step in transcript.steps] == [
        "What is asked?",
        "",
        "Nothing is left.",
    ]
    assert [call.failed for step in transcript.steps for call in step.calls] == [True, True]


def test_what_earlier_attempts_used_is_not_counted_again(tmp_path: Path) -> None:
    home(tmp_path / "attempt-1", *WIRE)
    (tmp_path / "attempt-2" / "home").mkdir(parents=True)
    logs = home(
        tmp_path / "attempt-3",
        *WIRE,
        counted(7, output=3),
        stopped("s3", providerFinishReason="completed"),
    )
    assert agent("kimi_code").read(STREAM, logs).usage == Usage(7, 0, 0, 3, requests=1)


def test_an_answer_that_broke_off_is_found_by_its_missing_reason(tmp_path: Path) -> None:
    logs = home(tmp_path / "attempt-1", *WIRE, counted(0), stopped("s3"))
    transcript = agent("kimi_code").read(STREAM, logs)
    assert (transcript.completed, transcript.error_kind) == (False, "network")
    assert transcript.session_id == "session_1"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("provider.auth_error: 401 no", "authentication"),
        ("provider.rate_limit: 429 slower", "rate_limit"),
        ("provider.api_error: 500 it broke", "overload"),
        ("provider.connection_error: it is gone", "network"),
        ("Provider safety policy blocked the response.", "refusal"),
        ("compaction.failed: 400 This model's maximum context length is 128000 tokens.", "context"),
        ("something else", "other"),
    ],
)
def test_its_error_is_on_standard_error_alone(tmp_path: Path, words: str, kind: str) -> None:
    (tmp_path / "stderr.log").write_text(
        f"output of a tool\nerror: failed to run prompt: {words}\nSee log: somewhere\n"
    )
    transcript = read(BEGIN, said("I"), logs=tmp_path)
    assert (transcript.completed, transcript.error, transcript.error_kind) == (False, words, kind)


def test_an_error_its_session_names_is_taken_where_nothing_else_says_it(tmp_path: Path) -> None:
    over = {
        "code": "compaction.failed",
        "message": "no room",
        "cause": {"code": "context.overflow"},
    }
    logs = home(
        tmp_path / "attempt-1",
        *WIRE,
        {"type": "turn.ended", "reason": "failed", "error": over, "time": 9},
    )
    transcript = read(BEGIN, said("I"), logs=logs)
    assert (transcript.error, transcript.error_kind) == ("context.overflow: no room", "context")
    assert transcript.session_id == "session_1"


def test_a_request_that_is_tried_again_is_told_and_is_the_error_where_all_ends_with_it() -> None:
    again = {
        "role": "meta",
        "type": "turn.step.retrying",
        "error_message": "429 slower",
        "status_code": 429,
    }
    went_on = read(BEGIN, again, said("Done."), END)
    assert went_on.completed and [step.source for step in went_on.steps] == ["system", "agent"]
    stuck = read(BEGIN, said("I"), again)
    assert (stuck.completed, stuck.error, stuck.error_kind) == (False, "429 slower", "rate_limit")
