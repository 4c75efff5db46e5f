"""Live progress: a table that refreshes on a terminal, plain lines where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from evopolicy.kernel.shown import clean
from evopolicy.present.numbers import plural
from evopolicy.sweeps.board import ENDED, Board, CellState
from evopolicy.sweeps.text import duration, number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

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
        self._held = [""] * len(board.cells)

    def update(self) -> None:
        for place, cell in enumerate(self._board.cells):
            phase = cell.live.phase if cell.live and cell.status == "running" else ""
            self._tell_held_up(place, cell)
            before = self._said[place]
            if before == (cell.status, phase) or cell.status == "reused":
                continue
            self._said[place] = (cell.status, phase)
            told = cell.status in ENDED or (cell.status == "pending" and cell.error)
            if told or (phase not in ("", "done") and len(self._board.cells) <= _PHASE_LINES):
                print(self._line(cell, phase), flush=True)

    def _tell_held_up(self, place: int, cell: CellState) -> None:
        what = cell.waiting.what if cell.waiting and cell.status == "running" else ""
        if what and what != self._held[place]:
            print(f"{clean(cell.title)}: {cell.held_up}", flush=True)
        self._held[place] = what

    def _line(self, cell: CellState, phase: str) -> str:
        head = f"[{self._board.count(*ENDED)}/{len(self._board.cells)}] {clean(cell.title)}: "
        if cell.status == "finished":
            return f"{head}finished in {duration(cell.seconds)}, held-out {number(cell.score)}"
        if cell.status == "failed":
            after = (
                "" if cell.seconds is None else f" after {duration(cell.seconds)}"
            )  # None: it never started
            # Why a single Run failed is what its command ends with; a sweep's cells are told as
            # they go.
            return f"{head}FAILED{after}" + (f": {clean(cell.error)}" if self._board.name else "")
        if cell.status == "pending":
            return f"{head}{clean(cell.error)}; it is tried again at the end"
        best = cell.live.best_score if cell.live else None
        return f"{head}{phase}" + ("" if best is None else f", best score so far {number(best)}")


def render(board: Board) -> RenderableType:
    """The board for rich: cells that run, the last that ended, what went wrong or waits, and how
    far it all is."""
    from rich.console import Group
    from rich.measure import Measurement
    from rich.text import Text

    class Fitted:
        """As wide as the terminal it is drawn on allows."""

        def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
            cells = _shown(board)
            yield _table(board, cells, options.max_width)
            for cell in cells:
                if told := _told(cell):
                    yield Text(
                        f"{clean(cell.title)}: {told}",
                        style="red" if cell.status == "failed" else "yellow",
                    )
            yield Text(summary_line(board), style="italic")

        def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
            return Measurement(options.max_width, options.max_width)

    return Group(Fitted())


def _told(cell: CellState) -> str:
    return f"failed: {clean(cell.error, 300)}" if cell.status == "failed" else cell.held_up


_HEADINGS = ("cell", "phase", "Episodes", "Submissions", "best score", "elapsed")
_SHORT = ("cell", "phase", "Episodes", "Subm.", "score", "time")
_LEAST_NAME = 20


def _table(board: Board, cells: Sequence[CellState], width: int) -> RenderableType:
    """What tells rows apart has the room it needs before a bar, a long heading or a word that says
    no more does."""
    from rich.table import Table
    from rich.text import Text

    rows = [_row(cell) for cell in cells]
    headings = _HEADINGS
    if _needed(rows, headings) > width:
        rows, headings = [_row(cell, narrow=True) for cell in cells], _SHORT
    name = width - _needed([("", *row[1:]) for row in rows], ("", *headings[1:]))
    table = Table(expand=False, title_justify="left")
    for place, heading in enumerate(headings):
        if place:
            table.add_column(
                heading, justify="left" if heading == "phase" else "right", no_wrap=True
            )
        else:
            table.add_column(heading, overflow="fold", max_width=max(name, _LEAST_NAME))
    for cell, row in zip(cells, rows, strict=True):
        style = {"failed": "red", "finished": "dim"}.get(cell.status, "")
        table.add_row(*(Text(text, style=style) for text in row))
    table.title = Text(f"sweep {board.name}" if board.name else "Run")
    return table


def _needed(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> int:
    """Columns that a table of these texts takes."""
    return sum(max(map(len, column)) + 3 for column in zip(headings, *rows, strict=True)) + 1


def _shown(board: Board) -> list[CellState]:
    ended = sorted(
        (c for c in board.cells if c.status in ("finished", "failed")), key=lambda c: c.ended or 0.0
    )
    return [*ended[-_ROWS_OF_ENDED:], *(c for c in board.cells if c.status == "running")]


def _row(cell: CellState, *, narrow: bool = False) -> tuple[str, ...]:
    name, took, live = clean(cell.title), duration(cell.seconds), cell.live
    if cell.status == "failed":
        return name, "failed", "", "", "", took
    if cell.status == "finished":
        return (
            name,
            "finished",
            "",
            "",
            number(cell.score) if narrow else f"held-out {number(cell.score)}",
            took,
        )
    if live is None:
        return name, "starting", "", "", "", took
    bar = "" if narrow else f"{_bar(live.episodes_done, live.episodes_total)} "
    episodes = f"{bar}{live.episodes_done}/{live.episodes_total}"
    return name, clean(live.phase), episodes, str(live.submissions), number(live.best_score), took


def _bar(done: int, total: int, width: int = 12) -> str:
    filled = round(width * min(done / total, 1.0)) if total else 0
    return "█" * filled + "░" * (width - filled)


def summary_line(board: Board) -> str:
    """How far everything is, in one line."""
    total = len(board.cells)
    parts = [f"{board.count(*ENDED)} of {plural(total, 'cell')} done"]
    for status, word in (
        ("reused", "reused"),
        ("failed", "failed"),
        ("running", "running"),
        ("pending", "waiting"),
    ):
        if count := board.count(status):
            parts.append(f"{count} {word}")
    parts.append(f"{duration(board.seconds)} so far")
    if (left := board.seconds_left) is not None:
        parts.append(f"about {duration(left)} to go")
    return ", ".join(parts)
