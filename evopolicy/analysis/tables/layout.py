"""Lays a rank table out as grids of text: which columns, how many digits, what is aligned. `render` draws them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len, chop_cells

from evopolicy.analysis.stats.ties import is_above
from evopolicy.analysis.tables.footnotes import EPISODE_MARK
from evopolicy.analysis.tables.ranks import EntryRank, RankTable, TableCell
from evopolicy.kernel.shown import clean

GAP = 2
"""Spaces between columns."""
_SIDE_BY_SIDE = 6
"""Benchmarks that may stand beside the ranks in one grid; more are rows of a grid of their own."""
_HEAD_WIDTH = 8
"""A header is broken into lines rather than widen its column past this."""
_NAME_WIDTH = 34
_LEAST_NAME = 12
_MOST_DECIMALS = 3
_NONE, _OPEN, _BEST = "–", "…", "*"


@dataclass(frozen=True)
class GridCell:
    text: str
    """May have several lines; numbers are padded so that their points stand in one column."""
    best: bool = False
    """The best on its Benchmark, where entries differ."""
    faint: bool = False


Column: TypeAlias = tuple[str, list[GridCell]]


@dataclass(frozen=True)
class Grid:
    """One block of a rendered table."""

    header: tuple[str, ...]
    rows: tuple[tuple[GridCell, ...], ...]
    left: frozenset[int]
    """Columns that are aligned left; the others right."""
    scores: tuple[float | None, ...] = ()
    """Rank score of each row, where the rows are entries."""

    def widths(self) -> list[int]:
        columns = zip(self.header, *((cell.text for cell in row) for row in self.rows), strict=True)
        return [max(cell_len(line) for text in column for line in text.split("\n")) for column in columns]

    def width(self) -> int:
        return sum(self.widths()) + GAP * (len(self.header) - 1)


def grids(table: RankTable, width: int | None, mark: bool) -> list[Grid]:
    """The blocks of `table` in `width` columns (None: as wide as it likes).

    One grid where everything fits side by side; else the ranks, and below them a row a Benchmark, in as many blocks of
    entries as the width asks for. `mark` puts a star after the best on each Benchmark, for where there is no bold.
    """
    if not table.entries:
        return []
    if len(table.benchmarks) <= _SIDE_BY_SIDE and not table.categories:
        (whole,) = _ranks(table, None, mark, beside=True, short=width is not None)
        if width is None or whole.width() <= width:
            return [whole]
    return [*_ranks(table, width, mark, beside=False, short=width is not None), *_heldout(table, width, mark)]


def _ranks(table: RankTable, width: int | None, mark: bool, beside: bool, short: bool) -> list[Grid]:
    """The entries with their ranks; with `beside`, every Benchmark's held-out mean as well."""
    rows = table.entries
    first: Column = ("entry", [GridCell(clean(row.entry)) for row in rows])
    categories = [_category(table, name) for name in table.categories]
    heldout = [(clean(b), _column(table, [(row, b) for row in rows], mark)) for b in table.benchmarks if beside]
    front: list[Column] = [("#", [GridCell(_NONE if row.place is None else str(row.place)) for row in rows]), first]
    score: Column = ("rank score", [_score(row.rank_score) for row in rows])
    counts: list[Column] = [
        ("wins", [_number(row, row.wins) for row in rows]),
        ("top 2", [_number(row, row.top2) for row in rows]),
    ]
    ends: list[Column] = [("cells", [GridCell(f"{row.cells_done}/{row.cells_total}") for row in rows])]
    if any(row.policy_failures for row in rows):
        ends.append(("failed Episodes", [GridCell(f"{row.policy_failures}/{row.episodes}") for row in rows]))
    scores = tuple(row.rank_score for row in rows)
    whole = _narrowed([*front, score, *categories, *counts, *heldout, *ends], width, scores, short)
    if width is None or whole.width() <= width or not categories:
        return [whole]
    return [_narrowed([*front, score, *counts, *ends], width, scores, short), *_blocks(first, categories, width)]


def _category(table: RankTable, name: str) -> Column:
    return clean(name), [_score(table.category_scores.get((row.entry, name))) for row in table.entries]


def _narrowed(columns: list[Column], width: int | None, scores: tuple[float | None, ...], short: bool) -> Grid:
    """A grid of entries whose names are broken into lines as far as `width` asks for."""
    grid = make_grid(columns, frozenset({1}), scores, short)
    over = 0 if width is None else grid.width() - width
    if over <= 0:
        return grid
    names = max(grid.widths()[1] - over, _LEAST_NAME)
    broken: Column = ("entry", [GridCell(wrap(cell.text, names)) for cell in columns[1][1]])
    return make_grid([columns[0], broken, *columns[2:]], frozenset({1}), scores, True)


def _heldout(table: RankTable, width: int | None, mark: bool) -> list[Grid]:
    """A row a Benchmark and a column an entry."""
    names = [clean(b) if width is None else wrap(clean(b), _NAME_WIDTH) for b in table.benchmarks]
    columns = [(clean(row.entry), _column(table, [(row, b) for b in table.benchmarks], mark)) for row in table.entries]
    return _blocks(("held-out mean", [GridCell(name) for name in names]), columns, width)


