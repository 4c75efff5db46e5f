"""Options of the agents that submit a Program as it is."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.agents.config import AgentConfig, at_least


@dataclass(frozen=True)
class BaselineConfig(AgentConfig):
    repeats: int
    """Submissions of the same Program. Under `budget.finish=exhaust` as many as it takes to spend
    all of it."""
    episodes: int | None
    """Episodes of one Submission, as far as the budget allows; None: an even share of the whole
    budget."""

    def __post_init__(self) -> None:
        at_least("repeats", self.repeats, 1)
        at_least("episodes", self.episodes, 1)
