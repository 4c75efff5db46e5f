"""A table laid out as blocks of text: what fits side by side, how headers break, how numbers stand
below each other."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, chop_cells

from evopolicy.kernel.shown import clean
from evopolicy.present.table import Cell, Table, drawn

GAP = 2
"""Spaces between columns."""
_HEAD_WIDTH = 8
"""A header is broken into lines rather than widen its column past this."""
_NAMES = (34, 12)
"""Widths down to which names of rows are broken into lines: before columns are put into blocks of
their own, and where that does not help."""
_NOTE_LENGTH = 2_000
_BEST = "*"


@dataclass(frozen=True)
class GridCell:
    text: str
    """May have several lines; numbers are padded so that their points stand in one column."""
    best: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Grid:
    """One block of a table."""

    header: tuple[str, ...]
    rows: tuple[tuple[GridCell, ...], ...]
    left: frozenset[int]
    """Columns that are aligned left; the others right."""
    bar: int | None = None
    """The column that gets a bar beside it."""
    shares: tuple[float | None, ...] = ()
    """Its values."""

    def widths(self) -> list[int]:
        columns = zip(self.header, *((cell.text for cell in row) for row in self.rows), strict=True)
        return [
            max(cell_len(line) for text in column for line in text.split("\n"))
            for column in columns
        ]

    def width(self) -> int:
        return sum(self.widths()) + GAP * (len(self.header) - 1)


def grids(table: Table, width: int | None, mark: bool) -> list[Grid]:
    """The blocks of `table` in `width` columns (None: as wide as it likes).

    Columns behind the stub stand in as few blocks of about as many columns each as the width
    allows. `mark` puts a star after the best, for where there is no bold."""
    if not table.rows:
        return []
    shown = drawn(table)
    if table.parts and (
        table.crowded or (width is not None and _grid(shown, mark, short=True).width() > width)
    ):
        return [grid for part in table.parts for grid in grids(part, width, mark)]
    if width is None:
        return [_grid(shown, mark, short=False)]
    rest = len(shown.columns) - shown.stub
    found: list[Grid] = []
    for least in _NAMES:
        for count in range(1, max(rest, 1) + 1):
            size = -(-rest // count) or 1
            starts = range(shown.stub, shown.stub + max(rest, 1), size)
            blocks = [
                _grid(_part(shown, start, start + size), mark, short=True) for start in starts
            ]
            found = [_narrowed(grid, width, least) for grid in blocks]
            if all(grid.width() <= width for grid in found):
                return found
    return found


def _part(table: Table, start: int, end: int) -> Table:
    """The stub of `table` and its columns from `start` to `end`."""
    columns = (*table.columns[: table.stub], *table.columns[start:end])
    return replace(
        table,
        columns=columns,
        rows=tuple((*row[: table.stub], *row[start:end]) for row in table.rows),
    )


def _grid(table: Table, mark: bool, short: bool) -> Grid:
    """All columns of `table` beside each other; `short` breaks long headers into lines."""
    columns = aligned(table, mark)
    header = []
    for column, cells in zip(table.columns, columns, strict=True):
        name = clean(f"{column.group}: {column.title}" if column.group else column.title)
        widest = max(
            (cell_len(line) for cell in cells for line in cell.text.split("\n")), default=0
        )
        header.append(
            wrap(name, max(widest, _HEAD_WIDTH, *map(cell_len, _WORD.findall(name))))
            if short
            else name
        )
    height = max(name.count("\n") for name in header)
    bar = next((place for place, column in enumerate(table.columns) if column.bar), None)
    return Grid(
        header=tuple("\n" * (height - name.count("\n")) + name for name in header),
        rows=tuple(zip(*columns, strict=True)),
        left=frozenset(place for place, column in enumerate(table.columns) if column.text),
        bar=bar,
        shares=() if bar is None else tuple(_share(row[bar]) for row in table.rows),
    )


def _share(cell: Cell) -> float | None:
    return cell.value if isinstance(cell.value, float) else None


def _narrowed(grid: Grid, width: int, least: int) -> Grid:
    """`grid` with the widest names broken into lines as far as `width` asks for."""
    over, widths = grid.width() - width, grid.widths()
    place = max(grid.left, key=lambda column: widths[column], default=None)
    if over <= 0 or place is None or widths[place] <= least:
        return grid
    names = max(widths[place] - over, least)
    rows = [
        (*row[:place], replace(row[place], text=wrap(row[place].text, names)), *row[place + 1 :])
        for row in grid.rows
    ]
    return replace(grid, rows=tuple(rows))


def aligned(table: Table, mark: bool = False) -> list[list[GridCell]]:
    """The cells of each column as text; the points of numbers, and of their standard errors, stand
    below each other."""
    found = []
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        texts = [clean(cell.whole) for cell in cells] if column.text else _numbers(cells, mark)
        found.append(
            [GridCell(text, cell.best, cell.faint) for text, cell in zip(texts, cells, strict=True)]
        )
    return found


def _numbers(cells: Sequence[Cell], mark: bool) -> list[str]:
    stars = [_BEST if mark and cell.best else "" for cell in cells]
    tails = [
        star if cell.error else star + _tail(cell) for star, cell in zip(stars, cells, strict=True)
    ]
    means = align([clean(cell.text) for cell in cells], tails)
    if not any(cell.error for cell in cells):
        return means
    errors = align(
        [cell.error for cell in cells], [_tail(cell) if cell.error else "" for cell in cells]
    )
    middle = [" ± " if cell.error else "   " for cell in cells]
    return [
        mean + between + error for mean, between, error in zip(means, middle, errors, strict=True)
    ]


def _tail(cell: Cell) -> str:
    space = " " if cell.tail.startswith(" ") else ""
    return space + clean(cell.tail)


def align(numbers: Sequence[str], marks: Sequence[str] = ()) -> list[str]:
    """Pad `numbers`, each with its mark behind it, so that their decimal points stand below each
    other."""
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


_TOKEN = re.compile(r"[^ /_=-]*[ /_=-]|[^ /_=-]+")
_WORD = re.compile(r"[^ /_=-]{1,16}[/_=-]?")


def wrap(text: str, width: int) -> str:
    """`text` in lines of at most `width` columns, broken after a space, slash, underscore, hyphen
    or equals sign."""
    lines, line = [], ""
    for token in _TOKEN.findall(text):
        for piece in chop_cells(token, width) if cell_len(token.rstrip()) > width else [token]:
            if line and cell_len((line + piece).rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
    return "\n".join([*lines, line.rstrip()])


def fold(note: str, width: int) -> list[str]:
    """Lines of `note`, at most `width` long."""
    return textwrap.wrap(note, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)


def notes(table: Table, blocks: Sequence[Grid] = ()) -> list[str]:
    """What stands below `table`; where the best of `blocks` have a star, first what that is."""
    starred = any(cell.best for grid in blocks for row in grid.rows for cell in row)
    return [
        *([f"* {table.best}."] if starred else []),
        *(clean(note, _NOTE_LENGTH) for note in table.notes),
    ]
