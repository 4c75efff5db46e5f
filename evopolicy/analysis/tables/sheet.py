"""A table as rows of cells, each a value with its text: what every format draws. Plain values in, no pandas."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from evopolicy.analysis.stats.intervals import Interval
from evopolicy.analysis.stats.ties import is_above, settle
from evopolicy.kernel.ports.transcript import ESTIMATED

NONE = "–"
"""Text of a cell without a value."""
PUBLISHED_MARK = "‡"
"""Behind the name of a published row."""
KIND_MARKS = ("", "†", "§", "¶", "††", "§§", "¶¶")
"""Behind intervals, where a table has several kinds of them: the first, second, ... kind."""
ESTIMATE_MARK = "≈"
"""Before a cost or a count of tokens that no provider reported."""
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


@dataclass(frozen=True)
class SheetCell:
    """One cell."""

    value: float | int | str | None = None
    text: str = NONE
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


@dataclass(frozen=True)
class Head:
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


@dataclass(frozen=True)
class Sheet:
    """A table that is ready to be drawn."""

    name: str
    """As it was asked for; becomes the label in LaTeX."""
    title: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[SheetCell, ...], ...]
    stub: int = 1
    """Leading columns that name a row."""
    notes: tuple[str, ...] = ()
    """What has to be known to read it."""


def drawn(sheet: Sheet) -> Sheet:
    """`sheet` without the columns that are in CSV alone."""
    kept = [place for place, head in enumerate(sheet.heads) if head.drawn]
    rows = tuple(tuple(row[place] for place in kept) for row in sheet.rows)
    stub = sum(head.drawn for head in sheet.heads[: sheet.stub])
    return replace(sheet, heads=tuple(sheet.heads[place] for place in kept), rows=rows, stub=stub)


def words(text: str) -> SheetCell:
    """A cell of text."""
    return SheetCell(text, text)


def number(value: float | None, decimals: int | None, interval: Interval | None = None, tail: str = "") -> SheetCell:
    """A cell of `value` with `decimals` (None: three significant digits), its interval in brackets, and `tail`."""
    if value is None or math.isnan(value):
        return SheetCell()
    text = rounded(value, decimals)
    if interval is None or interval.over is None or math.isnan(interval.low):
        return SheetCell(value, text + tail)
    bounds = f" [{rounded(interval.low, decimals)}, {rounded(interval.high, decimals)}]"
    return SheetCell(value, text + bounds + tail, interval.low, interval.high, interval.over, interval.kind)


def percent(value: float | None, bounds: tuple[float, float] | None = None, decimals: int = 0) -> SheetCell:
    """A cell of the rate `value` in percent; its value stays a share."""
    if value is None:
        return SheetCell()
    text = f"{rounded(100 * value, decimals)} %"
    if bounds is None:
        return SheetCell(value, text)
    low, high = (rounded(100 * bound, decimals) for bound in bounds)
    return SheetCell(value, f"{text} [{low}, {high}]", *bounds, over="edits")


def rounded(value: float, decimals: int | None) -> str:
    """`value` with `decimals`, half to even by its decimal digits: 0.0125 is 0.012 though no float is exactly that.

    Noise past the twelfth digit is taken for rounding of an earlier step. Never `-0.000`.
    """
    if decimals is None:
        return f"{value:.3g}"
    if not math.isfinite(value):
        return str(value)
    exact = Decimal(f"{value:.12g}").quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN)
    return f"{abs(exact) if exact == 0 else exact:f}"


def fitting(values: Sequence[float | None], spread: float = 0.0) -> int | None:
    """Decimals that suit `values`: about four significant digits of the largest, at most three; 0 for whole numbers.

    With `spread`, the half width of the widest interval, no more than two digits of it. None (powers of ten) from ten
    million on, and where three decimals would show nothing.
    """
    if spread <= 0 and all(v is None or (math.isfinite(v) and v == round(v)) for v in values):
        return 0 if all(v is None or abs(v) < 1e7 for v in values) else None
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    if largest >= 1e7 or 0 < largest < 5e-3:
        return None
    decimals = 3 if largest == 0 else max(0, min(3, 3 - math.floor(math.log10(largest))))
    return decimals if spread <= 0 else min(decimals, max(0, min(3, 1 - math.floor(math.log10(spread)))))


def mark_best(cells: Sequence[SheetCell], lowest: bool = False) -> list[SheetCell]:
    """`cells` with the best of them marked, ties all; none where they do not differ."""
    values = [cell.value for cell in cells if isinstance(cell.value, int | float) and not cell.partial]
    if len(values) < 2 or not is_above(max(values), min(values)):
        return list(cells)
    settled = settle([-value for value in values] if lowest else values)
    best = {value for value, found in zip(values, settled, strict=True) if found == settled.max()}
    return [replace(cell, best=not cell.partial and cell.value in best) for cell in cells]


def mark_columns(sheet: Sheet, keys: Sequence[str], lowest: Sequence[str] = ()) -> Sheet:
    """`sheet` with the best cell of every column in `keys` (higher is better) and `lowest` marked."""
    columns = [list(column) for column in zip(*sheet.rows, strict=True)]
    for place, head in enumerate(sheet.heads if columns else ()):
        if head.key in keys or head.key in lowest:
            columns[place] = mark_best(columns[place], head.key in lowest)
    return replace(sheet, rows=tuple(zip(*columns, strict=True)))


def mark_kinds(sheet: Sheet) -> Sheet:
    """`sheet` with every interval told from those of another kind, at the number or, where its column has but one kind,
    at the column's head; and the same marks in the notes. As it is where there is one kind.
    """
    columns = [list(column) for column in zip(*sheet.rows, strict=True)]
    kinds = dict.fromkeys(cell.kind for column in columns for cell in column if cell.kind)
    marks = dict(zip(kinds, KIND_MARKS, strict=False))
    if len(marks) < 2:
        return sheet
    heads = list(sheet.heads)
    for place, column in enumerate(columns):
        own = list(dict.fromkeys(marks[cell.kind] for cell in column if cell.kind))
        if len(own) == 1 and own[0]:
            heads[place] = replace(heads[place], title=f"{heads[place].title} {own[0]}")
        elif own:
            columns[place] = [_marked(cell, marks.get(cell.kind, "")) for cell in column]
    notes = list(sheet.notes)
    for kind, mark in marks.items():
        notes = [n.replace("[low, high]:", f"[low, high]{mark}:", 1) if n.endswith(f"{kind}.") else n for n in notes]
    return replace(sheet, heads=tuple(heads), rows=tuple(zip(*columns, strict=True)), notes=tuple(notes))


def _marked(cell: SheetCell, mark: str) -> SheetCell:
    """With the mark behind the brackets, before what follows them."""
    before, bracket, after = cell.text.rpartition("]")
    return replace(cell, text=f"{before}{bracket}{mark}{after}") if mark and bracket else cell
