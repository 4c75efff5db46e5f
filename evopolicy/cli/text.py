"""Text for terminals: numbers as people read them, and nothing an agent wrote that could move the cursor."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from evopolicy.kernel.shown import clean as clean
from evopolicy.kernel.shown import plural as plural

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEAST_WIDTH = 80
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


def text_width() -> int:
    """Columns that plain text may have: the terminal's, 120 where there is none, never fewer than 80."""
    return max(shutil.get_terminal_size((120, 24)).columns, _LEAST_WIDTH)


def show(rich: Callable[[], RenderableType], plain: Callable[[int], str]) -> None:
    """Print `rich()` where standard output is a terminal, elsewhere `plain(columns)`, which ends its lines; at once."""
    if not sys.stdout.isatty():
        print(plain(text_width()), end="", flush=True)
        return
    from rich.console import Console

    Console(highlight=False).print(rich())
