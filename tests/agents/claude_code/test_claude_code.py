"""What `claude_code` asks to be started, and what it finds on the machine."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import pytest
import yaml

from evopolicy.agents import load_agent
from evopolicy.agents.claude_code.integration import ClaudeCode
from evopolicy.agents.contract import EXAMPLE_URL, AgentContract, example_task
from evopolicy.kernel.errors import AgentError, ConfigError
from tests.agents.claude_code.test_claude_code_stream import WELL

SHIPPED = yaml.safe_load(Path("conf/agent/claude_code.yaml").read_text())
VERSION = "2.1.197 (Claude Code)"
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


def fake(folder: Path, says: str = VERSION, name: str = "claude") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def claude(folder: Path, **options: Any) -> ClaudeCode:
    agent = load_agent("claude_code", {**SHIPPED, "cli": fake(folder), **options})
    assert isinstance(agent, ClaudeCode)
    return agent


def after(argv: Any, option: str) -> str:
    return str(argv[list(argv).index(option) + 1])


class TestClaudeCodeContract(AgentContract):
    stream = WELL

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-secret-of-the-host-0123456789")
        self.at = tmp_path

    def make(self) -> ClaudeCode:
        return claude(self.at)


def test_everything_it_asks_goes_to_the_hosts_proxy_and_to_one_model(tmp_path: Path) -> None:
    agent = claude(tmp_path, model="some-model", effort="max")
    invocation = agent.invoke(example_task())
    assert (
        after(invocation.argv, "--model") == "some-model"
        and after(invocation.argv, "--effort") == "max"
    )
    assert invocation.environment["ANTHROPIC_BASE_URL"] == EXAMPLE_URL
    asked = {value for name, value in invocation.environment.items() if name.endswith("_MODEL")}
    assert asked == {"some-model"} and "ANTHROPIC_SMALL_FAST_MODEL" in invocation.environment
    assert agent.provider.models == ("some-model",)
    assert (agent.provider.key_header, agent.provider.key_form) == ("x-api-key", "{key}")
    assert agent.provider.agent_variable == "ANTHROPIC_API_KEY"
    assert "ANTHROPIC_API_KEY" not in invocation.environment


def test_it_has_no_tools_of_the_web(tmp_path: Path) -> None:
    argv = claude(tmp_path).invoke(example_task()).argv
    tools = after(argv, "--tools").split(",")
    assert "Bash" in tools and not {"WebSearch", "WebFetch"} & set(tools)
    assert after(argv, "--disallowedTools") == "WebSearch,WebFetch"
    with pytest.raises(ConfigError, match=r"agent.tools: 'WebSearch'"):
        claude(tmp_path, tools=["Bash", "WebSearch"])
    with pytest.raises(ConfigError, match="without a shell"):
        claude(tmp_path, tools=["Read"])


def test_the_prompt_is_on_standard_input_and_no_option_swallows_a_word(tmp_path: Path) -> None:
    task = example_task()
    invocation = claude(tmp_path, arguments=["--append-system-prompt", "Be brief."]).invoke(task)
    argv = list(invocation.argv)
    assert invocation.stdin == task.prompt and argv[-2:] == ["--append-system-prompt", "Be brief."]
    for taking_many in ("--tools", "--disallowedTools", "--mcp-config"):
        assert argv[argv.index(taking_many) + 2].startswith("--")


def test_it_neither_updates_nor_reports(tmp_path: Path) -> None:
    environment = claude(tmp_path).invoke(example_task()).environment
    for name in (
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
    ):
        assert environment[name] == "1"


def test_its_shell_waits_as_long_as_the_host_is_told(tmp_path: Path) -> None:
    usual, longer = claude(tmp_path), claude(tmp_path, call_seconds=900)
    assert (usual.call_seconds, longer.call_seconds) == (120, 900)
    assert usual.invoke(example_task()).environment["BASH_DEFAULT_TIMEOUT_MS"] == "120000"
    assert "BASH_MAX_TIMEOUT_MS" not in usual.invoke(example_task()).environment
    assert longer.invoke(example_task()).environment["BASH_MAX_TIMEOUT_MS"] == "900000"


def test_a_session_is_gone_on_with(tmp_path: Path) -> None:
    assert (
        after(claude(tmp_path).invoke(example_task(session_id="0a1b")).argv, "--resume") == "0a1b"
    )
    assert "--resume" not in claude(tmp_path).invoke(example_task(resumed=True)).argv


def test_one_base_url_serves_it_and_programs_that_want_the_version_in_it(tmp_path: Path) -> None:
    for given in ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/"):
        provider = claude(tmp_path, base_url=given).provider
        assert (provider.url, provider.paths[0]) == ("http://127.0.0.1:8000", "POST /v1/messages")


def test_a_server_of_ones_own_needs_no_key(tmp_path: Path) -> None:
    agent = claude(tmp_path, base_url="http://127.0.0.1:8000", key_variable="")
    assert agent.invoke(example_task()).environment["ANTHROPIC_API_KEY"] == "none"
    assert agent.provider.key_variable == ""


def test_retries_and_servers_of_tools_can_be_set(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.touch()
    agent = claude(
        tmp_path, retries=0, mcp_seconds=40, mcp_servers={"notes": ["python3", str(script), 'é "']}
    )
    invocation = agent.invoke(example_task())
    assert invocation.environment["CLAUDE_CODE_MAX_RETRIES"] == "0"
    assert invocation.environment["MCP_TOOL_TIMEOUT"] == "40000"
    assert json.loads(after(invocation.argv, "--mcp-config")) == {
        "mcpServers": {
            "notes": {"type": "stdio", "command": "python3", "args": [str(script), 'é "']}
        }
    }
    assert script in invocation.readable


def test_a_configuration_is_copied_without_logins_and_sessions(tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "projects").mkdir(parents=True)
    (own / "agents").mkdir()
    for name in (".credentials.json", ".claude.json", "settings.json", "CLAUDE.md"):
        (own / name).touch()
    invocation = claude(tmp_path, configuration=str(own)).invoke(example_task())
    assert sorted(invocation.home) == [
        ".claude/CLAUDE.md",
        ".claude/agents",
        ".claude/settings.json",
    ]
    assert "--strict-mcp-config" not in invocation.argv
    assert "--strict-mcp-config" in claude(tmp_path).invoke(example_task()).argv


def test_a_subscription_takes_its_login_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = claude(tmp_path, login="subscription")
    with pytest.raises(AgentError, match="log in with `claude`"):
        agent.probe()
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    assert agent.probe() == {"claude": VERSION}
    invocation = agent.invoke(example_task())
    assert invocation.home == {
        ".claude/.credentials.json": tmp_path / ".claude" / ".credentials.json"
    }
    assert "ANTHROPIC_BASE_URL" not in invocation.environment
    assert agent.provider.subscription and "api.anthropic.com:443" in agent.provider.hosts


def test_a_subscriptions_token_is_named_and_needs_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "a-long-lived-token-0123456789")
    agent = claude(tmp_path, login="subscription", variables=["CLAUDE_CODE_OAUTH_TOKEN"])
    agent.probe()
    invocation = agent.invoke(example_task())
    assert not invocation.home and list(invocation.variables) == ["CLAUDE_CODE_OAUTH_TOKEN"]
    assert "a-long-lived-token-0123456789" not in repr(invocation)


def test_a_missing_program_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    with pytest.raises(
        AgentError, match=r"install it with `npm install -g @anthropic-ai/claude-code`"
    ):
        claude(tmp_path, cli="claude").probe()


def test_its_own_installer_lays_it_off_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to a file named for its version."""
    versions, bin_ = (
        tmp_path / ".local" / "share" / "claude" / "versions",
        tmp_path / ".local" / "bin",
    )
    versions.mkdir(parents=True)
    bin_.mkdir(parents=True)
    (versions / "2.1.197").write_bytes(b"\x7fELF")
    (versions / "2.1.197").chmod(0o755)
    (bin_ / "claude").symlink_to(versions / "2.1.197")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path))
    invocation = claude(tmp_path, cli="claude").invoke(example_task())
    assert invocation.argv[0] == str(versions / "2.1.197") and list(invocation.readable) == [
        versions / "2.1.197"
    ]


