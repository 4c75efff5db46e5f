"""Options of `claude_code`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.coding.cli import CodingConfig
from evopolicy.agents.config import at_least
from evopolicy.kernel.errors import ConfigError

WEB_TOOLS = ("WebSearch", "WebFetch")
ALIASES = ("default", "best", "sonnet", "opus", "haiku", "fable", "opusplan")
"""Names it takes for a model that are none."""


@dataclass(frozen=True)
class ClaudeCodeConfig(CodingConfig):
    tools: tuple[str, ...]
    """Which of its own tools it has, by name; tools of MCP servers come to them."""
    call_seconds: float
    """How long its shell lets a command run before it ends it; above 600 it may also ask for
    more."""
    retries: int | None
    """How often it asks again after a request that failed; null: its own (10, in about 3
    minutes)."""
    mcp_seconds: float | None
    """How long a call of an MCP server's tool may take; null: its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("call_seconds", self.call_seconds, 10)
        at_least("retries", self.retries, 0)
        at_least("mcp_seconds", self.mcp_seconds, 1)
        if self.model.partition("[")[0] in ALIASES:
            raise ConfigError(
                f"agent.model: '{self.model}' is an alias that Claude Code turns into another "
                "model with each version; name the model's id, as claude-sonnet-4-5"
            )
        if "Bash" not in self.tools:
            raise ConfigError(
                "agent.tools: 'Bash' is missing, and without a shell no Program can be submitted"
            )
        for tool in self.tools:
            if tool in WEB_TOOLS or not tool.replace("_", "").isalnum():
                raise ConfigError(
                    f"agent.tools: '{tool}' cannot be one; plain names are needed, and none of "
                    "the web's"
                )
