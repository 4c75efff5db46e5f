"""`opencode`: OpenCode, without a terminal, over any OpenAI-compatible address."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicy.agents.coding.cli import CodingAgent, find_cli, provider, version_of
from evopolicy.agents.coding.installed import configuration_files, named_files
from evopolicy.agents.opencode import parser
from evopolicy.agents.opencode.config import OpenCodeConfig
from evopolicy.kernel.ports.protocols import AgentTask, Invocation, Provider
from evopolicy.kernel.ports.transcript import Transcript

INSTALL = "npm install -g opencode-ai"
KEY = "EVOPOLICY_PROVIDER_KEY"
PROVIDER = "host"
"""What the model's provider is called in its configuration."""
CONFIG = "opencode.json"
QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    # It looks for a package of plugins at its start; without a network npm would ask for it again
    # and again.
    "npm_config_fetch_retries": "0",
    "npm_config_offline": "true",
}


@dataclass(frozen=True)
class OpenCode(CodingAgent):
    """Prompt on standard input, JSON events on standard output, a staged configuration."""

    config: OpenCodeConfig

    Config = OpenCodeConfig
    call_seconds = 100.0  # its shell ends a command after 120 s

    @property
    def provider(self) -> Provider:
        return provider(self.config, "", ("POST /chat/completions",), agent_variable=KEY)

    def probe(self) -> Mapping[str, str]:
        self.check()
        return {"opencode": version_of((str(find_cli(self.config, INSTALL)), "--version"), QUIET)}

    def invoke(self, task: AgentTask) -> Invocation:
        config, program = self.config, find_cli(self.config, INSTALL)
        argv = [
            str(program),
            "run",
            "--format",
            "json",
            "--thinking",
            "-m",
            f"{PROVIDER}/{config.model}",
        ]
        # A session that has a title asks no model for one.
        argv += ["-s", task.session_id] if task.session_id else ["--title", "EvoPolicy"]
        environment = {**QUIET, "OPENCODE_CONFIG": str(task.staging / CONFIG)}
        if not config.key_variable:
            environment[KEY] = "none-is-needed"
        return Invocation(
            argv=(*argv, *config.arguments),
            environment=environment,
            variables=config.variables,
            stdin=task.prompt,
            files={CONFIG: json.dumps(self._configuration(task), indent=2)},
            readable=tuple(
                dict.fromkeys((program, program.resolve(), *named_files(config.mcp_servers)))
            ),
            home=configuration_files(config.configuration, ".config/opencode", ("node_modules",)),
            provider=self.provider,
        )

    def read(self, lines: Iterable[str], logs: Path | None = None) -> Transcript:
        return parser.read(lines, logs)

    def _configuration(self, task: AgentTask) -> dict[str, Any]:
        config = self.config
        model: dict[str, Any] = {
            "reasoning": True,
            "tool_call": True,
            "limit": {"context": config.context_tokens, "output": config.output_tokens},
        }
        if config.effort:
            model["options"] = {"reasoningEffort": config.effort}
        named = f"{PROVIDER}/{config.model}"
        servers = {
            name: {"type": "local", "command": list(command), "enabled": True}
            for name, command in config.mcp_servers.items()
        }
        return {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "model": named,
            "small_model": named,
            "enabled_providers": [PROVIDER],
            "permission": {"*": "allow", "webfetch": "deny", "websearch": "deny"},
            "provider": {
                PROVIDER: {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": task.provider_url, "apiKey": f"{{env:{KEY}}}"},
                    "models": {config.model: model},
                }
            },
            **({"mcp": servers} if servers else {}),
        }
