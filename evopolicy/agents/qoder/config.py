"""Options of `qoder`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.coding.cli import CodingConfig
from evopolicy.kernel.errors import ConfigError


@dataclass(frozen=True)
class QoderConfig(CodingConfig):
    node: str
    """The Node that runs it, 20.18 or newer; '' to look for one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.login != "subscription":
            raise ConfigError(
                "agent.login: Qoder is used with its own login alone; 'subscription' is needed, "
                f"found '{self.login}'"
            )
