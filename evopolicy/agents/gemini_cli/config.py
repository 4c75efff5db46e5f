"""Options of `gemini_cli`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evopolicy.agents.coding.cli import CodingConfig
from evopolicy.kernel.errors import ConfigError

ALIASES = ("auto", "auto-gemini-2.5", "auto-gemini-3", "pro", "flash", "flash-lite")
"""Names it takes for a model that are none."""


@dataclass(frozen=True)
class GeminiConfig(CodingConfig):
    node: str
    """The Node that runs it, 20 or newer; '' to look for one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model in ALIASES:
            raise ConfigError(
                f"agent.model: '{self.model}' is an alias by which Gemini CLI chooses among "
                "models; name the model's id, as gemini-2.5-pro"
            )
        if not re.fullmatch(r"|-1|\d+|[A-Za-z_]+", self.effort):
            raise ConfigError(
                "agent.effort: a thinking level as 'low' or 'high' (Gemini 3) or a thinking "
                f"budget in tokens (2.5) is needed, found '{self.effort}'"
            )
