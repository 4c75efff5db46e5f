"""Options of `human`."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.config import AgentConfig, check_program


@dataclass(frozen=True)
class HumanConfig(AgentConfig):
    program: str
    """Which of the Benchmark's Programs the workspace begins with: 'initial', 'random' or
    'parametric'."""

    def __post_init__(self) -> None:
        check_program(self.program)
