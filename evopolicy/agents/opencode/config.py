"""Options of `opencode`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.coding.cli import CodingConfig
from evopolicy.agents.config import at_least
from evopolicy.kernel.errors import ConfigError


@dataclass(frozen=True)
class OpenCodeConfig(CodingConfig):
    context_tokens: int
    """The model's context window, by which it decides when to compact."""
    output_tokens: int
    """Most tokens of one answer; asked for with each request."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.login != "key":
            raise ConfigError(
                "agent.login: OpenCode is asked through agent.base_url with a key; 'key' is "
                f"needed, found '{self.login}'"
            )
        if not self.base_url:
            raise ConfigError(
                "agent.base_url: is empty; name the OpenAI-compatible address of the model, as"
                " https://opencode.ai/zen/v1 or http://127.0.0.1:8000/v1"
            )
        at_least("context_tokens", self.context_tokens, 1000)
        at_least("output_tokens", self.output_tokens, 1)