def test_another_program_of_that_name_is_found_out(tmp_path: Path) -> None:
    agent = claude(tmp_path)
    fake(tmp_path, "claude 0.4, a client library")
    with pytest.raises(AgentError, match="is another program"):
        agent.probe()


@pytest.mark.skipif(
    platform.machine() not in MACHINES, reason="npm has no Claude Code for this machine"
)
def test_the_native_program_is_found_where_its_installation_was_not_finished(
    tmp_path: Path,
) -> None:
    modules = tmp_path / "node_modules" / "@anthropic-ai"
    wrapper = modules / "claude-code" / "bin" / "claude.exe"
    native = modules / f"claude-code-linux-{MACHINES[platform.machine()]}" / "claude"
    for path in (wrapper, native):
        path.parent.mkdir(parents=True)
    (modules / "claude-code" / "package.json").write_text("{}")
    wrapper.write_text("#!/bin/sh\necho not installed\n")
    wrapper.chmod(0o755)
    native.write_bytes(b"\x7fELF")
    assert claude(tmp_path, cli=str(wrapper)).invoke(example_task()).argv[0] == str(native)


def test_another_servers_answers_have_no_price_of_anthropics(tmp_path: Path) -> None:
    ended = (
        '{"type": "result", "subtype": "success", "is_error": false, "total_cost_usd": 0.5, '
        '"result": "Done.", '
    )
    ended += '"modelUsage": {"m": {"inputTokens": 1, "outputTokens": 1, "costUSD": 0.5}}}'
    own, other = claude(tmp_path), claude(tmp_path, base_url="http://127.0.0.1:9")
    assert own.read([ended]).usage.cost_usd == 0.5
    assert other.read([ended]).usage.cost_usd is None
