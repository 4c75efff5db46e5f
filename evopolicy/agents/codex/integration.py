"""`codex`: OpenAI's Codex CLI, non-interactive."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicy.agents.codex.config import CodexConfig
from evopolicy.agents.codex.refused import with_refused
from evopolicy.agents.codex.stream import read_stream
from evopolicy.agents.coding import cli as coding
from evopolicy.agents.coding.cli import CodingAgent
from evopolicy.agents.coding.installed import (
    configuration_files,
    machine,
    named_files,
    native_program,
)
from evopolicy.agents.coding.node import node_program
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentTask, Invocation, Provider
from evopolicy.kernel.ports.transcript import Transcript

INSTALL = "npm install -g @openai/codex"
LEAST_NODE = (16, 0)
LOGIN = Path("~/.codex/auth.json")
KEY = "OPENAI_API_KEY"
"""Where it finds a key, or the proxy's dummy."""
RETRY_AFTER_SECONDS = 5.0
"""Codex gives up on a 429 that does not say when to come back."""
OFF = ("plugins", "apps", "goals", "multi_agent", "image_generation")
"""Its features that work outside the sandbox or make an agent of several."""
LEFT = (  # noqa: SIM905
    "auth.json sessions archived_sessions history.jsonl log logs shell_snapshots tmp cache "
    "version.json installation_id thread-writer-locks"
).split()
"""Of a configuration folder: the login, and what earlier sessions left."""


@dataclass(frozen=True)
class Codex(CodingAgent):
    """Starts `codex exec --json` with the prompt on standard input."""

    config: CodexConfig

    Config = CodexConfig
    call_seconds = 30.0  # its shell hands a command that runs longer back to the model

    @property
    def provider(self) -> Provider:
        subscription = self.config.login == "subscription"
        return coding.provider(
            self.config,
            "https://chatgpt.com/backend-api/codex"
            if subscription
            else "https://api.openai.com/v1",
            ("POST /responses",),
            agent_variable=KEY,
            hosts=("chatgpt.com:443", "auth.openai.com:443"),
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )

    def probe(self) -> Mapping[str, str]:
        self.check()
        argv, _ = self._program()
        version = coding.version_of((*argv, "--version"))
        if not re.match(r"codex(-cli)? v?\d+\.\d+", version):
            raise AgentError(
                f"agent.cli: '{self.config.cli}' is another program ('{version}'), not OpenAI's "
                f"Codex; install it with `{INSTALL}`, or give its path"
            )
        if self.config.login == "subscription" and not LOGIN.expanduser().is_file():
            raise AgentError(
                f"agent.login: there is no '{LOGIN}'; log in with `codex login`, or set "
                "agent.login=key"
            )
        return {"codex": version}

    def invoke(self, task: AgentTask) -> Invocation:
        config = self.config
        argv, readable = self._program()
        home = configuration_files(config.configuration, ".codex", LEFT)
        if config.login == "subscription":
            home[".codex/auth.json"] = LOGIN.expanduser()
        clean = [] if config.configuration else ["--ignore-user-config", "--ignore-rules"]
        resume = ["resume", task.session_id] if task.session_id else []
        return Invocation(
            argv=(
                *(*argv, "--ask-for-approval", "never", "exec", "--json", "--skip-git-repo-check"),
                *(
                    "--sandbox",
                    "danger-full-access",
                    "--color",
                    "never",
                    *clean,
                    "--model",
                    config.model,
                ),
                *(word for setting in self._settings(task) for word in ("-c", setting)),
                *(*config.arguments, *resume, "-"),
            ),
            variables=self.variables,
            stdin=task.prompt,
            readable=(*readable, *named_files(config.mcp_servers)),
            home=home,
            collect=(".codex/sessions/**/*.jsonl",),
            provider=self.provider,
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        return with_refused(read_stream(lines, logs), logs)

    def _program(self) -> tuple[tuple[str, ...], tuple[Path, ...]]:
        """How it is started here, and what it runs from. Raises AgentError."""
        named = coding.find_cli(self.config, INSTALL)
        target = f"{'aarch64' if machine() == 'arm64' else 'x86_64'}-unknown-linux-musl"
        vendor = f"vendor/{target}"
        places = [
            f"{package}{vendor}/{folder}/codex"
            for package in (f"@openai/codex-linux-{machine()}/", "")
            for folder in ("bin", "codex")
        ]
        native = native_program(named, places)
        if native is None:
            program = node_program(self.config, "", LEAST_NODE, INSTALL)
            return program.argv, program.readable
        # Its own tools (a search program, a code host) lie beside it in the package.
        around = native.parents[1] if native.parents[1].name == target else native
        return (str(native),), (around,)

    def _settings(self, task: AgentTask) -> Iterator[str]:
        """`key=value`, the value in TOML."""
        config = self.config
        if config.effort:
            yield f"model_reasoning_effort={_toml(config.effort)}"
        if config.login == "subscription":
            yield 'cli_auth_credentials_store="file"'
        else:
            yield 'model_provider="evopolicy"'
            yield f"model_providers.evopolicy={_toml(self._provider_table(task))}"
        yield 'web_search="disabled"'
        yield from (f"features.{name}=false" for name in OFF)
        yield "agents.enabled=false"
        yield "analytics.enabled=false"
        yield "check_for_update_on_startup=false"
        # A login shell would set the PATH anew, which the session command is found on.
        yield "allow_login_shell=false"
        yield 'shell_environment_policy.inherit="all"'
        yield "shell_environment_policy.ignore_default_excludes=true"
        yield f"shell_environment_policy.exclude={_toml([KEY])}"
        for name, command in config.mcp_servers.items():
            table = {
                "command": command[0],
                "args": list(command[1:]),
                "env_vars": ["EVOPOLICY_SESSION", "EVOPOLICY_WORKSPACE", *config.variables],
                "tool_timeout_sec": config.mcp_seconds,
            }
            yield f"mcp_servers.{name}={_toml(table)}"

    def _provider_table(self, task: AgentTask) -> dict[str, object]:
        config = self.config
        idle = config.stream_idle_seconds
        return {
            "name": "evopolicy",
            "base_url": task.provider_url,
            "wire_api": "responses",
            "env_key": KEY if config.key_variable else None,
            "request_max_retries": config.request_retries,
            "stream_max_retries": config.stream_retries,
            "stream_idle_timeout_ms": None if idle is None else round(idle * 1000),
        }


def _toml(value: object) -> str:
    """`value` as TOML writes it on one line; what is None in a table is left out."""
    if isinstance(value, dict):
        pairs = (f"{name}={_toml(item)}" for name, item in value.items() if item is not None)
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_toml, value)) + "]"
    # TOML's basic strings are JSON's, but for one character that has to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
