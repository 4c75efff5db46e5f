"""The table of edits: how many of each kind, and how often one raised the best Validation mean so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evopolicy.analysis.paper import facts as published_facts
from evopolicy.analysis.paper.facts import DEMANDS, EDITS
from evopolicy.analysis.programs.edits import edit_frame
from evopolicy.analysis.records.columns import rows_of
from evopolicy.analysis.stats.statistics import wilson
from evopolicy.analysis.tables.inputs import TableInputs
from evopolicy.analysis.tables.marks import mark_columns
from evopolicy.analysis.tables.rows import Row, integer, is_in, lay_out, noted, row_names
from evopolicy.present.numbers import plural
from evopolicy.present.table import Cell, Table, percent


@dataclass(frozen=True)
class _Count:
    """Edits or events of one kind in one row and group."""

    total: int
    known: int
    """Of which it is known whether they were hits."""
    hits: int


def edits_table(inputs: TableInputs, name: str) -> Table:
    """How many edits of each kind, and how often one raised the best Validation mean so far."""
    data_edits = inputs.config.data_edits
    submissions = rows_of(inputs.valid(edit_frame(inputs.table(), data_edits=data_edits))) if inputs.own else []
    runs = rows_of(inputs.valid(inputs.table().runs)) if inputs.own else []

    def cell(row: Row, group: str, column: str) -> Cell:
        if inputs.is_published(row[0]):
            return _published_edits(inputs, row[0], group, column)
        if column == "runs":
            return integer(sum(is_in(inputs, run, row, group) for run in runs))
        chosen = [one for one in submissions if is_in(inputs, one, row, group)]
        kind, _, what = column.partition("_")
        count = _count(
            [one for one in chosen if one["kind"] == {"rollbacks": "rollback", "retests": "retest"}.get(kind, kind)]
        )
        if what in ("chance", "durable"):
            return _share(what, [one for one in chosen if one["kind"] == kind])
        return _rate(inputs, count) if what == "hits" else integer(count.total)

    table = lay_out(inputs, name, cell)
    notes = list(table.notes)
    unknown = sum(one["edit"] and one["new_best"] is None for one in submissions)
    if unknown:
        notes.append(f"Hits are of the edits whose Validation mean is known; {unknown} are not.")
    notes += _unknown_kinds(submissions, len(runs))
    if any("_edits" in column for column in inputs.config.columns):
        notes += _unlike_counts(inputs, runs)
    if any(column.endswith("_chance") for column in inputs.config.columns):
        notes.append("By chance: hits if all Programs of a Run so far were alike, 1 / k for the k-th Program.")
    if any(column.endswith("_durable") for column in inputs.config.columns):
        notes.append("Durable: hits after which no later Submission fell back to the best before, on Validation.")
    if data_edits:
        notes.append("Of the Runs, another Program with the same source (new numbers in a file) is a parametric edit.")
    if inputs.published:
        notes.append(published_facts.EDITS_NOTE)
    if inputs.config.over:
        level = f"{100 * inputs.config.level:g} %"
        notes.append(f"[low, high]: {level} interval of a rate by Wilson, as if edits were independent of each other.")
    marked = [head.key for head in table.columns if "_hits" in head.key]
    return mark_columns(noted(table, notes), marked)


def _unknown_kinds(submissions: Sequence[Mapping[str, Any]], runs: int) -> list[str]:
    unknown = [one["run"] for one in submissions if one["kind"] == "unknown"]
    if not unknown:
        return []
    return [
        f"Of unknown kind, since a source is not there, and counted nowhere: {plural(len(unknown), 'Submission')} of "
        f"{len(set(unknown))} of {plural(runs, 'Run')}."
    ]


def _unlike_counts(inputs: TableInputs, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """That rows are totals over unlike numbers of Runs, where the eye would compare them."""

    def there(row: Row, group: str) -> int:
        if inputs.is_published(row[0]):
            return int(_published_edits(inputs, row[0], group, "runs").value or 0)
        return sum(is_in(inputs, run, row, group) for run in runs)

    rows = row_names(inputs)
    if all(len({there(row, group) for row in rows} - {0}) < 2 for group in inputs.groups()):
        return []
    return ["Edits are totals over a row's Runs, whose numbers differ: compare edits a Run, or hits, which are rates."]


def _count(rows: Sequence[Mapping[str, Any]]) -> _Count:
    known = [row for row in rows if row["new_best"] is not None]
    return _Count(len(rows), len(known), sum(row["new_best"] for row in known))


def _share(what: str, rows: Sequence[Mapping[str, Any]]) -> Cell:
    """Of edits whose new best is known the mean `chance`; of hits the share that is `durable`."""
    if what == "chance":
        values = [row["chance"] for row in rows if row["new_best"] is not None]
    else:
        values = [float(row["durable"]) for row in rows if row["new_best"] and row["durable"] is not None]
    return percent(math.fsum(values) / len(values), None, 0) if values else Cell()


def _rate(inputs: TableInputs, count: _Count) -> Cell:
    if not count.known:
        return Cell()
    bounds = wilson(count.hits, count.known, inputs.config.level) if inputs.config.over else None
    return percent(count.hits / count.known, bounds, inputs.config.digits or 0)


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
    count = _Count(total, total, sum(one.hits for one in found))
    return _rate(inputs, count) if what == "hits" else integer(total)
