"""Submits the Program it finds, changes nothing, and finishes."""

from __future__ import annotations

from typing import Any

from ..scripted.budget import budget_left, window
from ..scripted.session import SessionClient


def work(session: SessionClient, options: dict[str, Any], _: int) -> None:
    """`options`: `repeats` Submissions, each on the next `episodes` of the pool (None: an even
    share of the budget)."""
    while True:
        status = session.status()
        left = budget_left(status)
        made = status["budget"]["submissions_total"] - left.submissions
        if (
            status["state"] == "finished"
            or left.spent
            or (made >= options["repeats"] and not left.exhaust)
        ):
            break
        share = -(-left.episodes // max(1, options["repeats"] - made))
        units = left.units(options["episodes"] or share)
        session.submit(window(left.used, units, left.pool))
    session.finish()
