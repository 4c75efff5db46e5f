"""Options of `codex`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.coding.cli import CodingConfig
from evopolicy.agents.config import at_least


@dataclass(frozen=True)
class CodexConfig(CodingConfig):
    request_retries: int | None
    """How often Codex asks again after a request that failed; null: its own (4)."""
    stream_retries: int | None
    """How often it asks again after an answer that broke off; null: its own (5)."""
    stream_idle_seconds: float | None
    """Silence within an answer after which it asks again; null: its own (300)."""
    mcp_seconds: float | None
    """How long a call of an MCP server's tool may take; null: its own (300)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("request_retries", self.request_retries, 0)
        at_least("stream_retries", self.stream_retries, 0)
        at_least("stream_idle_seconds", self.stream_idle_seconds, 1)
        at_least("mcp_seconds", self.mcp_seconds, 1)
