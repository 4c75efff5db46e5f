"""What of a Run's usage nobody counted exactly, and what is said of it below a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from evopolicy.kernel.ports.transcript import ESTIMATED
from evopolicy.present.table import ESTIMATE_MARK

_ESTIMATES = {
    "cost_is_estimate": "a cost that is estimated, at least in part, from list prices",
    "tokens_are_estimate": "tokens that are estimated, at least in part, by the length of texts",
}


def is_estimate(usage: Mapping[str, Any], column: str) -> bool:
    """Whether `column` of a Run's usage is, or has in it, an estimate."""
    return bool(usage.get(ESTIMATED.get(column, ""))) and usage.get(column) is not None


def estimate_notes(usage: Iterable[Mapping[str, Any]], columns: Collection[str]) -> list[str]:
    """What ESTIMATE_MARK means in a table that shows these `columns` of them."""
    flags = {ESTIMATED[column] for one in usage for column in columns if is_estimate(one, column)}
    return [f"{ESTIMATE_MARK} marks {said}." for flag, said in _ESTIMATES.items() if flag in flags]
