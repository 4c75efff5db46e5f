"""`gemini_cli`: Google's Gemini CLI, without a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicy.agents.coding.cli import CodingAgent, provider, version_of
from evopolicy.agents.coding.home import with_home_files
from evopolicy.agents.coding.installed import configuration_files, named_files
from evopolicy.agents.coding.node import Program, node_program
from evopolicy.agents.gemini_cli import chats, parser
from evopolicy.agents.gemini_cli.config import GeminiConfig
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.ports.protocols import AgentTask, Invocation, Provider
from evopolicy.kernel.ports.transcript import Transcript

INSTALL = "npm install -g @google/gemini-cli"
URL = "https://generativelanguage.googleapis.com"
LOGIN_URL = "https://cloudcode-pa.googleapis.com"
LOGIN_HOSTS = (
    "cloudcode-pa.googleapis.com:443",
    "oauth2.googleapis.com:443",
    "www.googleapis.com:443",
)
KEY = "GEMINI_API_KEY"
LEFT_BEHIND = ("tmp", "history", "projects.json")
LOGIN_FILES = (
    "oauth_creds.json",
    "google_accounts.json",
    "gemini-credentials.json",
    "mcp-oauth-tokens.json",
    ".env",
)
WEB_TOOLS = ("web_fetch", "google_web_search")
# What it would ask other models for; the Run has one.
SIDE_CALLS = (
    *("classifier", "prompt-completion", "fast-ack-helper", "edit-corrector", "llm-edit-fixer"),
    *("summarizer-default", "summarizer-shell", "loop-detection", "loop-detection-double-check"),
    *("next-speaker-checker", "context-snapshotter", "agent-history-provider-summarizer"),
    *("chat-compression-default", "chat-compression-3-pro", "chat-compression-3-flash"),
    *("chat-compression-3.1-flash-lite", "chat-compression-2.5-pro", "chat-compression-2.5-flash"),
    "chat-compression-2.5-flash-lite",
)
SIDE_AGENTS = ("codebase_investigator", "cli_help")


@dataclass(frozen=True)
class GeminiCli(CodingAgent):
    """Prompt on standard input, `stream-json` on standard output, settings in its home."""

    config: GeminiConfig

    Config = GeminiConfig
    call_seconds = 240.0  # its shell gives up after 300 s without output

    @property
    def provider(self) -> Provider:
        config = self.config
        if config.login == "subscription":
            paths: tuple[str, ...] = ("POST /v1internal:streamGenerateContent",)
        else:
            verbs = ("streamGenerateContent", "generateContent", "countTokens")
            paths = tuple(f"POST /v1beta/models/{config.model}:{verb}" for verb in verbs)
        url = LOGIN_URL if config.login == "subscription" else URL
        header = {"key_header": "x-goog-api-key", "key_form": "{key}"}
        return provider(config, url, paths, agent_variable=KEY, hosts=LOGIN_HOSTS, **header)  # type: ignore[arg-type]

    def probe(self) -> Mapping[str, str]:
        self.check()
        program = self._program()
        if self.config.login == "subscription" and not self._login().is_file():
            raise AgentError(
                f"agent.login: there is no login in '{self._login()}'; run `{self.config.cli}` "
                "once and sign in with Google, or use agent.login=key"
            )
        versions = {
            "gemini_cli": version_of((*program.argv, "--version"), {"GEMINI_CLI_NO_RELAUNCH": "1"})
        }
        return {**versions, "node": program.node} if program.node else versions

    def invoke(self, task: AgentTask) -> Invocation:
        config, program = self.config, self._program()
        argv = [
            *program.argv,
            "-o",
            "stream-json",
            "--approval-mode",
            "yolo",
            "--skip-trust",
            "-m",
            config.model,
        ]
        if task.session_id:
            argv += ["--resume", task.session_id]
        settings = json.dumps(self._settings(), indent=2)
        first, files = with_home_files(
            task, [*argv, *config.arguments], {".gemini/settings.json": settings}
        )
        environment = {"GEMINI_CLI_NO_RELAUNCH": "1", "NO_COLOR": "1"}
        if config.login == "key":
            environment["GOOGLE_GEMINI_BASE_URL"] = task.provider_url
            if not config.key_variable:
                environment[KEY] = "none-is-needed"
        return Invocation(
            argv=first,
            environment=environment,
            variables=config.variables,
            stdin=task.prompt,
            files=files,
            readable=(*program.readable, *named_files(config.mcp_servers)),
            home=self._home(),
            collect=(chats.COLLECTED,),
            provider=self.provider,
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        return parser.read(lines, logs)

    def _program(self) -> Program:
        return node_program(self.config, self.config.node, (20, 0), INSTALL)

    def _login(self) -> Path:
        return Path(self.config.configuration or "~/.gemini").expanduser() / "oauth_creds.json"

    def _home(self) -> dict[str, Path]:
        subscribed = self.config.login == "subscription"
        if self.config.configuration:
            without = LEFT_BEHIND if subscribed else (*LEFT_BEHIND, *LOGIN_FILES)
            return configuration_files(self.config.configuration, ".gemini", without)
        if not subscribed:
            return {}
        accounts = self._login().with_name("google_accounts.json")
        found = {accounts.name: accounts} if accounts.is_file() else {}
        return {
            f".gemini/{name}": path
            for name, path in {"oauth_creds.json": self._login(), **found}.items()
        }

    def _settings(self) -> dict[str, Any]:
        config = self.config
        own = {"extends": "base", "modelConfig": {"model": config.model}}
        aliases: dict[str, Any] = dict.fromkeys(SIDE_CALLS, own)
        if config.effort:
            thinking = _thinking(config.effort)
            aliases[config.model] = {
                "extends": "chat-base",
                "modelConfig": {
                    "model": config.model,
                    "generateContentConfig": {"thinkingConfig": thinking},
                },
            }
        servers = {
            name: {"command": command[0], "args": list(command[1:]), "trust": True}
            for name, command in config.mcp_servers.items()
        }
        login = "oauth-personal" if config.login == "subscription" else "gemini-api-key"
        return {
            "security": {"auth": {"selectedType": login}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "tools": {"exclude": list(WEB_TOOLS)},
            "modelConfigs": {"customAliases": aliases},
            "agents": {
                "overrides": {
                    name: {"modelConfig": {"model": config.model}} for name in SIDE_AGENTS
                }
            },
            **({"mcpServers": servers} if servers else {}),
        }


def _thinking(effort: str) -> dict[str, Any]:
    """Gemini 2.5 takes a budget in tokens, later ones a level."""
    if effort.lstrip("-").isdigit():
        return {"thinkingBudget": int(effort)}
    return {"thinkingLevel": effort.upper()}
