"""What is left to spend, which sizes of a Submission the finish rule allows, and selectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class BudgetLeft:
    """What is left, and the rules it is spent under."""

    episodes: int
    submissions: int
    cap: int
    """Units one Submission can use."""
    pool: int
    exhaust: bool
    """Whether all of it has to be spent."""
    used: int = 0
    """Units spent so far; where the next window of the pool begins."""

    @property
    def spent(self) -> bool:
        return self.episodes < 1 or self.submissions < 1

    def units(self, wanted: int) -> int:
        """The number of Episodes nearest to `wanted` that one Submission may have now."""
        most = min(self.cap, self.episodes)
        least = self.episodes - (self.submissions - 1) * self.cap if self.exhaust else 1
        return max(1, least, min(wanted, most))

    def after(self, units: int) -> BudgetLeft:
        return replace(
            self,
            episodes=self.episodes - units,
            submissions=self.submissions - 1,
            used=self.used + units,
        )


def total_budget(status: Mapping[str, Any]) -> BudgetLeft:
    """The whole budget, as if nothing were spent."""
    budget = status["budget"]
    pool = int(budget["pool_size"])
    cap = min(pool, int(budget.get("per_submission") or pool))
    exhaust = budget.get("finish") == "exhaust"
    return BudgetLeft(
        int(budget["episodes_total"]), int(budget["submissions_total"]), cap, pool, exhaust
    )


def budget_left(status: Mapping[str, Any]) -> BudgetLeft:
    """What is left of it."""
    budget, whole = status["budget"], total_budget(status)
    episodes, submissions = int(budget["episodes_left"]), int(budget["submissions_left"])
    return replace(
        whole, episodes=episodes, submissions=submissions, used=whole.episodes - episodes
    )


def window(start: int, count: int, pool: int) -> str:
    """Selector of the `count` indices from `start` on, beginning anew at the pool's end. `count` is
    at most `pool`."""
    first = start % pool
    end = first + count
    if end <= pool:
        return _range(first, end)
    return f"{_range(0, end - pool)},{_range(first, pool)}"


def _range(start: int, stop: int) -> str:
    return str(start) if stop == start + 1 else f"{start}:{stop}"
