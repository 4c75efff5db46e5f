"""Gemini CLI: how it is started, and its stream as a transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.contract import EXAMPLE_URL, example_task
from evopolicy.kernel.errors import AgentError, ConfigError
from evopolicy.kernel.ports.protocols import AgentIntegration, Invocation
from evopolicy.kernel.ports.transcript import Transcript, Usage
from tests.agents.fake_cli import ParserContract, agent, lines, node, package

BEGIN = {"type": "init", "session_id": "5f0c", "model": "gemini-2.5-pro"}
STATS = {"total_tokens": 500, "input_tokens": 400, "output_tokens": 70, "cached": 150, "input": 250}


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def used(id: str, command: str) -> dict[str, Any]:  # noqa: A002 (the protocol's word)
    return {
        "type": "tool_use",
        "tool_id": id,
        "tool_name": "run_shell_command",
        "parameters": {"command": command},
    }


def gave(id: str, output: str, status: str = "success") -> dict[str, Any]:  # noqa: A002
    return {"type": "tool_result", "tool_id": id, "status": status, "output": output}


def ended(status: str = "success", **more: Any) -> dict[str, Any]:
    return {"type": "result", "status": status, "stats": STATS, **more}


STREAM = lines(
    BEGIN,
    {"type": "message", "role": "user", "content": "Balance it."},
    said("I will "),
    said("look."),
    used("t1", "cat TASK.md"),
    gave("t1", "the task"),
    used("t2", "false"),
    gave("t2", "no such tool", "error"),
    said("Done."),
    ended(),
)


@pytest.fixture(autouse=True)
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gemini on the PATH, with an interpreter beside it and a package it can do without."""
    link = package(tmp_path, "@google/gemini", "bundle/gemini.js", "0.61.0", needs=("node-pty",))
    node(link.parent / "node", "v22.1.0")
    monkeypatch.setenv("PATH", f"{link.parent}:/usr/bin:/bin")
    return link


def invoked(task: dict[str, Any] | None = None, **options: Any) -> Invocation:
    return agent("gemini_cli", **options).invoke(example_task(**(task or {})))


def settings(**options: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(invoked(**options).files["home-0.json"])
    return value


def read(*events: dict[str, Any], logs: Path | None = None) -> Transcript:
    return agent("gemini_cli").read(lines(*events), logs)


class TestContract(ParserContract):
    stream = STREAM
    parallel = lines(
        BEGIN, used("a", "ls"), used("b", "ls"), gave("b", "of b"), gave("a", "of a"), ended()
    )
    first = "the task"

    def make(self) -> AgentIntegration:
        return agent("gemini_cli")


def test_it_is_started_without_a_terminal_and_reads_its_prompt() -> None:
    invocation = invoked()
    argv = list(invocation.argv)
    assert argv[-7:] == [
        "-o",
        "stream-json",
        "--approval-mode",
        "yolo",
        "--skip-trust",
        "-m",
        "gemini-2.5-pro",
    ]
    assert invocation.stdin == example_task().prompt
    assert invocation.environment["GOOGLE_GEMINI_BASE_URL"] == EXAMPLE_URL
    assert "GEMINI_API_KEY" not in invocation.environment


def test_a_session_is_resumed_by_its_id() -> None:
    argv = list(invoked({"session_id": "5f0c"}, arguments=["--debug"]).argv)
    assert argv[-3:] == ["--resume", "5f0c", "--debug"]


def test_its_package_and_the_one_beside_it_can_be_read(cli: Path, tmp_path: Path) -> None:
    tree = tmp_path / "node_modules"
    assert set(invoked().readable) == {
        cli.parent / "node",
        tree / "@google/gemini",
        tree / "node-pty",
    }


def test_nothing_is_reported_updated_or_fetched() -> None:
    told = settings()
    assert told["tools"]["exclude"] == ["web_fetch", "google_web_search"]
    assert (told["privacy"], told["telemetry"]) == (
        {"usageStatisticsEnabled": False},
        {"enabled": False},
    )
    assert told["general"]["enableAutoUpdate"] is False
    assert "mcpServers" not in told


def test_every_side_call_asks_the_one_model() -> None:
    aliases = settings(model="gemini-3-pro")["modelConfigs"]["customAliases"]
    assert {alias["modelConfig"]["model"] for alias in aliases.values()} == {"gemini-3-pro"}
    assert {"loop-detection", "chat-compression-default"} <= set(aliases)
    assert "gemini-3-pro" not in aliases


@pytest.mark.parametrize(
    ("effort", "thinking"),
    [
        ("low", {"thinkingLevel": "LOW"}),
        ("2048", {"thinkingBudget": 2048}),
        ("-1", {"thinkingBudget": -1}),
    ],
)
def test_effort_is_a_level_or_a_budget(effort: str, thinking: dict[str, Any]) -> None:
    alias = settings(effort=effort)["modelConfigs"]["customAliases"]["gemini-2.5-pro"]
    assert alias["modelConfig"]["generateContentConfig"] == {"thinkingConfig": thinking}


def test_an_effort_that_is_neither_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent\.effort: a thinking level"):
        agent("gemini_cli", effort="very hard")


def test_the_script_of_an_mcp_server_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "s.py").touch()
    assert (
        tmp_path / "s.py"
        in invoked(mcp_servers={"tools": ["python3", str(tmp_path / "s.py")]}).readable
    )


