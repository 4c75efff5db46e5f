"""Options of `gemini_cli`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evopolicy.agents.coding import CodingConfig
from evopolicy.kernel.errors import ConfigError


@dataclass(frozen=True)
class GeminiConfig(CodingConfig):
    node: str
    """The Node that runs it, 20 or newer; '' to look for one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"|-1|\d+|[A-Za-z_]+", self.effort):
            raise ConfigError(
                "agent.effort: a thinking level as 'low' or 'high' (Gemini 3) or a thinking budget in tokens (2.5) is"
                f" needed, found '{self.effort}'"
            )
