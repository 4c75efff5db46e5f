"""Options of `kimi_code`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.coding.cli import CodingConfig
from evopolicy.agents.config import at_least
from evopolicy.kernel.errors import ConfigError

PROTOCOLS = ("kimi", "openai")


@dataclass(frozen=True)
class KimiConfig(CodingConfig):
    node: str
    """The Node that runs it, 24.15 or newer; '' to look for one."""
    protocol: str
    """'kimi' (Moonshot's own form of Chat Completions) or 'openai'; with a subscription it is not
    used."""
    context_tokens: int
    """The model's context window, by which it decides when to compact."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol not in PROTOCOLS:
            raise ConfigError(
                f"agent.protocol: one of {', '.join(PROTOCOLS)} is needed, found '{self.protocol}'"
            )
        at_least("context_tokens", self.context_tokens, 1000)
