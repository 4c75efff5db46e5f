"""Tables of means over Runs: code, what was spent, and what selection was worth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evopolicy.analysis.paper import facts as published_facts
from evopolicy.analysis.paper.facts import CODE, DEMANDS
from evopolicy.analysis.programs.code import NUMBERS, code_frame
from evopolicy.analysis.records.columns import typed_frame
from evopolicy.analysis.records.frame_columns import COLUMNS as FRAMES
from evopolicy.analysis.records.trajectory import curve_areas, curve_points, curve_reach
from evopolicy.analysis.records.validity import score_gaps, selection_validity
from evopolicy.analysis.stats.intervals import (
    MIN_RUNS,
    Interval,
    aggregate_mean_interval,
    interval_notes,
)
from evopolicy.analysis.stats.ties import is_above
from evopolicy.analysis.tables.config import COLUMNS, TableColumn
from evopolicy.analysis.tables.estimates import estimate_notes, estimated
from evopolicy.analysis.tables.inputs import TableInputs
from evopolicy.analysis.tables.marks import mark_columns
from evopolicy.analysis.tables.rows import Row, lay_out, noted, of_row, row_names
from evopolicy.present.numbers import fitting, plural
from evopolicy.present.table import ESTIMATE_MARK, Cell, Table, number

_TOO_FEW = f"No interval where a cell has fewer than {MIN_RUNS} Runs."


_Published = Callable[[TableInputs, str, str, str], float | None]
"""What the paper has for an entry, group and column."""


def code_table(inputs: TableInputs, name: str) -> Table:
    """Measures of the selected source bundles: means over Benchmarks of the means over Runs."""
    runs = inputs.valid(inputs.table().runs) if inputs.own else typed_frame(FRAMES["runs"], [])
    known = (
        _code_runs(inputs, runs) if inputs.own else runs.reindex(columns=[*runs.columns, *NUMBERS])
    )
    table = _means(inputs, name, known, _published_code)
    notes = [*table.notes, published_facts.CODE_NOTE] if inputs.published else list(table.notes)
    if gone := len(runs) - len(known):
        counted = f"{gone} of {plural(len(runs), 'Run')}"
        notes.append(f"Left out, since their selected Program's source is not there: {counted}.")
    return noted(table, ["Of the source bundle of the Program that was selected.", *notes])


def _code_runs(inputs: TableInputs, runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with the measures of their selected Programs, of those whose source is there."""
    code = code_frame(inputs.table()).dropna(subset=["parsed"])
    code = code.drop_duplicates(["run", "program"], keep="last").rename(
        columns={"program": "selected_program"}
    )
    return runs.merge(code[["run", "selected_program", *NUMBERS]], on=["run", "selected_program"])


def _published_code(inputs: TableInputs, entry: str, group: str, column: str) -> float | None:
    facts = CODE.get(inputs.names[entry], {})
    demands = DEMANDS if group == "" else tuple(d for d in DEMANDS if d == group)
    if not facts or not demands:
        return None
    counts = [published_facts.BENCHMARKS[demand] for demand in demands]
    if column == "runs":
        return sum(counts)
    values = [getattr(facts[demand], column, None) for demand in demands]
    if None in values:
        return None
    total = math.fsum(v * n for v, n in zip(values, counts, strict=True) if v is not None)
    return values[0] if len(values) == 1 else total / sum(counts)


def efficiency_table(inputs: TableInputs, name: str) -> Table:
    """What a Run used, and how soon it had what it found."""
    runs = _efficiency_runs(inputs)
    table = _means(inputs, name, runs)
    notes = ["A Run's means; area and units to 50 % and 80 % are of best-so-far Validation means between the lowest "
             "first and the best of any Run of the Benchmark here.", *table.notes]  # fmt: skip
    return noted(table, notes + estimate_notes(runs, inputs.config.columns))


def _efficiency_runs(inputs: TableInputs) -> pd.DataFrame:
    """The valid Runs with their usage and what their curves tell."""
    frames = inputs.table()
    runs = inputs.valid(frames.runs)
    curves = inputs.valid(curve_points(frames))
    reach = curve_reach(curves, fractions=(0.5, 0.8)).pivot(
        index="run", columns="fraction", values="at"
    )
    known = curves.dropna(subset=["best_validation"])
    best = known.groupby("run")["best_validation"].transform("last")
    soon = {
        "units_to_50": reach.get(0.5),
        "units_to_80": reach.get(0.8),
        "units_to_best": known[known["best_validation"] == best]
        .drop_duplicates("run")
        .set_index("run")["units"],
        "units_to_stable": {run: _units_to_stable(points) for run, points in curves.groupby("run")},
        "normalized_area": curve_areas(curves).set_index("run")["normalized_area"],
    }
    used = frames.usage[["run", *frames.usage.columns.difference(runs.columns)]]
    return runs.merge(used, on="run", how="left").join(pd.DataFrame(soon, dtype=float), on="run")


def _units_to_stable(points: pd.DataFrame) -> float:
    """Units at the first of the last unbroken row of Submissions that are above the first one on
    Validation; NaN where the last one is not, or one of the row is not known."""
    values = points["validation"].to_numpy()
    fell = np.flatnonzero(~is_above(values, values[0]))  # the first one itself, at the least
    later = points["units"].iloc[fell[-1] + 1 :]
    return float(later.iloc[0]) if len(later) else math.nan


