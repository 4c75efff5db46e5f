"""What a command prints: as wide as there is room, and drawn where standard output is a
terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEAST_WIDTH = 80


def text_width() -> int:
    """Columns that plain text may have: the terminal's, 120 where there is none, never fewer than
    80."""
    return max(shutil.get_terminal_size((120, 24)).columns, _LEAST_WIDTH)


def show(rich: Callable[[], RenderableType], plain: Callable[[int], str]) -> None:
    """Print `rich()` where standard output is a terminal, elsewhere `plain(columns)`, which ends
    its lines; at once."""
    if not sys.stdout.isatty():
        print(plain(text_width()), end="", flush=True)
        return
    from rich.console import Console

    Console(highlight=False).print(rich())