def test_mcp_servers_are_trusted_in_its_settings() -> None:
    servers = settings(mcp_servers={"tools": ["python3", "s.py"]})["mcpServers"]
    assert servers == {"tools": {"command": "python3", "args": ["s.py"], "trust": True}}


def test_its_provider_is_the_one_model_of_the_api() -> None:
    provider = agent("gemini_cli").provider
    assert provider is not None
    assert (provider.url, provider.key_variable) == (
        "https://generativelanguage.googleapis.com",
        "GEMINI_API_KEY",
    )
    assert (provider.key_header, provider.key_form) == ("x-goog-api-key", "{key}")
    assert "POST /v1beta/models/gemini-2.5-pro:streamGenerateContent" in provider.paths


def test_an_address_without_a_key_gets_a_word_in_its_place() -> None:
    assert (
        invoked(key_variable="", base_url="http://127.0.0.1:9").environment["GEMINI_API_KEY"]
        == "none-is-needed"
    )


def test_a_subscription_brings_the_login_and_asks_google_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    subscribed = agent("gemini_cli", login="subscription")
    with pytest.raises(AgentError, match=r"agent\.login: there is no login in .*run `gemini` once"):
        subscribed.probe()
    login = tmp_path / ".gemini" / "oauth_creds.json"
    login.parent.mkdir()
    login.write_text("{}")
    assert subscribed.probe()["gemini_cli"] == "0.61.0"
    invocation = subscribed.invoke(example_task())
    assert invocation.home == {".gemini/oauth_creds.json": login}
    assert "GOOGLE_GEMINI_BASE_URL" not in invocation.environment
    assert json.loads(invocation.files["home-0.json"])["security"]["auth"] == {
        "selectedType": "oauth-personal"
    }
    assert subscribed.provider is not None and subscribed.provider.subscription
    assert "cloudcode-pa.googleapis.com:443" in subscribed.provider.hosts


def test_a_configuration_is_copied_and_has_to_be_there(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "tmp").mkdir(parents=True)
    for name in ("GEMINI.md", "oauth_creds.json"):
        (mine / name).touch()
    # No login where a key is used, and no chats of other days.
    assert invoked(configuration=str(mine)).home == {".gemini/GEMINI.md": mine / "GEMINI.md"}
    with pytest.raises(AgentError, match=r"agent\.configuration"):
        agent("gemini_cli", configuration=str(tmp_path / "none")).probe()


def test_the_probe_names_both_versions() -> None:
    assert agent("gemini_cli").probe() == {"gemini_cli": "0.61.0", "node": "v22.1.0"}


def test_a_missing_program_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(AgentError, match="npm install -g @google/gemini-cli"):
        agent("gemini_cli", cli="no-such-gemini").probe()


# --- the stream -----------------------------------------------------------------------------------


def test_messages_calls_and_results_are_joined() -> None:
    transcript = agent("gemini_cli").read(STREAM)
    user, first, second, last = transcript.steps
    assert (user.source, user.text) == ("user", "Balance it.")
    assert (first.text, first.line) == ("I will look.", 2)
    (call,) = first.calls
    assert (call.name, call.arguments, call.result) == (
        "run_shell_command",
        {"command": "cat TASK.md"},
        "the task",
    )
    assert (call.line, call.result_line, call.failed) == (4, 5, False)
    assert (second.text, second.calls[0].failed) == ("", True)
    assert (last.text, transcript.session_id) == ("Done.", "5f0c")


def test_tokens_are_those_of_the_result_and_thoughts_are_output() -> None:
    # 500 of all kinds less 400 of input, of which 150 came from a cache; 30 of thought are in the
    # total alone.
    assert agent("gemini_cli").read(STREAM).usage == Usage(250, 150, None, 100, 30)
    assert agent("gemini_cli").read(STREAM[:-1]).usage == Usage()


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (
            '[API Error: {"error":{"code":401,"message":"no","status":"UNAUTHENTICATED"}}]',
            "authentication",
        ),
        (
            '[API Error: {"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}]',
            "authentication",
        ),
        (
            '[API Error: {"error":{"code":429,"message":"slower","status":"RESOURCE_EXHAUSTED"}}]',
            "rate_limit",
        ),
        ('[API Error: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}]', "overload"),
        (
            '[API Error: {"error":{"code":400,"message":"The input token count (1200000) exceeds '
            'the maximum."}}]',
            "context",
        ),
        ('[API Error: {"error":{"code":404,"message":"no such model"}}]', "other"),
        ("[API Error: terminated]", "network"),
    ],
)
def test_an_error_has_its_kind(words: str, kind: str) -> None:
    transcript = read(BEGIN, ended("error", error={"type": "unknown", "message": words}))
    assert (transcript.completed, transcript.error, transcript.error_kind) == (False, words, kind)


