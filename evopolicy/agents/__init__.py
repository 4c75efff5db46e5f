"""Agents by name. To add one: a folder with `config.py` and `integration.py`, a line here,
`conf/agent/<name>.yaml`.

An integration turns a Host-owned task into one invocation and reads the stream it prints;
`execution/` starts it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from evopolicy.agents.config import AgentConfig, make_config
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.named import distribution_of, load_named
from evopolicy.kernel.ports.protocols import AgentIntegration

AGENTS: dict[str, str] = {
    "baseline": "evopolicy.agents.baseline.integration:Baseline",
    "chat": "evopolicy.agents.chat.integration:Chat",
    "claude_code": "evopolicy.agents.claude_code.integration:ClaudeCode",
    "cma_es": "evopolicy.agents.cma_es.integration:CmaEs",
    "cma_es_ranked": "evopolicy.agents.cma_es.integration:CmaEsRanked",
    "codex": "evopolicy.agents.codex.integration:Codex",
    "command": "evopolicy.agents.command.integration:Command",
    "gemini_cli": "evopolicy.agents.gemini_cli.integration:GeminiCli",
    "human": "evopolicy.agents.human.integration:Human",
    "kimi_code": "evopolicy.agents.kimi_code.integration:KimiCode",
    "opencode": "evopolicy.agents.opencode.integration:OpenCode",
    "qoder": "evopolicy.agents.qoder.integration:Qoder",
    "random": "evopolicy.agents.random.integration:Random",
    "replay": "evopolicy.agents.replay.integration:Replay",
}
"""`name: "module:Class"`. The class has an attribute `Config` and is made with one of it. The line
to edit."""

GROUP = "evopolicy.agents"
"""Entry points of other distributions, of the same form; a name of ours cannot be taken over."""


def agent_names() -> tuple[str, ...]:
    """Every agent that can be loaded here, sorted."""
    return tuple(sorted({*AGENTS, *(point.name for point in entry_points(group=GROUP))}))


def agent_class(name: str) -> Any:
    """The integration class of `name`. Raises AgentError, with the near name, where there is
    none."""
    ours = {agent: EntryPoint(agent, target, GROUP) for agent, target in AGENTS.items()}
    return load_named("agent", name, GROUP, ours, AgentError)


def agent_versions(name: str) -> dict[str, str]:
    """The distribution the agent `name` comes from, with its version; nothing for one of ours."""
    return distribution_of(name, GROUP, AGENTS)


def config_class(name: str) -> type[AgentConfig]:
    """The dataclass that `conf/agent/<name>.yaml` mirrors. Raises AgentError."""
    config: type[AgentConfig] = agent_class(name).Config
    return config


def load_agent(name: str, config: AgentConfig | Mapping[str, Any]) -> AgentIntegration:
    """The integration `name` with `config`, a dataclass of its own or the mapping a YAML gives.

    Raises AgentError for an unknown agent, ConfigError for a key that is unknown, missing or of the
    wrong type."""
    cls = agent_class(name)
    integration: AgentIntegration = cls(make_config(cls.Config, config))
    return integration
