"""The table of edits: how many of each kind, and how often one raised the best Validation mean so
far."""

from __future__ import annotations

import math

import pandas as pd

from evopolicy.analysis.paper import facts as published_facts
from evopolicy.analysis.paper.facts import DEMANDS, EDITS
from evopolicy.analysis.programs.edits import EDIT_COLUMNS, edit_frame
from evopolicy.analysis.records.columns import typed_frame
from evopolicy.analysis.records.frame_columns import COLUMNS as FRAMES
from evopolicy.analysis.stats.statistics import wilson
from evopolicy.analysis.tables.inputs import TableInputs
from evopolicy.analysis.tables.marks import mark_columns
from evopolicy.analysis.tables.rows import Row, integer, lay_out, noted, of_row, row_names
from evopolicy.present.numbers import plural
from evopolicy.present.table import Cell, Table, percent


def edits_table(inputs: TableInputs, name: str) -> Table:
    """How many edits of each kind, and how often one raised the best Validation mean so far."""
    data_edits = inputs.config.data_edits
    own = inputs.table() if inputs.own else None
    edits = (
        inputs.valid(edit_frame(own, data_edits=data_edits))
        if own
        else typed_frame(EDIT_COLUMNS, [])
    )
    runs = inputs.valid(own.runs) if own else typed_frame(FRAMES["runs"], [])

    def cell(row: Row, group: str, column: str) -> Cell:
        if inputs.is_published(row[0]):
            return _published_edits(inputs, row[0], group, column)
        if column == "runs":
            return integer(len(of_row(inputs, runs, row, group)))
        kind, _, what = column.partition("_")
        chosen = of_row(inputs, edits, row, group)
        chosen = chosen[
            chosen["kind"] == {"rollbacks": "rollback", "retests": "retest"}.get(kind, kind)
        ]
        if what in ("chance", "durable"):
            known = chosen[
                chosen["new_best"].notna() if what == "chance" else chosen["new_best"].fillna(False)
            ]
            values = known[what].dropna().astype(float)
            return Cell() if values.empty else percent(math.fsum(values) / len(values))
        best = chosen["new_best"].dropna()
        return _rate(inputs, int(best.sum()), len(best)) if what == "hits" else integer(len(chosen))

    table = lay_out(inputs, name, cell)
    notes = list(table.notes)
    unknown = int((edits["edit"] & edits["new_best"].isna()).sum())
    if unknown:
        notes.append(f"Hits are of the edits whose Validation mean is known; {unknown} are not.")
    notes += _unknown_kinds(edits, len(runs))
    if any("_edits" in column for column in inputs.config.columns):
        notes += _unlike_counts(inputs, runs)
    if any(column.endswith("_chance") for column in inputs.config.columns):
        notes.append(
            "By chance: hits if all Programs of a Run so far were alike, 1 / k for the k-th "
            "Program."
        )
    if any(column.endswith("_durable") for column in inputs.config.columns):
        notes.append(
            "Durable: hits after which no later Submission fell back to the best before, on "
            "Validation."
        )
    if data_edits:
        notes.append(
            "Of the Runs, another Program with the same source (new numbers in a file) is a "
            "parametric edit."
        )
    if inputs.published:
        notes.append(published_facts.EDITS_NOTE)
    if inputs.config.over:
        level = f"{100 * inputs.config.level:g} %"
        notes.append(
            f"[low, high]: {level} interval of a rate by Wilson, as if edits were independent of "
            "each other."
        )
    marked = [head.key for head in table.columns if "_hits" in head.key]
    return mark_columns(noted(table, notes), marked)


def _unknown_kinds(edits: pd.DataFrame, runs: int) -> list[str]:
    unknown = edits.loc[edits["kind"] == "unknown", "run"]
    if unknown.empty:
        return []
    return [
        "Of unknown kind, since a source is not there, and counted nowhere: "
        f"{plural(len(unknown), 'Submission')} of {unknown.nunique()} of {plural(runs, 'Run')}."
    ]


def _unlike_counts(inputs: TableInputs, runs: pd.DataFrame) -> list[str]:
    """That rows are totals over unlike numbers of Runs, where the eye would compare them."""

    def there(row: Row, group: str) -> int:
        if inputs.is_published(row[0]):
            return int(_published_edits(inputs, row[0], group, "runs").value or 0)
        return len(of_row(inputs, runs, row, group))

    rows = row_names(inputs)
    if all(len({there(row, group) for row in rows} - {0}) < 2 for group in inputs.groups()):
        return []
    return [
        "Edits are totals over a row's Runs, whose numbers differ: compare edits a Run, or hits, "
        "which are rates."
    ]


def _rate(inputs: TableInputs, hits: int, known: int) -> Cell:
    """Of the edits of which it is known whether they were hits."""
    if not known:
        return Cell()
    bounds = wilson(hits, known, inputs.config.level) if inputs.config.over else None
    return percent(hits / known, bounds, inputs.config.digits or 0)


def _published_edits(inputs: TableInputs, entry: str, group: str, column: str) -> Cell:
    facts = EDITS.get(inputs.names[entry])
    demands = DEMANDS if group == "" else tuple(d for d in DEMANDS if d == group)
    if facts is None or not demands:
        return Cell()
    if column == "runs":
        return integer(sum(published_facts.BENCHMARKS[demand] for demand in demands))
    kind, _, what = column.partition("_")
    if what not in ("edits", "hits"):
        return Cell()
    found = [facts[kind, demand] for demand in demands]
    total = sum(one.edits for one in found)
    return (
        _rate(inputs, sum(one.hits for one in found), total) if what == "hits" else integer(total)
    )
