"""The table of differences: every entry against one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evopolicy.analysis.stats.differences import (
    EntryDifference,
    entry_differences,
    name_partners,
    partners,
    run_keys,
)
from evopolicy.analysis.stats.intervals import Interval, interval_notes
from evopolicy.analysis.stats.resampling import improvement_interval
from evopolicy.analysis.tables.config import COLUMNS
from evopolicy.analysis.tables.inputs import TableInputs
from evopolicy.analysis.tables.scores import Tables, episode_tables
from evopolicy.kernel.errors import RecordError
from evopolicy.present.numbers import fitting, plural
from evopolicy.present.table import Cell, Column, Table, number, words

_DIGITS = 3
_COLUMNS = COLUMNS["difference"]


def difference_table(inputs: TableInputs, name: str) -> Table:
    """Every entry of a person's Runs less the entry `against`.

    Raises ConfigError for an entry there is not, RecordError where there is nothing to compare.
    """
    config = inputs.config
    against = partners(inputs.entries, config.against)
    tables, lacking = episode_tables(inputs)
    if lacking:
        raise RecordError(
            f"difference: the held-out Episodes of {lacking[0]} are not on disk; leave that out"
        )
    assert config.over is not None  # the config refuses a difference without an interval
    found = entry_differences(
        tables,
        run_keys(inputs.valid(inputs.table().runs)),
        against,
        seed=config.seed,
        over=config.over,
        level=config.level,
        replicates=config.replicates,
    )
    if not found:
        raise RecordError(
            "difference: no two entries that are compared have a Benchmark in common; choose "
            "another against="
        )
    drawn = _by_cell(inputs, found) if config.rows == "cells" else _by_entry(inputs, found, tables)
    columns, rows, spans = drawn
    notes = [
        f"Each entry less {name_partners(against)}: paired by held-out Episode.",
        *_paired_note(found),
        f"p (Holm): adjusted for the {plural(len(found), 'difference')} of this table.",
        "P(higher): chance that a Run of the entry scores above one of the other, ties half.",
        *inputs.notes,
        *interval_notes(spans, config.level),
    ]
    stub = len(columns) - len(config.columns)
    columns.append(Column("against", "against", text=True, drawn=False))
    rows = [(*row, words(against[str(row[0].value)])) for row in rows]
    return Table(name, config.title, tuple(columns), tuple(rows), stub, tuple(notes))


def _paired_note(found: Sequence[EntryDifference]) -> list[str]:
    paired = [one for one in found if one.paired]
    if not paired:
        return []
    which = "" if len(paired) == len(found) else f" in {len(paired)} of {len(found)} rows"
    return [f"Both are read from the same Runs{which}, which are paired and count once."]


_Drawn = tuple[list[Column], list[tuple[Cell, ...]], list[Interval]]


def _by_cell(inputs: TableInputs, found: Sequence[EntryDifference]) -> _Drawn:
    config = inputs.config
    columns = [Column("entry", "entry", text=True), Column("benchmark", "Benchmark", text=True)]
    columns += [Column(key, _COLUMNS[key].head(key)) for key in config.columns]
    ordered = [one for slug in inputs.benchmarks for one in found if one.benchmark == slug]
    rows = []
    for one in ordered:
        cells = {
            "difference": _difference(one, config.digits),
            "p": _p(one.difference.p_value),
            "p_holm": _p(one.p_holm),
            "improvement": number(one.improvement.estimate, _DIGITS, one.improvement),
            "runs": words(f"{one.runs}, paired" if one.paired else f"{one.runs} / {one.others}"),
        }
        slug = Cell(one.benchmark, inputs.titles[one.benchmark])
        rows.append((words(one.entry), slug, *(cells[key] for key in config.columns)))
    spans = [one.difference.interval for one in found] if "difference" in config.columns else []
    spans += [one.improvement for one in found] if "improvement" in config.columns else []
    return columns, rows, spans


def _difference(one: EntryDifference, digits: int | None) -> Cell:
    span = one.difference.interval
    half = 0.0 if span.over is None else (span.high - span.low) / 2
    return number(one.estimate, fitting([one.estimate], half) if digits is None else digits, span)


def _p(value: float) -> Cell:
    """A p-value; below what three decimals tell, so that none is shown as 0."""
    if math.isnan(value):
        return Cell()
    return Cell(value, "<0.001") if value < 0.0005 else number(value, _DIGITS)


def _by_entry(inputs: TableInputs, found: Sequence[EntryDifference], tables: Tables) -> _Drawn:
    config = inputs.config
    columns = [
        Column("entry", "entry", text=True),
        *(Column(key, _COLUMNS[key].head(key)) for key in config.columns),
    ]
    rows, spans = [], []
    rng = np.random.default_rng(config.seed)
    for entry in dict.fromkeys(one.entry for one in found):
        own = [one for one in found if one.entry == entry]
        span = _overall(own, tables, inputs, rng)
        spans.append(span)
        decided = [one.decided(config.level) for one in own]
        cells = {
            "improvement": number(span.estimate, _DIGITS, span),
            "benchmarks": Cell(len(own), str(len(own))),
            "better": Cell(decided.count(1), str(decided.count(1))),
            "worse": Cell(decided.count(-1), str(decided.count(-1))),
        }
        rows.append((words(entry), *(cells[key] for key in config.columns)))
    return columns, rows, spans if "improvement" in config.columns else []


def _overall(
    own: Sequence[EntryDifference], tables: Tables, inputs: TableInputs, rng: np.random.Generator
) -> Interval:
    """Mean over Benchmarks of the chance of improvement; of one Benchmark its own."""
    config = inputs.config
    if len(own) == 1:
        return own[0].improvement
    pair = own[0].entry, own[0].against
    first, second = ({one.benchmark: tables[name][one.benchmark] for one in own} for name in pair)
    assert config.over is not None
    return improvement_interval(
        first, second, rng=rng, over=config.over, level=config.level, replicates=config.replicates
    )