def selection_table(inputs: TableInputs, name: str) -> Table:
    """What was selected beside the last, the best in training and the best in hindsight, by
    cell."""
    runs = _selection_runs(inputs)
    table = _means(inputs, name, runs)
    notes = list(table.notes)
    empty = int(runs["programs"].isna().sum())
    if empty:
        notes.append(
            f"Of the initial Program, since nothing was published: {empty} of "
            f"{plural(len(runs), 'Run')}."
        )
    lacking = int(runs["best_assessment"].isna().sum()) - empty
    if lacking:
        notes.append(
            f"{lacking} of {len(runs)} Runs have not measured all their Programs on held-out "
            "Episodes, so their best in hindsight is not known; `evopolicy regrade` measures "
            "them."
        )
    return noted(table, notes)


def _selection_runs(inputs: TableInputs) -> pd.DataFrame:
    """The valid Runs with `selection_validity`, of those that published something, and what else
    could be selected."""
    frames = inputs.table()
    gaps, runs = inputs.valid(score_gaps(frames)), inputs.valid(frames.runs)
    found = selection_validity(gaps, runs)
    # As the rule `training_mean` chooses: ties by fewer Validation failures, but under `latest`,
    # then the latest.
    sent = gaps.merge(
        frames.candidates[["run", "submission", "validation_failed"]],
        on=["run", "submission"],
        how="left",
    )
    rules = runs.set_index("run")["settings"].map(lambda of: (of or {}).get("selection.tie_break"))
    ties = sent["run"].map(rules)
    sent["failed"] = sent["validation_failed"].fillna(0).where(ties != "latest", 0)
    order = {"training": True, "failed": False, "submission": True}
    ranked = sent.dropna(subset=["training"]).sort_values(
        list(order), ascending=list(order.values())
    )
    others = {"last": sent, "best_training": ranked}
    heldout = {
        name: of.drop_duplicates("run", keep="last").set_index("run")["assessment"]
        for name, of in others.items()
    }
    found = found[["run", *found.columns.difference([*runs.columns, *others])]].join(
        pd.DataFrame(heldout), on="run"
    )
    return runs.merge(found, on="run", how="left")


def _means(
    inputs: TableInputs, name: str, runs: pd.DataFrame, published: _Published | None = None
) -> Table:
    """A table of means: over the Runs of a cell, then over the Benchmarks, which weigh the same.

    `runs`: a row a Run, with all that the columns of the kind are of.
    """
    config, columns = inputs.config, COLUMNS[inputs.config.kind]
    values = runs.assign(
        **{key: _values(runs, key, columns[key]) for key in config.columns if key != "runs"}
    )
    rows, groups = row_names(inputs), inputs.groups()
    parts = {(row, group): of_row(inputs, values, row, group) for row in rows for group in groups}
    found: dict[tuple[str, str, Row], _Mean] = {}
    for key, group, row in itertools.product(config.columns, groups, rows):
        if published is not None and inputs.is_published(row[0]):
            found[key, group, row] = published(inputs, row[0], group, key), None, ""
        else:
            found[key, group, row] = _mean(inputs, parts[row, group], key)
    decimals = {
        key: _decimals(inputs, key, [mean for (k, _, _), mean in found.items() if k == key])
        for key in columns
    }

    def cell(row: Row, group: str, key: str) -> Cell:
        value, span, tail = found[key, group, row]
        shown = replace(number(value, decimals[key], span, tail), partial=bool(tail))
        guessed = estimated(parts[row, group], key).any()
        return replace(shown, text=f"{ESTIMATE_MARK}{shown.text}") if guessed else shown

    table = lay_out(inputs, name, cell)
    partial = any(tail for _, _, tail in found.values())
    marks = ["(known/Runs) marks a mean over fewer Runs than the row has."] if partial else []
    spans = [span for _, span, _ in found.values() if span]
    table = noted(table, [*table.notes, *marks, *interval_notes(spans, config.level)])
    best = {way: [f"{key} {group}".strip() for key in config.columns for group in groups if columns[key].best == way]
            for way in ("highest", "lowest")}  # fmt: skip
    return mark_columns(table, best["highest"], best["lowest"])


_Mean = tuple[float | None, Interval | None, str]
"""A mean, its interval over Runs, and how many Runs it is of where these are not all."""


def _values(runs: pd.DataFrame, key: str, column: TableColumn) -> pd.Series[Any]:
    return column.of(runs) if callable(column.of) else runs[column.of or key]


def _decimals(inputs: TableInputs, key: str, means: Sequence[_Mean]) -> int | None:
    if key == "runs":
        return 0
    widest = max((span.high - span.low for _, span, _ in means if span and span.over), default=0.0)
    return (
        fitting([value for value, _, _ in means], widest / 2)
        if inputs.config.digits is None
        else inputs.config.digits
    )


def _mean(inputs: TableInputs, runs: pd.DataFrame, key: str) -> _Mean:
    if key == "runs":
        return float(len(runs)), None, ""
    known = runs.dropna(subset=[key])
    if known.empty:
        return None, None, ""
    tail = f" ({len(known)}/{len(runs)})" if len(known) < len(runs) else ""
    tables = {
        str(b): of.to_numpy(dtype=float)[:, np.newaxis]
        for b, of in known.groupby("benchmark", sort=False)[key]
    }
    span = aggregate_mean_interval(tables, over="runs", level=inputs.config.level)
    if span.over is None:
        span = replace(span, note=_TOO_FEW)
    return span.estimate, span if inputs.config.over else None, tail
