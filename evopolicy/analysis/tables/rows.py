"""How tables of Runs are laid out: a row an entry or a cell, every column once a group of Benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evopolicy.analysis.paper.published import DEMANDS
from evopolicy.analysis.tables.inputs import TableInputs
from evopolicy.present.table import Cell, Column, Table

Row = tuple[str, str | None]
"""Entry, and its Benchmark where a row is a cell."""
TITLES = {
    "synthesis_edits": "synthesis edits", "synthesis_hits": "hits", "parametric_edits": "parametric edits",
    "parametric_hits": "hits", "units_to_best": "units to best", "units_to_50": "units to 50 %",
    "units_to_80": "units to 80 %", "units_to_stable": "units to stable", "synthesis_chance": "by chance",
    "parametric_chance": "by chance", "synthesis_durable": "durable", "parametric_durable": "durable",
    "input_tokens": "input tokens", "cached_tokens": "cached tokens",
    "output_tokens": "output tokens", "cost_usd": "cost, $", "thinking_seconds": "thinking, s",
    "wall_seconds": "wall, s", "best_training": "best in training", "best": "best in hindsight",
    "chose_best": "chose the best", "correlation": "rank correlation", "validation_gap": "Validation gap",
    "changing_state": "changing state",
}  # fmt: skip


def row_names(inputs: TableInputs) -> list[Row]:
    if inputs.config.rows == "entries":
        return [(entry, None) for entry in inputs.entries]
    there = {(score.entry, score.benchmark) for score in inputs.own}
    return [(entry, b) for b in inputs.benchmarks for entry in inputs.entries if (entry, b) in there]


def is_in(inputs: TableInputs, one: Mapping[str, Any], row: Row, group: str) -> bool:
    entry, benchmark = row
    return one["entry"] == entry and benchmark in (None, one["benchmark"]) and inputs.group(one["benchmark"]) == group


def lay_out(inputs: TableInputs, name: str, cell: Callable[[Row, str, str], Cell]) -> Table:
    """A row an entry or a cell, and every column once a group."""
    config = inputs.config
    columns = [Column("entry", "entry", text=True)]
    if config.rows == "cells":
        columns.insert(0, Column("benchmark", "Benchmark", text=True))
    places = [(group, column) for group in inputs.groups() for column in config.columns]
    stub = len(columns)
    columns += [
        Column(f"{column} {group}".strip(), TITLES.get(column, column), group=_group_title(inputs, group))
        for group, column in places
    ]
    columns.append(Column("source", "source", text=True, drawn=False))
    rows = []
    for entry, benchmark in row_names(inputs):
        first = [inputs.named(entry)]
        if benchmark is not None:
            first.insert(0, Cell(benchmark, inputs.titles[benchmark]))
        cells = [cell((entry, benchmark), group, column) for group, column in places]
        rows.append((*first, *cells, inputs.origin(entry)))
    return Table(name, config.title, tuple(columns), tuple(rows), stub, inputs.notes)


def _group_title(inputs: TableInputs, group: str) -> str:
    return f"{group} tasks" if inputs.config.by == "demand" and group in DEMANDS else group


def integer(value: int) -> Cell:
    return Cell(value, str(value))


def noted(table: Table, notes: Sequence[str]) -> Table:
    return Table(table.name, table.title, table.columns, table.rows, table.stub, tuple(dict.fromkeys(notes)))
