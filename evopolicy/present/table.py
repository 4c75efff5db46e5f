"""A table as rows of cells, each a value with its text: what every format draws. Plain values, no
pandas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from evopolicy.present.numbers import NONE, rank_score, rounded

PUBLISHED_MARK = "‡"
"""Behind the name of a published row."""
KIND_MARKS = ("", "†", "§", "¶", "††", "§§", "¶¶")
"""Behind intervals, where a table has several kinds of them: the first, second, ... kind."""
ESTIMATE_MARK = "≈"
"""Before a cost that no provider reported."""


class Bounds(Protocol):
    """An interval. `evopolicy.analysis.Interval` is one."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def over(self) -> str | None:
        """What it is over; None where there is no interval."""

    @property
    def kind(self) -> str:
        """That, and the method, in words."""


@dataclass(frozen=True)
class Cell:
    """One cell."""

    value: float | int | str | None = None
    text: str = NONE
    error: str = ""
    """Text of its standard error, shown behind ±."""
    tail: str = ""
    """What follows: a mark that a note explains, how many seeds."""
    low: float | None = None
    """Bounds of the interval, where there is one."""
    high: float | None = None
    over: str = ""
    """What the interval is over."""
    kind: str = ""
    """That, and the method, in words."""
    best: bool = False
    partial: bool = False
    """Whether it is over fewer Runs than its row has: then it is never marked as the best."""

    @property
    def faint(self) -> bool:
        return self.value is None

    @property
    def whole(self) -> str:
        """All its text on one line."""
        return f"{self.text} ± {self.error}{self.tail}" if self.error else f"{self.text}{self.tail}"


@dataclass(frozen=True)
class Column:
    """One column."""

    key: str
    """Unique; the column's name in CSV."""
    title: str
    text: bool = False
    """Whether its cells are words, aligned left."""
    group: str = ""
    """A heading over this and its neighbours of the same group."""
    drawn: bool = True
    """Whether it is shown; else it is in CSV alone."""
    stored: bool = True
    """Whether it is in CSV."""
    bar: bool = False
    """Whether its values, of 0 to 1, get a bar beside them where there is room."""


@dataclass(frozen=True)
class Table:
    """A table that is ready to be drawn."""

    name: str
    """As it was asked for; becomes the label in LaTeX."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    stub: int = 1
    """Leading columns that name a row."""
    notes: tuple[str, ...] = ()
    """What has to be known to read it."""
    best: str = "best of those it is compared with"
    """What a cell that is marked as the best is."""
    parts: tuple[Table, ...] = ()
    """What is drawn in its place where it is too wide."""
    crowded: bool = False
    """Whether its parts are drawn however wide it may be."""


def joined(
    name: str, title: str, columns: Sequence[tuple[Column, Sequence[Cell]]], stub: int = 1
) -> Table:
    """The table of these columns, each with its cells from top to bottom."""
    heads = tuple(column for column, _ in columns)
    return Table(
        name, title, heads, tuple(zip(*(cells for _, cells in columns), strict=True)), stub
    )


def drawn(table: Table) -> Table:
    """`table` without the columns that are in CSV alone."""
    kept = [place for place, column in enumerate(table.columns) if column.drawn]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    stub = sum(column.drawn for column in table.columns[: table.stub])
    return replace(
        table, columns=tuple(table.columns[place] for place in kept), rows=rows, stub=stub
    )


def words(text: str) -> Cell:
    """A cell of text."""
    return Cell(text, text)


def count(value: int | None) -> Cell:
    """A cell of a whole number."""
    return Cell() if value is None else Cell(value, str(value))


def ranked(value: float | None) -> Cell:
    """A cell of a rank score."""
    return Cell() if value is None else Cell(value, rank_score(value))


def number(
    value: float | None, decimals: int | None, interval: Bounds | None = None, tail: str = ""
) -> Cell:
    """A cell of `value` with `decimals` (None: three significant digits), its interval in brackets,
    and `tail`."""
    if value is None or math.isnan(value):
        return Cell()
    text = rounded(value, decimals)
    if interval is None or interval.over is None or math.isnan(interval.low):
        return Cell(value, text, tail=tail)
    bounds = f" [{rounded(interval.low, decimals)}, {rounded(interval.high, decimals)}]"
    return Cell(
        value,
        text + bounds,
        tail=tail,
        low=interval.low,
        high=interval.high,
        over=interval.over,
        kind=interval.kind,
    )


def percent(
    value: float | None, bounds: tuple[float, float] | None = None, decimals: int = 0
) -> Cell:
    """A cell of the rate `value` in percent; its value stays a share."""
    if value is None:
        return Cell()
    text = f"{rounded(100 * value, decimals)} %"
    if bounds is None:
        return Cell(value, text)
    low, high = (rounded(100 * bound, decimals) for bound in bounds)
    return Cell(value, f"{text} [{low}, {high}]", low=bounds[0], high=bounds[1], over="edits")


def mark_kinds(table: Table) -> Table:
    """`table` with every interval told from those of another kind, at the number or, where its
    column has but one kind, at the column's head; and the same marks in the notes. As it is where
    there is one kind."""
    cells = [list(column) for column in zip(*table.rows, strict=True)]
    kinds = dict.fromkeys(cell.kind for column in cells for cell in column if cell.kind)
    marks = dict(zip(kinds, KIND_MARKS, strict=False))
    if len(marks) < 2:
        return table
    columns = list(table.columns)
    for place, column in enumerate(cells):
        own = list(dict.fromkeys(marks[cell.kind] for cell in column if cell.kind))
        if len(own) == 1 and own[0]:
            columns[place] = replace(columns[place], title=f"{columns[place].title} {own[0]}")
        elif own:
            cells[place] = [
                replace(cell, tail=marks.get(cell.kind, "") + cell.tail) for cell in column
            ]
    notes = list(table.notes)
    for kind, mark in marks.items():
        notes = [
            n.replace("[low, high]:", f"[low, high]{mark}:", 1) if n.endswith(f"{kind}.") else n
            for n in notes
        ]
    return replace(
        table, columns=tuple(columns), rows=tuple(zip(*cells, strict=True)), notes=tuple(notes)
    )


def spans(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Neighbouring columns of one group, with how many they are; columns without a group by
    themselves."""
    found: list[tuple[str, int]] = []
    for column in columns:
        if column.group and found and found[-1][0] == column.group:
            found[-1] = (column.group, found[-1][1] + 1)
        else:
            found.append((column.group, 1))
    return found
