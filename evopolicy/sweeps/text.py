"""Text about cells: numbers and times as people read them in a line of progress."""

from __future__ import annotations

_DAY, _YEAR = 86_400, 31_557_600


def number(value: float | None) -> str:
    """Four significant digits, '-' for None."""
    return "-" if value is None else f"{value:.4g}"


def duration(seconds: float | None) -> str:
    """`8s`, `3m20s`, `2h05m`, `12 days`, `1,584 years`; '-' for None."""
    if seconds is None:
        return "-"
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 2 * _DAY:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{round(whole / _DAY)} days" if whole < 2 * _YEAR else f"{round(whole / _YEAR):,} years"


def are(count: int) -> str:
    """The verb that goes with `plural(count, ...)`."""
    return "is" if count == 1 else "are"
