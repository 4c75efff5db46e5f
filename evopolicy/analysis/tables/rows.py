"""How tables of Runs are laid out: a row an entry or a cell, every column once a group of
Benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from evopolicy.analysis.paper.published import DEMANDS
from evopolicy.analysis.tables.config import COLUMNS
from evopolicy.analysis.tables.inputs import TableInputs
from evopolicy.present.table import Cell, Column, Table

Row = tuple[str, str | None]
"""Entry, and its Benchmark where a row is a cell."""


def row_names(inputs: TableInputs) -> list[Row]:
    if inputs.config.rows == "entries":
        return [(entry, None) for entry in inputs.entries]
    there = {(score.entry, score.benchmark) for score in inputs.own}
    return [
        (entry, b) for b in inputs.benchmarks for entry in inputs.entries if (entry, b) in there
    ]


def of_row(inputs: TableInputs, frame: pd.DataFrame, row: Row, group: str) -> pd.DataFrame:
    """What `frame` has of a row and a group of Benchmarks."""
    entry, benchmark = row
    chosen = (frame["entry"] == entry) & (frame["benchmark"].map(inputs.group) == group)
    return frame[chosen if benchmark is None else chosen & (frame["benchmark"] == benchmark)]


def lay_out(inputs: TableInputs, name: str, cell: Callable[[Row, str, str], Cell]) -> Table:
    """A row an entry or a cell, and every column once a group."""
    config = inputs.config
    columns = [Column("entry", "entry", text=True)]
    if config.rows == "cells":
        columns.insert(0, Column("benchmark", "Benchmark", text=True))
    places = [(group, column) for group in inputs.groups() for column in config.columns]
    stub = len(columns)
    columns += [
        Column(
            f"{column} {group}".strip(),
            COLUMNS[config.kind][column].head(column),
            group=_group_title(inputs, group),
        )
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
    return Table(
        table.name, table.title, table.columns, table.rows, table.stub, tuple(dict.fromkeys(notes))
    )
