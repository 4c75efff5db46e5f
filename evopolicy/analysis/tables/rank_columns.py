"""The rank table as it is shown: its columns, its digits, and what stands in its place where it is
wide."""

from __future__ import annotations

from dataclasses import replace

from evopolicy.analysis.tables.footnotes import EPISODE_MARK
from evopolicy.analysis.tables.marks import mark_best
from evopolicy.analysis.tables.ranks import EntryRank, RankTable, TableCell
from evopolicy.present.numbers import fitting, with_error
from evopolicy.present.table import Cell, Column, Table, count, joined, ranked, words

_SIDE_BY_SIDE = 6
"""Benchmarks that may stand beside the ranks; more are rows of a table of their own."""
_OPEN = "…"
_DATA = (
    *(
        "benchmarks_ranked",
        "benchmarks",
        "cells_done",
        "cells",
        "failures",
        "failed_episodes",
        "episodes",
    ),
    "wall_seconds",
)
_Filled = tuple[Column, list[Cell]]


def present_ranks(table: RankTable, title: str = "") -> Table:
    """`table` ready to be drawn, and with every number of it in CSV."""
    ranks = _ranks(table)
    heldout = heldout_cells(table)
    beside: list[_Filled] = []
    for benchmark in table.benchmarks:
        beside.append(
            (Column(benchmark, benchmark), [heldout[row.entry, benchmark] for row in table.entries])
        )
        beside += _behind(table, benchmark)
    whole = joined("rank", title, [*ranks, *_data(table), *beside, *_ends(table)], stub=2)
    parts = (
        joined("ranks", "", [*ranks, *_ends(table)], stub=2),
        joined("heldout", "", _by_benchmark(table, heldout)),
    )
    crowded = len(table.benchmarks) > _SIDE_BY_SIDE or bool(table.categories)
    return replace(
        whole, notes=table.notes, best="best on its Benchmark", parts=parts, crowded=crowded
    )


def heldout_cells(table: RankTable) -> dict[tuple[str, str], Cell]:
    """The held-out mean of each entry on each Benchmark with its standard error, the best on a
    Benchmark marked."""
    mixed = any(cell.error_over == "seeds" for cell in table.cells.values())
    found: dict[tuple[str, str], Cell] = {}
    for benchmark in table.benchmarks:
        column = [table.cells[row.entry, benchmark] for row in table.entries]
        errors = [cell.standard_error or 0.0 for cell in column]
        decimals = fitting([cell.mean for cell in column], max(errors, default=0.0))
        cells = mark_best([_heldout(cell, decimals, mixed) for cell in column])
        found |= {
            (row.entry, benchmark): cell for row, cell in zip(table.entries, cells, strict=True)
        }
    return found


def _heldout(cell: TableCell, decimals: int | None, mixed: bool) -> Cell:
    if cell.mean is None:
        return Cell(text=_OPEN) if cell.open else Cell()
    tail = EPISODE_MARK if mixed and cell.error_over == "episodes" else ""
    tail += f" ({cell.done}/{cell.planned})" if cell.done < cell.planned else ""
    return Cell(cell.mean, *with_error(cell.mean, cell.standard_error, decimals), tail)


def _ranks(table: RankTable) -> list[_Filled]:
    rows = table.entries
    categories: list[_Filled] = [
        (
            Column(f"rank_score {name}", name),
            [ranked(table.category_scores.get((row.entry, name))) for row in rows],
        )
        for name in table.categories
    ]
    return [
        (Column("place", "#"), [count(row.place) for row in rows]),
        (Column("entry", "entry", text=True), [words(row.entry) for row in rows]),
        (Column("rank_score", "rank score", bar=True), [ranked(row.rank_score) for row in rows]),
        *categories,
        (Column("wins", "wins"), [_of_ranks(row, row.wins) for row in rows]),
        (Column("top2", "top 2"), [_of_ranks(row, row.top2) for row in rows]),
    ]


def _of_ranks(row: EntryRank, value: int) -> Cell:
    """A number there is without ranks too, which is shown only where there are."""
    return Cell(value, count(value).text if row.rank_score is not None else Cell().text)


def _data(table: RankTable) -> list[_Filled]:
    """What CSV has of each entry beside what is shown."""
    rows = [
        (
            row.benchmarks,
            len(table.benchmarks),
            row.cells_done,
            row.cells_total,
            row.failures,
            row.policy_failures,
        )
        + (row.episodes, round(row.wall_seconds, 3))
        for row in table.entries
    ]
    return [
        (Column(name, name, drawn=False), [Cell(row[place]) for row in rows])
        for place, name in enumerate(_DATA)
    ]


def _behind(table: RankTable, benchmark: str) -> list[_Filled]:
    """What CSV has of each entry on `benchmark` behind its mean."""
    cells = [table.cells[row.entry, benchmark] for row in table.entries]
    values: dict[str, list[float | int | str | None]] = {
        "standard_error": [cell.standard_error for cell in cells],
        "error_over": [cell.error_over for cell in cells],
        "seeds": [cell.done for cell in cells],
    }
    return [
        (Column(f"{benchmark} {name}", name, drawn=False), [Cell(value) for value in column])
        for name, column in values.items()
    ]


def _ends(table: RankTable) -> list[_Filled]:
    """How much of what was planned there is: words, which CSV has as numbers."""
    rows = table.entries
    done = [
        Cell(f"{row.cells_done}/{row.cells_total}", f"{row.cells_done}/{row.cells_total}")
        for row in rows
    ]
    ends: list[_Filled] = [(Column("done", "cells", stored=False), done)]
    if any(row.policy_failures for row in rows):
        failed = [f"{row.policy_failures}/{row.episodes}" for row in rows]
        ends.append(
            (
                Column("failed", "failed Episodes", stored=False),
                [Cell(text, text) for text in failed],
            )
        )
    return ends


def _by_benchmark(table: RankTable, heldout: dict[tuple[str, str], Cell]) -> list[_Filled]:
    """A row a Benchmark and a column an entry."""
    names: _Filled = (
        Column("benchmark", "held-out mean", text=True),
        [words(name) for name in table.benchmarks],
    )
    return [
        names,
        *(
            (Column(row.entry, row.entry), [heldout[row.entry, b] for b in table.benchmarks])
            for row in table.entries
        ),
    ]
