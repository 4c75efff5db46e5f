"""Live progress: a table that refreshes on a terminal, plain lines where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from evopolicy.cli.board import ENDED, Board, CellState
from evopolicy.cli.text import clean, duration, number, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

_PHASE_LINES = 60
"""Above this many cells, plain output has a line for a cell's end only."""
_ROWS_OF_ENDED = 6
_REFRESH_SECONDS = 0.25


class Display(Protocol):
    def update(self) -> None:
        """Show the board as it is now."""


@contextmanager
def show(board: Board) -> Iterator[Display]:
    """The display that suits where standard output goes, for the time of the context."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(), auto_refresh=False, transient=True) as live:
            yield _Table(board, live)
    else:
        yield _Lines(board)


class _Table:
    def __init__(self, board: Board, live: object) -> None:
        self._board = board
        self._live = live
        self._last = 0.0

    def update(self) -> None:
        if time.monotonic() - self._last < _REFRESH_SECONDS:
            return
        self._last = time.monotonic()
        self._live.update(render(self._board), refresh=True)  # type: ignore[attr-defined]


class _Lines:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._said = [("", "")] * len(board.cells)

    def update(self) -> None:
        for place, cell in enumerate(self._board.cells):
            phase = cell.live.phase if cell.live and cell.status == "running" else ""
            before = self._said[place]
            if before == (cell.status, phase) or cell.status == "reused":
                continue
            self._said[place] = (cell.status, phase)
            told = cell.status in ENDED or (cell.status == "pending" and cell.error)
            if told or (phase not in ("", "done") and len(self._board.cells) <= _PHASE_LINES):
                print(self._line(cell, phase), flush=True)

    def _line(self, cell: CellState, phase: str) -> str:
        head = f"[{self._board.count(*ENDED)}/{len(self._board.cells)}] {clean(cell.title)}: "
        if cell.status == "finished":
            return f"{head}finished in {duration(cell.seconds)}, held-out {number(cell.score)}"
        if cell.status == "failed":
            after = "" if cell.seconds is None else f" after {duration(cell.seconds)}"  # None: it never started
            # Why a single Run failed is what its command ends with; a sweep's cells are told as they go.
            return f"{head}FAILED{after}" + (f": {clean(cell.error)}" if self._board.name else "")
        if cell.status == "pending":
            return f"{head}{clean(cell.error)}; it is tried again at the end"
        best = cell.live.best_score if cell.live else None
        return f"{head}{phase}" + ("" if best is None else f", best score so far {number(best)}")


def render(board: Board) -> RenderableType:
    """The board as a rich table: cells that run, the last that ended, and how far it all is."""
    from rich.table import Table
    from rich.text import Text

    table = Table(expand=False, title_justify="left", caption_justify="left")
    for heading in ("cell", "phase", "Episodes", "Submissions", "best score", "elapsed"):
        table.add_column(
            heading, justify="left" if heading in ("cell", "phase") else "right", no_wrap=heading != "cell"
        )
    for cell in _shown(board):
        table.add_row(*(Text(text, style=style) for text, style in _row(cell)))
    table.title = Text(f"sweep {board.name}" if board.name else "Run")
    table.caption = Text(summary_line(board))
    return table


def _shown(board: Board) -> list[CellState]:
    ended = sorted((c for c in board.cells if c.status in ("finished", "failed")), key=lambda c: c.ended or 0.0)
    return [*ended[-_ROWS_OF_ENDED:], *(c for c in board.cells if c.status == "running")]


def _row(cell: CellState) -> list[tuple[str, str]]:
    style = {"failed": "red", "finished": "dim"}.get(cell.status, "")
    live = cell.live
    if cell.status == "failed":
        return [(clean(cell.title), style), (f"failed: {clean(cell.error, 60)}", style), *[("", "")] * 3, _took(cell)]
    if cell.status == "finished":
        score = (f"held-out {number(cell.score)}", style)
        return [(clean(cell.title), style), ("finished", style), ("", ""), ("", ""), score, _took(cell)]
    if live is None:
        return [(clean(cell.title), ""), ("starting", ""), *[("", "")] * 3, _took(cell)]
    return [
        (clean(cell.title), ""),
        (clean(live.phase), "bold"),
        (f"{_bar(live.episodes_done, live.episodes_total)} {live.episodes_done}/{live.episodes_total}", ""),
        (str(live.submissions), ""),
        (number(live.best_score), ""),
        _took(cell),
    ]


def _took(cell: CellState) -> tuple[str, str]:
    return duration(cell.seconds), ""


def _bar(done: int, total: int, width: int = 12) -> str:
    filled = round(width * min(done / total, 1.0)) if total else 0
    return "█" * filled + "░" * (width - filled)


def summary_line(board: Board) -> str:
    """How far everything is, in one line."""
    total = len(board.cells)
    parts = [f"{board.count(*ENDED)} of {plural(total, 'cell')} done"]
    for status, word in (("reused", "reused"), ("failed", "failed"), ("running", "running"), ("pending", "waiting")):
        if count := board.count(status):
            parts.append(f"{count} {word}")
    parts.append(f"{duration(board.seconds)} so far")
    if (left := board.seconds_left) is not None:
        parts.append(f"about {duration(left)} to go")
    return ", ".join(parts)
