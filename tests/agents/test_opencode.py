"""OpenCode: how it is started, and its stream as a transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.contract import EXAMPLE_URL, example_task
from evopolicy.kernel.errors import AgentError, ConfigError
from evopolicy.kernel.ports.protocols import AgentIntegration, Invocation
from evopolicy.kernel.ports.transcript import Transcript, Usage
from tests.agents.fake_cli import ParserContract, agent, binary, lines

NEEDED = {"model": "m-1", "base_url": "https://models.example.com/v1"}


def event(kind: str, **part: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": 1, "sessionID": "ses_1", "part": part}


def used(
    id: str,  # noqa: A002
    output: str,
    exit_code: int = 0,
    tool: str = "bash",
    **state: Any,
) -> dict[str, Any]:
    told = {
        "status": "completed",
        "input": {"command": "ls"},
        "output": output,
        "metadata": {"exit": exit_code},
    }
    return event("tool_use", callID=id, tool=tool, state={**told, **state})


def finished(reason: str, *counts: int, cost: float = 0) -> dict[str, Any]:
    fresh, read, written, output, reasoning = counts or (100, 20, 5, 30, 7)
    tokens = {
        "input": fresh,
        "output": output,
        "reasoning": reasoning,
        "cache": {"read": read, "write": written},
    }
    return event("step_finish", reason=reason, tokens=tokens, cost=cost)


def failed(
    message: str, status: int | None = None, name: str = "APIError", **data: Any
) -> dict[str, Any]:
    told = {"message": message, **({"statusCode": status} if status else {}), **data}
    return {"type": "error", "sessionID": "ses_1", "error": {"name": name, "data": told}}


STREAM = lines(
    event("step_start"),
    event("reasoning", text="What is asked?"),
    event("text", text="I will look."),
    used("c1", "the task"),
    finished("tool-calls"),
    event("step_start"),
    used("c2", "", 3),
    used("c3", "no such tool", tool="invalid"),
    finished("tool-calls", 200, 40, 0, 10, 3),
    event("step_start"),
    event("text", text="Done."),
    event("text", text="Really."),
    finished("stop", 300, 60, 0, 10, 0),
)


@pytest.fixture(autouse=True)
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """OpenCode on the PATH, a link to its binary."""
    real = binary(tmp_path / "package" / "opencode.exe", "1.18.33")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "opencode").symlink_to(real)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path / "bin" / "opencode"


def invoked(task: dict[str, Any] | None = None, **options: Any) -> Invocation:
    return agent("opencode", **NEEDED | options).invoke(example_task(**(task or {})))


def configured(**options: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(invoked(**options).files["opencode.json"])
    return value


def read(*events: dict[str, Any], logs: Path | None = None) -> Transcript:
    return agent("opencode", **NEEDED).read(lines(*events), logs)


class TestContract(ParserContract):
    stream = STREAM
    parallel = lines(event("step_start"), used("a", "of a"), used("b", "of b"), finished("stop"))
    first = "the task"

    def make(self) -> AgentIntegration:
        return agent("opencode", **NEEDED)


def test_it_is_started_without_a_terminal_and_reads_its_prompt(cli: Path) -> None:
    invocation = invoked(arguments=["--agent", "build"])
    argv = list(invocation.argv)
    assert argv[:7] == [str(cli), "run", "--format", "json", "--thinking", "-m", "host/m-1"]
    assert argv[7:] == ["--title", "EvoPolicy", "--agent", "build"]
    assert (invocation.stdin, set(invocation.files)) == (example_task().prompt, {"opencode.json"})
    assert invocation.environment["OPENCODE_CONFIG"] == "/staging/opencode.json"
    assert set(invocation.readable) == {cli, cli.resolve()}


def test_a_session_is_resumed_by_its_id() -> None:
    assert list(invoked({"session_id": "ses_1"}).argv)[-2:] == ["-s", "ses_1"]


def test_its_configuration_knows_the_one_model_and_no_key() -> None:
    told = configured(effort="high", context_tokens=64_000)
    assert (told["model"], told["small_model"], told["enabled_providers"]) == (
        "host/m-1",
        "host/m-1",
        ["host"],
    )
    provider = told["provider"]["host"]
    assert provider["options"] == {"baseURL": EXAMPLE_URL, "apiKey": "{env:EVOPOLICY_PROVIDER_KEY}"}
    assert provider["models"]["m-1"]["limit"] == {"context": 64_000, "output": 32_000}
    assert provider["models"]["m-1"]["options"] == {"reasoningEffort": "high"}
    assert "options" not in configured()["provider"]["host"]["models"]["m-1"]


def test_nothing_is_shared_updated_or_fetched() -> None:
    told, environment = configured(), invoked().environment
    assert told["permission"] == {"*": "allow", "webfetch": "deny", "websearch": "deny"}
    assert (told["autoupdate"], told["share"], "mcp" in told) == (False, "disabled", False)
    assert {"OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH"} <= set(environment)


def test_mcp_servers_are_started_by_their_command() -> None:
    servers = configured(mcp_servers={"tools": ["python3", "s.py"]})["mcp"]
    assert servers == {"tools": {"type": "local", "command": ["python3", "s.py"], "enabled": True}}


def test_its_provider_is_the_address_it_is_given() -> None:
    provider = agent("opencode", **NEEDED).provider
    assert provider is not None
    assert (provider.url, provider.paths) == (NEEDED["base_url"], ("POST /chat/completions",))
    assert (provider.key_variable, provider.agent_variable) == (
        "OPENCODE_API_KEY",
        "EVOPOLICY_PROVIDER_KEY",
    )
    assert invoked(key_variable="").environment["EVOPOLICY_PROVIDER_KEY"] == "none-is-needed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base_url": ""}, r"agent\.base_url: is empty"),
        ({"model": ""}, r"agent\.model: is empty"),
        ({"login": "subscription", "base_url": ""}, r"agent\.login: OpenCode is asked"),
        ({"context_tokens": 10}, r"agent\.context_tokens: at least 1000"),
    ],
)
def test_what_it_cannot_do_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        agent("opencode", **NEEDED | change)


def test_the_probe_says_its_version_or_how_to_install_it(tmp_path: Path) -> None:
    assert agent("opencode", **NEEDED).probe() == {"opencode": "1.18.33"}
    with pytest.raises(AgentError, match="npm install -g opencode-ai"):
        agent("opencode", **NEEDED, cli=str(tmp_path / "none")).probe()


def test_a_configuration_is_copied(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "agent").mkdir(parents=True)
    assert invoked(configuration=str(mine)).home == {".config/opencode/agent": mine / "agent"}


# --- the stream -----------------------------------------------------------------------------------


def test_messages_have_their_reasoning_calls_and_results() -> None:
    transcript = agent("opencode", **NEEDED).read(STREAM)
    first, second, last = transcript.steps
    assert (first.text, first.reasoning, first.line) == ("I will look.", "What is asked?", 1)
    (call,) = first.calls
    assert (call.name, call.arguments, call.result, call.failed) == (
        "bash",
        {"command": "ls"},
        "the task",
        False,
    )
    assert (call.line, call.result_line) == (3, 3)
    assert [call.failed for call in second.calls] == [True, True]
    assert (last.text, transcript.session_id) == ("Done.\n\nReally.", "ses_1")


def test_tokens_are_the_sum_over_messages_and_reasoning_is_output() -> None:
    assert agent("opencode", **NEEDED).read(STREAM).usage == Usage(600, 120, 5, 60, 10)
    assert agent("opencode", **NEEDED).read(STREAM[:5]).usage == Usage(100, 20, 5, 37, 7)
    assert read(event("step_start")).usage == Usage()


def test_a_cost_is_kept_where_there_is_one() -> None:
    assert (
        read(finished("tool-calls", cost=0.25), finished("stop", cost=0.5)).usage.cost_usd == 0.75
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (failed("no", 401), "authentication"),
        (failed("slower", 429), "rate_limit"),
        (failed("busy", 529), "overload"),
        (
            failed("Bad Request", 400, responseBody='{"error":{"code":"context_length_exceeded"}}'),
            "context",
        ),
        (failed("too long", name="ContextOverflowError"), "context"),
        (failed("whose key?", name="ProviderAuthError"), "authentication"),
        (failed("JSON parsing failed: Text: {half", name="UnknownError"), "network"),
        (failed("The response was blocked by the provider's content filter"), "refusal"),
        (failed("Unexpected", name="UnknownError"), "other"),
    ],
)
def test_an_error_has_its_kind(error: dict[str, Any], kind: str) -> None:
    transcript = read(event("step_start"), event("text", text="I"), finished("stop"), error)
    assert (transcript.completed, transcript.error_kind) == (False, kind)
    assert transcript.error == error["error"]["data"]["message"]


@pytest.mark.parametrize(
    ("reason", "kind"), [("unknown", "network"), ("content-filter", "refusal"), ("error", "other")]
)
def test_an_answer_that_does_not_stop_is_no_end(reason: str, kind: str) -> None:
    transcript = read(event("step_start"), event("text", text="I wi"), finished(reason))
    assert (transcript.completed, transcript.error_kind) == (False, kind)
    assert transcript.error


def test_a_message_that_is_only_begun_is_not_complete() -> None:
    transcript = read(event("step_start"), finished("stop"), event("step_start"))
    assert (transcript.completed, transcript.error) == (False, "")


def test_what_it_says_before_it_begins_is_the_error(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("some notice\nError: Session not found\n")
    assert read(logs=tmp_path).error == "Error: Session not found"


def test_an_error_it_got_over_is_none() -> None:
    over = failed("too long", name="ContextOverflowError")
    transcript = read(over, event("step_start"), event("text", text="Done."), finished("stop"))
    assert (transcript.completed, transcript.error) == (True, "")
