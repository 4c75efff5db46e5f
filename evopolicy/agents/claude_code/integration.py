"""`claude_code`: Anthropic's Claude Code CLI, non-interactive."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evopolicy.agents.claude_code.config import WEB_TOOLS, ClaudeCodeConfig
from evopolicy.agents.claude_code.stream import read_stream
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

INSTALL = "npm install -g @anthropic-ai/claude-code"
LEAST_NODE = (18, 0)
LOGIN = Path("~/.claude/.credentials.json")
TOKEN = "CLAUDE_CODE_OAUTH_TOKEN"
"""A subscription's long-lived login, made by `claude setup-token`."""
KEY = "ANTHROPIC_API_KEY"
"""Where it finds a key, or the proxy's dummy."""
ELSEWHERE = ("~/.local/bin/claude", "~/.claude/local/claude")
"""Where its own installers put it, which is not always on the PATH."""
LEFT = (  # noqa: SIM905
    ".credentials.json .claude.json projects sessions history.jsonl backups shell-snapshots "
    "session-env statsig telemetry todos tasks file-history paste-cache debug ide local cache "
    "stats-cache.json .last-cleanup"
).split()
"""Of a configuration folder: logins, and what earlier sessions left."""
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
    "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_INSTALLATION_CHECKS": "1",
    "IS_SANDBOX": "1",  # without it, it does not work for root
}
MODELS = (
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_FABLE_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
"""Which models it asks beside its main one: all the same, as one Run measures one model."""
NO_KEY = "none"
"""It does not start without a key, also where the server wants none."""
MOST_CALL_SECONDS = 600.0
"""What its shell allows at most unless told otherwise."""


@dataclass(frozen=True)
class ClaudeCode(CodingAgent):
    """Starts `claude -p --output-format stream-json` with the prompt on standard input."""

    config: ClaudeCodeConfig

    Config = ClaudeCodeConfig

    @property
    def call_seconds(self) -> float:
        return self.config.call_seconds

    @property
    def provider(self) -> Provider:
        provider = coding.provider(
            self.config,
            "https://api.anthropic.com",
            ("POST /v1/messages", "POST /v1/messages/count_tokens"),
            agent_variable=KEY,
            key_header="x-api-key",
            key_form="{key}",
            hosts=("api.anthropic.com:443", "platform.claude.com:443"),
        )
        # It adds `/v1` itself, others take the same address with it; and it asks for `model[1m]` by
        # a header.
        models = (self.config.model.partition("[")[0],)
        return replace(provider, url=provider.url.rstrip("/").removesuffix("/v1"), models=models)

    def probe(self) -> Mapping[str, str]:
        self.check()
        argv, _ = self._program()
        version = coding.version_of((*argv, "--version"), QUIET)
        if not re.match(r"\d+\.\d+\.\d+ \(Claude Code\)", version):
            raise AgentError(
                f"agent.cli: '{self.config.cli}' is another program ('{version}'), not Claude "
                f"Code; install it with `{INSTALL}`, or give its path"
            )
        by_token = TOKEN in self.config.variables
        if (
            self.config.login == "subscription"
            and not by_token
            and not LOGIN.expanduser().is_file()
        ):
            raise AgentError(
                f"agent.login: there is no '{LOGIN}'; log in with `claude`, or put what `claude "
                f"setup-token` says into {TOKEN} and set agent.variables=[{TOKEN}], or set "
                "agent.login=key"
            )
        return {"claude": version}

    def invoke(self, task: AgentTask) -> Invocation:
        config = self.config
        argv, readable = self._program()
        home = configuration_files(config.configuration, ".claude", LEFT)
        if config.login == "subscription" and TOKEN not in config.variables:
            home[".claude/.credentials.json"] = LOGIN.expanduser()
        return Invocation(
            argv=(*argv, *self._options(task)),
            environment=self._environment(task),
            variables=self.variables,
            stdin=task.prompt,
            readable=(*readable, *named_files(config.mcp_servers)),
            home=home,
            collect=(".claude/projects/**/*.jsonl",),
            provider=self.provider,
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        read = read_stream(lines, logs)
        # It counts by Anthropic's prices whatever server answers.
        return (
            replace(read, usage=replace(read.usage, cost_usd=None))
            if self.config.base_url
            else read
        )

    def _options(self, task: AgentTask) -> list[str]:
        config = self.config
        servers: dict[str, dict[str, Any]] = {
            name: {"type": "stdio", "command": command[0], "args": list(command[1:])}
            for name, command in config.mcp_servers.items()
        }
        options = ["-p", "--output-format", "stream-json", "--verbose", "--model", config.model]
        if config.effort:
            options += ["--effort", config.effort]
        options += ["--permission-mode", "bypassPermissions"]
        # These take any number of words: another option has to follow each.
        options += ["--tools", ",".join(config.tools), "--disallowedTools", ",".join(WEB_TOOLS)]
        if not config.configuration:
            options += ["--strict-mcp-config"]
        if servers or not config.configuration:
            options += ["--mcp-config", json.dumps({"mcpServers": servers})]
        if task.session_id:
            options += ["--resume", task.session_id]
        return [*options, "--no-chrome", *config.arguments]

    def _environment(self, task: AgentTask) -> dict[str, str]:
        config = self.config
        environment = {**QUIET, **dict.fromkeys(MODELS, config.model)}
        milliseconds = str(round(config.call_seconds * 1000))
        environment["BASH_DEFAULT_TIMEOUT_MS"] = milliseconds
        if config.call_seconds > MOST_CALL_SECONDS:
            environment["BASH_MAX_TIMEOUT_MS"] = milliseconds
        if config.retries is not None:
            environment["CLAUDE_CODE_MAX_RETRIES"] = str(config.retries)
        if config.mcp_seconds is not None:
            environment["MCP_TOOL_TIMEOUT"] = str(round(config.mcp_seconds * 1000))
        if config.login == "key":
            environment["ANTHROPIC_BASE_URL"] = task.provider_url
            if not config.key_variable:
                environment[KEY] = NO_KEY
        return environment

    def _program(self) -> tuple[tuple[str, ...], tuple[Path, ...]]:
        """How it is started here, and what it runs from. Raises AgentError."""
        config = self.config
        if config.cli == "claude" and shutil.which(config.cli) is None:
            beside = next(
                (place for place in ELSEWHERE if shutil.which(Path(place).expanduser())), config.cli
            )
            config = replace(config, cli=beside)
        named = coding.find_cli(config, INSTALL)
        package = f"@anthropic-ai/claude-code-linux-{machine()}"
        native = native_program(named, (f"{package}/claude", f"{package}-musl/claude"))
        if native is None:
            program = node_program(config, "", LEAST_NODE, INSTALL)
            return program.argv, program.readable
        return (str(native),), (native,)