def test_a_stream_that_broke_off_is_the_networks_fault_though_it_exits_with_zero() -> None:
    warning = {
        "type": "error",
        "severity": "error",
        "message": "Model stream ended without a finish reason.",
    }
    transcript = read(BEGIN, said("I will"), warning, ended("error"))
    assert (transcript.completed, transcript.error_kind) == (False, "network")
    assert transcript.error == "Model stream ended without a finish reason."


def test_a_warning_is_kept_and_is_no_error() -> None:
    transcript = read(
        BEGIN,
        {"type": "error", "severity": "warning", "message": "Loop detected"},
        said("Done."),
        ended(),
    )
    assert transcript.completed and [step.source for step in transcript.steps] == [
        "system",
        "agent",
    ]


def test_a_session_that_was_never_answered_is_not_resumed() -> None:
    assert (
        read(BEGIN, ended("error", error={"message": "[API Error: terminated]"})).session_id == ""
    )


def test_what_it_says_before_it_begins_is_the_error(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text(
        "Warning: colours\nError resuming session: no session '5f0c'\nYOLO mode is on\n"
    )
    transcript = read(logs=tmp_path)
    assert (transcript.completed, transcript.error) == (
        False,
        "Error resuming session: no session '5f0c'",
    )


# --- what it keeps of a session -------------------------------------------------------------------


def kept(id: str, when: int, *ids: str, tokens: bool = True, **more: Any) -> dict[str, Any]:  # noqa: A002
    output = "Output: no\nExit Code: 3\nProcess Group PGID: 7\n"
    result = [
        {"functionResponse": {"response": {"output": output if id == "m2" else "Output: fine\n"}}}
    ]
    return {
        "type": "gemini",
        "id": id,
        "timestamp": f"2026-11-30T02:00:{when:02}.000Z",
        "content": more.get("content", ""),
        "thoughts": [{"subject": "", "description": f"thought of {id}"}],
        "tokens": {"input": 100, "cached": 40, "output": 10, "thoughts": 3} if tokens else None,
        "toolCalls": [{"id": call, "result": result} for call in ids],
    }


def session(folder: Path, *records: dict[str, Any]) -> Path:
    """An attempt's logs with the chat of the session in STREAM, and another session's."""
    chats = folder / "home" / ".gemini" / "tmp" / "workspace" / "chats"
    chats.mkdir(parents=True)
    (chats / "session-1.jsonl").write_text(
        "".join(lines({"sessionId": "5f0c"}, *records)) + '{"type": "gem'
    )
    (chats / "session-2.jsonl").write_text(
        "".join(lines({"sessionId": "other"}, kept("x", 9, tokens=False)))
    )
    return folder


WORK = (kept("m1", 1, "t1"), kept("m2", 2), kept("m2", 2, "t2"))


def test_thoughts_and_exit_codes_are_those_of_its_session(tmp_path: Path) -> None:
    logs = session(tmp_path, *WORK, kept("m3", 3, content="Done."))
    transcript = agent("gemini_cli").read(STREAM, logs)
    assert transcript.completed
    assert [step.reasoning for step in transcript.steps] == [
        "",
        "thought of m1",
        "thought of m2",
        "thought of m3",
    ]
    assert [call.failed for step in transcript.steps for call in step.calls] == [False, True]


def test_an_answer_that_broke_off_is_found_by_its_missing_tokens(tmp_path: Path) -> None:
    logs = session(tmp_path, *WORK, kept("m3", 3, content="Do", tokens=False))
    transcript = agent("gemini_cli").read(STREAM, logs)
    assert (transcript.completed, transcript.error_kind, transcript.session_id) == (
        False,
        "network",
        "5f0c",
    )


def test_where_no_answer_has_tokens_none_is_missed(tmp_path: Path) -> None:
    logs = session(tmp_path, kept("m1", 1, "t1", tokens=False), kept("m2", 2, "t2", tokens=False))
    assert agent("gemini_cli").read(STREAM, logs).completed


def test_a_killed_process_has_the_tokens_of_its_own_messages(tmp_path: Path) -> None:
    logs = session(tmp_path, *WORK)
    begun = {**BEGIN, "timestamp": "2026-11-30T02:00:02.000Z"}
    assert read(begun, said("I"), logs=logs).usage == Usage(60, 40, None, 13, 3)


def test_its_session_is_collected() -> None:
    assert invoked().collect == (".gemini/tmp/*/chats/*.jsonl",)
