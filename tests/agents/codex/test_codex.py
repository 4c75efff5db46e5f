"""What `codex` asks to be started, and what it finds on the machine."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from evopolicy.agents import load_agent
from evopolicy.agents.codex.integration import Codex
from evopolicy.agents.contract import EXAMPLE_URL, AgentContract, example_task
from evopolicy.kernel.errors import AgentError, ConfigError
from tests.agents.codex.test_codex_stream import WELL

SHIPPED = yaml.safe_load(Path("conf/agent/codex.yaml").read_text())
MACHINES = {"x86_64": ("x64", "x86_64"), "aarch64": ("arm64", "aarch64")}


def fake(folder: Path, says: str = "codex-cli 0.171.0", code: int = 0) -> str:
    path = folder / "codex"
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def codex(folder: Path, **options: Any) -> Codex:
    agent = load_agent("codex", {**SHIPPED, "cli": fake(folder), **options})
    assert isinstance(agent, Codex)
    return agent


def settings(argv: tuple[str, ...]) -> dict[str, Any]:
    """What the `-c` arguments say, as Codex reads them."""
    given = [argv[place + 1] for place, word in enumerate(argv) if word == "-c"]
    merged: dict[str, Any] = {}
    for text in given:
        _merge(merged, tomllib.loads(text))
    return merged


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


class TestCodexContract(AgentContract):
    stream = WELL

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "a-secret-of-the-host-0123456789")
        self.at = tmp_path

    def make(self) -> Codex:
        return codex(self.at)


def test_it_asks_the_hosts_proxy_for_the_one_model_and_nothing_else(tmp_path: Path) -> None:
    agent = codex(tmp_path, model="some-model", effort="high")
    argv = tuple(agent.invoke(example_task()).argv)
    said = settings(argv)
    assert argv[argv.index("--model") + 1] == "some-model" and agent.provider.models == (
        "some-model",
    )
    assert said["model_provider"] == "evopolicy" and said["model_reasoning_effort"] == "high"
    assert said["model_providers"]["evopolicy"] == {
        "name": "evopolicy", "base_url": EXAMPLE_URL, "wire_api": "responses", "env_key": "OPENAI_API_KEY",
    }  # fmt: skip
    assert (
        said["web_search"] == "disabled"
        and not any(said["features"].values())
        and not said["agents"]["enabled"]
    )
    assert not said["analytics"]["enabled"] and not said["check_for_update_on_startup"]
    assert (agent.provider.url, agent.provider.paths) == (
        "https://api.openai.com/v1",
        ("POST /responses",),
    )
    assert agent.provider.retry_after_seconds == 5 and agent.call_seconds == 30


def test_the_prompt_is_on_standard_input_and_the_home_is_clean(tmp_path: Path) -> None:
    task = example_task()
    invocation = codex(tmp_path).invoke(task)
    assert invocation.stdin == task.prompt and invocation.argv[-1] == "-"
    assert {"--ignore-user-config", "--ignore-rules"} <= set(
        invocation.argv
    ) and not invocation.home


def test_its_shells_have_the_session_and_not_the_key(tmp_path: Path) -> None:
    policy = settings(tuple(codex(tmp_path).invoke(example_task()).argv))[
        "shell_environment_policy"
    ]
    assert policy == {
        "inherit": "all",
        "ignore_default_excludes": True,
        "exclude": ["OPENAI_API_KEY"],
    }


def test_a_session_is_gone_on_with(tmp_path: Path) -> None:
    argv = (
        codex(tmp_path, arguments=["--enable", "x"])
        .invoke(example_task(session_id="0a1b-thread"))
        .argv
    )
    assert list(argv[-5:]) == ["--enable", "x", "resume", "0a1b-thread", "-"]
    assert argv.index("--json") < argv.index("resume")


def test_a_server_of_ones_own_needs_no_key(tmp_path: Path) -> None:
    agent = codex(tmp_path, base_url="http://127.0.0.1:8000/v1", key_variable="")
    table = settings(tuple(agent.invoke(example_task()).argv))["model_providers"]["evopolicy"]
    assert "env_key" not in table and agent.provider.url == "http://127.0.0.1:8000/v1"


def test_its_own_retries_can_be_set(tmp_path: Path) -> None:
    agent = codex(tmp_path, request_retries=0, stream_retries=2, stream_idle_seconds=1.5)
    table = settings(tuple(agent.invoke(example_task()).argv))["model_providers"]["evopolicy"]
    kinds = ("request_max_retries", "stream_max_retries", "stream_idle_timeout_ms")
    assert [table[kind] for kind in kinds] == [0, 2, 1500]


def test_servers_of_tools_get_the_session_and_their_files_can_be_read(tmp_path: Path) -> None:
    script = tmp_path / "a server.py"
    script.touch()
    servers = {"notes": ["python3", str(script), 'say "é\x7f"']}
    invocation = codex(tmp_path, mcp_servers=servers, mcp_seconds=40, variables=["NOTES"]).invoke(
        example_task()
    )
    assert settings(tuple(invocation.argv))["mcp_servers"]["notes"] == {
        "command": "python3", "args": servers["notes"][1:], "tool_timeout_sec": 40,
        "env_vars": ["EVOPOLICY_SESSION", "EVOPOLICY_WORKSPACE", "NOTES"],
    }  # fmt: skip
    assert script in invocation.readable


def test_a_configuration_is_copied_without_logins_and_sessions(tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "sessions").mkdir(parents=True)
    (own / "prompts").mkdir()
    for name in ("auth.json", "config.toml", "AGENTS.md"):
        (own / name).touch()
    invocation = codex(tmp_path, configuration=str(own)).invoke(example_task())
    assert sorted(invocation.home) == [".codex/AGENTS.md", ".codex/config.toml", ".codex/prompts"]
    assert "--ignore-user-config" not in invocation.argv


def test_a_subscription_takes_its_login_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = codex(tmp_path, login="subscription")
    with pytest.raises(AgentError, match="codex login"):
        agent.probe()
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").write_text("{}")
    assert agent.probe() == {"codex": "codex-cli 0.171.0"}
    invocation = agent.invoke(example_task())
    assert invocation.home == {".codex/auth.json": tmp_path / ".codex" / "auth.json"}
    assert "model_providers" not in settings(tuple(invocation.argv))
    provider = agent.provider
    assert (
        provider.subscription and not provider.key_variable and "chatgpt.com:443" in provider.hosts
    )


def test_a_missing_program_is_named_with_what_installs_it(tmp_path: Path) -> None:
    with pytest.raises(
        AgentError, match=r"is not here; install it with `npm install -g @openai/codex`"
    ):
        codex(tmp_path, cli=str(tmp_path / "nothing")).probe()


def test_another_program_of_that_name_is_found_out(tmp_path: Path) -> None:
    agent = codex(tmp_path)
    fake(tmp_path, "This package has moved.")
    with pytest.raises(AgentError, match=r"another program \('This package has moved.'\)"):
        agent.probe()


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="NOT_SET_ANYWHERE"):
        codex(tmp_path, variables=["NOT_SET_ANYWHERE"]).probe()


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.skipif(platform.machine() not in MACHINES, reason="npm has no Codex for this machine")
def test_the_native_program_is_found_behind_npms_launcher(tmp_path: Path, beside: bool) -> None:
    """npm lays the package for the machine beside the launcher's own, or inside it."""
    npm, kernel = MACHINES[platform.machine()]
    modules = tmp_path / "node_modules"
    package = modules / "@openai" / "codex"
    tree = modules if beside else package / "node_modules"
    vendor = tree / "@openai" / f"codex-linux-{npm}" / "vendor" / f"{kernel}-unknown-linux-musl"
    for folder in (package / "bin", modules / ".bin", vendor / "bin"):
        folder.mkdir(parents=True)
    (package / "package.json").write_text("{}")
    (package / "bin" / "codex.js").write_text("#!/usr/bin/env node\n")
    (package / "bin" / "codex.js").chmod(0o755)
    (modules / ".bin" / "codex").symlink_to("../@openai/codex/bin/codex.js")
    (vendor / "bin" / "codex").write_bytes(b"\x7fELF")
    invocation = codex(tmp_path, cli=str(modules / ".bin" / "codex")).invoke(example_task())
    assert invocation.argv[0] == str(vendor / "bin" / "codex") and list(invocation.readable) == [
        vendor
    ]


def test_without_a_native_program_node_runs_the_launcher(tmp_path: Path) -> None:
    package, tools = tmp_path / "node_modules" / "@openai" / "codex", tmp_path / "tools"
    (package / "bin").mkdir(parents=True)
    tools.mkdir()
    (package / "package.json").write_text("{}")
    launcher = package / "bin" / "codex.js"
    launcher.write_text("#!/usr/bin/env node\n")
    node = package / "bin" / "node"
    node.write_text("#!/bin/sh\necho v22.1.0\n")
    for path in (launcher, node):
        path.chmod(0o755)
    invocation = codex(tools, cli=str(launcher)).invoke(example_task())
    assert (
        list(invocation.argv[:2]) == [str(node), str(launcher)] and package in invocation.readable
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [("request_retries", -1), ("stream_idle_seconds", 0), ("mcp_seconds", 0.5), ("model", "")],
)
def test_an_option_out_of_its_range_is_refused_by_name(
    tmp_path: Path, option: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=f"agent.{option}"):
        codex(tmp_path, **{option: value})