def _blocks(first: Column, columns: Sequence[Column], width: int | None) -> list[Grid]:
    """`columns` behind `first`, in as few grids of about as many columns each as `width` allows."""
    left = frozenset({0})
    for count in range(1, len(columns) + 1):
        size = -(-len(columns) // count)
        parts = [columns[start : start + size] for start in range(0, len(columns), size)]
        grids = [make_grid([first, *part], left, (), width is not None) for part in parts]
        if width is None or all(grid.width() <= width for grid in grids):
            break
    return grids


def make_grid(columns: Sequence[Column], left: frozenset[int], scores: tuple[float | None, ...], short: bool) -> Grid:
    """`columns` beside each other; `short` breaks long headers into lines."""
    header = []
    for name, cells in columns:
        widest = max((cell_len(line) for cell in cells for line in cell.text.split("\n")), default=0)
        header.append(wrap(name, max(widest, _HEAD_WIDTH, *map(cell_len, _WORD.findall(name)))) if short else name)
    height = max(name.count("\n") for name in header)
    header = ["\n" * (height - name.count("\n")) + name for name in header]
    return Grid(tuple(header), tuple(zip(*(cells for _, cells in columns), strict=True)), left, scores)


_TOKEN = re.compile(r"[^ /_=-]*[ /_=-]|[^ /_=-]+")
_WORD = re.compile(r"[^ /_=-]{1,16}[/_=-]?")


def wrap(text: str, width: int) -> str:
    """`text` in lines of at most `width` columns, broken after a space, slash, underscore, hyphen or equals sign."""
    lines, line = [], ""
    for token in _TOKEN.findall(text):
        for piece in chop_cells(token, width) if cell_len(token.rstrip()) > width else [token]:
            if line and cell_len((line + piece).rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
    return "\n".join([*lines, line.rstrip()])


# --- numbers -----------------------------------------------------------------------------------------------------


def _score(value: float | None) -> GridCell:
    return GridCell(_NONE, faint=True) if value is None else GridCell(f"{value:.3f}")


def _number(row: EntryRank, value: int) -> GridCell:
    return GridCell(_NONE, faint=True) if row.rank_score is None else GridCell(str(value))


def digits(column: Sequence[TableCell]) -> int | None:
    """Decimals of one Benchmark's numbers: None for powers of ten.

    About four significant digits of the largest mean, no more than two of the largest standard error, at most three
    decimals; powers of ten from ten million on, and where three decimals would show nothing.
    """
    largest = max((abs(cell.mean) for cell in column if cell.mean is not None), default=0.0)
    error = max((cell.standard_error or 0.0 for cell in column), default=0.0)
    if largest >= 1e7 or 0 < largest < 5e-3:
        return None
    decimals = _MOST_DECIMALS if largest == 0 else _within(3 - math.floor(math.log10(largest)))
    return decimals if error == 0 else min(decimals, _within(1 - math.floor(math.log10(error))))


def _within(decimals: int) -> int:
    return max(0, min(_MOST_DECIMALS, decimals))


def write(value: float, cell: TableCell, decimals: int | None) -> str:
    """`value` of `cell` with `decimals`, or as many more as its own standard error needs not to read as nothing."""
    if decimals is None:
        return f"{value:.3g}"
    error = cell.standard_error or 0.0
    if error > 0 and round(error, decimals) == 0:
        decimals = _within(-math.floor(math.log10(error)))
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


class _Shown(NamedTuple):
    """One held-out cell before it is aligned."""

    mean: str
    mean_mark: str
    error: str
    error_mark: str
    best: bool
    faint: bool


def _column(table: RankTable, places: Sequence[tuple[EntryRank, str]], mark: bool) -> list[GridCell]:
    """The held-out cells at `places`, aligned with each other."""
    shown = [_shown(table, row.entry, benchmark, mark) for row, benchmark in places]
    means = align([one.mean for one in shown], [one.mean_mark for one in shown])
    errors = align([one.error for one in shown], [one.error_mark for one in shown])
    some = any(one.error for one in shown)
    cells = []
    for one, mean, error in zip(shown, means, errors, strict=True):
        middle = " ± " if one.error else "   "
        cells.append(GridCell(f"{mean}{middle}{error}" if some else mean, one.best, one.faint))
    return cells


def _shown(table: RankTable, entry: str, benchmark: str, mark: bool) -> _Shown:
    cell = table.cells[entry, benchmark]
    if cell.mean is None:
        return _Shown(_OPEN if cell.open else _NONE, "", "", "", False, True)
    column = [table.cells[row.entry, benchmark] for row in table.entries]
    decimals, best = digits(column), _is_best(cell, column)
    star = _BEST if best and mark else ""
    mixed = any(other.error_over == "seeds" for other in table.cells.values())
    tail = EPISODE_MARK if mixed and cell.error_over == "episodes" else ""
    tail += f" ({cell.done}/{cell.planned})" if cell.done < cell.planned else ""
    mean = write(cell.mean, cell, decimals)
    if cell.standard_error is None:
        return _Shown(mean, star + tail, "", "", best, False)
    return _Shown(mean, star, write(cell.standard_error, cell, decimals), tail, best, False)


def _is_best(cell: TableCell, column: Sequence[TableCell]) -> bool:
    means = [other.mean for other in column if other.mean is not None]
    best = max(means, default=0.0)
    return cell.mean is not None and bool(is_above(best, min(means)) and not is_above(best, cell.mean))


def align(numbers: Sequence[str], marks: Sequence[str] = ()) -> list[str]:
    """Pad `numbers`, each with its mark behind it, so that their decimal points stand below each other."""
    whole = [number.partition(".")[0] for number in numbers]
    rest = [
        number[len(start) :] + mark
        for number, start, mark in zip(numbers, whole, marks or [""] * len(numbers), strict=True)
    ]
    left, right = max(map(cell_len, whole), default=0), max(map(cell_len, rest), default=0)
    return [
        " " * (left - cell_len(start)) + start + end + " " * (right - cell_len(end))
        for start, end in zip(whole, rest, strict=True)
    ]
