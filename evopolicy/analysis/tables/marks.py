"""Which cells of a table are the best, by the one rule of ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evopolicy.analysis.stats.ties import is_above, settle
from evopolicy.present.table import Cell, Table


def mark_best(cells: Sequence[Cell], lowest: bool = False) -> list[Cell]:
    """`cells` with the best of them marked, ties all; none where they do not differ."""
    values = [
        cell.value for cell in cells if isinstance(cell.value, int | float) and not cell.partial
    ]
    if len(values) < 2 or not is_above(max(values), min(values)):
        return list(cells)
    settled = settle([-value for value in values] if lowest else values)
    best = {value for value, found in zip(values, settled, strict=True) if found == settled.max()}
    return [replace(cell, best=not cell.partial and cell.value in best) for cell in cells]


def mark_columns(table: Table, keys: Sequence[str], lowest: Sequence[str] = ()) -> Table:
    """`table` with the best cell of every column in `keys` (higher is better) and `lowest`
    marked."""
    cells = [list(column) for column in zip(*table.rows, strict=True)]
    for place, column in enumerate(table.columns if cells else ()):
        if column.key in keys or column.key in lowest:
            cells[place] = mark_best(cells[place], column.key in lowest)
    return replace(table, rows=tuple(zip(*cells, strict=True)))
