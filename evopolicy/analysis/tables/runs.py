"""Tables of means over Runs: code, what was spent, and what selection was worth."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evopolicy.analysis.paper import facts as published_facts
from evopolicy.analysis.paper.facts import CODE, DEMANDS
from evopolicy.analysis.programs.code import code_frame
from evopolicy.analysis.records.columns import by_run, rows_of
from evopolicy.analysis.records.trajectory import curve_areas, curve_points, curve_reach
from evopolicy.analysis.records.validity import score_gaps, selection_validity
from evopolicy.analysis.stats.intervals import MIN_RUNS, Interval, aggregate_mean_interval, interval_notes
from evopolicy.analysis.stats.ties import is_above
from evopolicy.analysis.tables.estimates import estimate_notes, is_estimate
from evopolicy.analysis.tables.inputs import TableInputs
from evopolicy.analysis.tables.marks import mark_columns
from evopolicy.analysis.tables.rows import Row, is_in, lay_out, noted, row_names
from evopolicy.present.numbers import fitting, plural
from evopolicy.present.table import ESTIMATE_MARK, Cell, Table, number

_TOO_FEW = f"No interval where a cell has fewer than {MIN_RUNS} Runs."


_Published = Callable[[TableInputs, str, str, str], float | None]
"""What the paper has for an entry, group and column."""
_Values = list[dict[str, Any]]
"""A row a Run: entry, benchmark and a number for each column, None where there is none."""


def code_table(inputs: TableInputs, name: str) -> Table:
    """Measures of the selected source bundles: means over Benchmarks of the means over Runs."""
    values = _code_values(inputs) if inputs.own else []
    table = _means(inputs, name, values, _published_code)
    notes = [*table.notes, published_facts.CODE_NOTE] if inputs.published else list(table.notes)
    runs = len(inputs.valid(inputs.table().runs)) if inputs.own else 0
    if gone := runs - len(values):
        notes.append(f"Left out, since their selected Program's source is not there: {gone} of {plural(runs, 'Run')}.")
    return noted(table, ["Of the source bundle of the Program that was selected.", *notes])


def _code_values(inputs: TableInputs) -> _Values:
    frames = inputs.table()
    programs = {(r["run"], r["entry"]): r["selected_program"] for r in rows_of(inputs.valid(frames.runs))}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows_of(inputs.valid(code_frame(frames))):
        key = row["run"], row["entry"]
        if row["program"] == programs.get(key) and row["parsed"] is not None:
            found[key] = row
    return list(found.values())


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
    values = _efficiency_values(inputs)
    table = _means(inputs, name, values)
    notes = ["A Run's means; area and units to 50 % and 80 % are of best-so-far Validation means between the lowest "
             "first and the best of any Run of the Benchmark here.", *table.notes]  # fmt: skip
    notes += estimate_notes(values, inputs.config.columns)
    table = mark_columns(noted(table, notes), [h.key for h in table.columns if h.key.startswith("area")])
    return mark_columns(table, (), [h.key for h in table.columns if h.key.startswith(("units_to_50", "units_to_80"))])


_RUN_COLUMNS = ("submissions", "units_used", "thinking_seconds", "wall_seconds")
_USED = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd", "cost_is_estimate", "tokens_are_estimate")


def _efficiency_values(inputs: TableInputs) -> _Values:
    frames = inputs.table()
    curves = inputs.valid(curve_points(frames))
    areas = {row["run"]: row["normalized_area"] for row in rows_of(curve_areas(curves))}
    reach: dict[str, dict[str, float | None]] = {}
    for row in rows_of(curve_reach(curves, fractions=(0.5, 0.8))):
        reach.setdefault(row["run"], {})[f"units_to_{100 * row['fraction']:.0f}"] = row["at"]
    best = {run: _units_to_best(points) for run, points in by_run(curves).items()}
    stable = {run: _units_to_stable(points) for run, points in by_run(curves).items()}
    usage = {(row["run"], row["entry"]): row for row in rows_of(frames.usage)}
    found = []
    for run in rows_of(inputs.valid(frames.runs)):
        used = usage.get((run["run"], run["entry"]), {})
        values = {name: run[name] for name in ("run", "entry", "benchmark", *_RUN_COLUMNS)}
        values |= {name: used.get(name) for name in _USED}
        values |= reach.get(run["run"], {})
        values |= {"units_to_best": best.get(run["run"]), "units_to_stable": stable.get(run["run"])}
        found.append({**values, "units": run["units_used"], "area": areas.get(run["run"])})
    return found


def _units_to_best(points: Sequence[Mapping[str, Any]]) -> float | None:
    known = [point for point in points if point["best_validation"] is not None]
    if not known:
        return None
    return next(float(point["units"]) for point in known if point["best_validation"] == known[-1]["best_validation"])


def _units_to_stable(points: Sequence[Mapping[str, Any]]) -> float | None:
    """Units at the first of the last unbroken row of Submissions that are above the first one on Validation; None where
    the last one is not, or one of the row is not known."""
    known = [point["validation"] for point in points]
    if not known or known[0] is None:
        return None
    found: float | None = None
    for point in reversed(points[1:]):
        if point["validation"] is None or not is_above(point["validation"], known[0]):
            break
        found = float(point["units"])
    return found


def selection_table(inputs: TableInputs, name: str) -> Table:
    """What was selected beside the last, the best in training and the best in hindsight, by cell."""
    values = _selection_values(inputs)
    table = _means(inputs, name, values)
    notes = list(table.notes)
    empty = sum(not value["published"] for value in values)
    if empty:
        notes.append(f"Of the initial Program, since nothing was published: {empty} of {plural(len(values), 'Run')}.")
    lacking = sum(value["best"] is None for value in values) - empty
    if lacking:
        notes.append(
            f"{lacking} of {len(values)} Runs have not measured all their Programs on held-out Episodes, so their best "
            "in hindsight is not known; `evopolicy regrade` measures them."
        )
    return noted(table, notes)


def _selection_values(inputs: TableInputs) -> _Values:
    """A row a valid Run; of one that published nothing only what was selected, the initial Program, is known."""
    frames = inputs.table()
    gaps, runs = inputs.valid(score_gaps(frames)), inputs.valid(frames.runs)
    published = by_run(gaps)
    validity = {row["run"]: row for row in rows_of(selection_validity(gaps, runs))}
    failed = {(row["run"], row["submission"]): row["validation_failed"] for row in rows_of(frames.candidates)}
    found = []
    for run in rows_of(runs):
        selected = {"selected": run["heldout_mean"], "published": run["run"] in published}
        row = validity.get(run["run"], {})
        if row:
            sent = [{**one, "failed": failed.get((one["run"], one["submission"]))} for one in published[run["run"]]]
            best = _best_in_training(sent, json.loads(run["settings"] or "{}").get("selection.tie_break"))
            row = {
                **row,
                "last": sent[-1]["assessment"],
                "best_training": best["assessment"] if best else None,
                "best": row["best_assessment"],
                "correlation": row["validation_correlation"],
                "chose_best": None if row["chose_best"] is None else float(row["chose_best"]),
            }
        found.append({**{name: run[name] for name in ("run", "entry", "benchmark")}, "best": None, **row, **selected})
    return found


def _best_in_training(sent: Sequence[Mapping[str, Any]], tie_break: str | None) -> Mapping[str, Any] | None:
    """As the rule `training_mean` chooses: ties by fewer Validation failures, but under `latest`, then the latest."""

    def rank(one: Mapping[str, Any]) -> tuple[float, int, int]:
        failed = 0 if tie_break == "latest" else one["failed"] or 0
        return float(one["training"]), -failed, one["submission"]

    return max((one for one in sent if one["training"] is not None), key=rank, default=None)


def _means(inputs: TableInputs, name: str, values: _Values, published: _Published | None = None) -> Table:
    """A table of means: over the Runs of a cell, then over the Benchmarks, which weigh the same."""
    config = inputs.config
    spans: list[Interval] = []
    found: dict[tuple[Row, str, str], tuple[float | None, Interval | None, str]] = {}
    for column in config.columns:
        for group in inputs.groups():
            for row in row_names(inputs):
                if published is not None and inputs.is_published(row[0]):
                    found[row, group, column] = published(inputs, row[0], group, column), None, ""
                    continue
                chosen = [one for one in values if is_in(inputs, one, row, group)]
                found[row, group, column] = _mean(inputs, chosen, column)
                spans += [span] if (span := found[row, group, column][1]) else []

    def cell(row: Row, group: str, column: str) -> Cell:
        value, span, tail = found[row, group, column]
        points = [v for (_, _, c), (v, _, _) in found.items() if c == column]
        widths = [s.high - s.low for (_, _, c), (_, s, _) in found.items() if c == column and s and s.over]
        decimals = 0 if column == "runs" else config.digits
        decimals = fitting(points, max(widths, default=0.0) / 2) if decimals is None else decimals
        shown = replace(number(value, decimals, span, tail), partial=bool(tail))
        guessed = any(is_estimate(one, column) for one in values if is_in(inputs, one, row, group))
        return replace(shown, text=f"{ESTIMATE_MARK}{shown.text}") if guessed else shown

    table = lay_out(inputs, name, cell)
    partial = any(tail for _, _, tail in found.values())
    marks = ["(known/Runs) marks a mean over fewer Runs than the row has."] if partial else []
    return noted(table, [*table.notes, *marks, *interval_notes(spans, config.level)])


def _mean(inputs: TableInputs, values: _Values, column: str) -> tuple[float | None, Interval | None, str]:
    """Of one cell: the mean, its interval over Runs, and how many Runs it is of where these are not all."""
    if column == "runs":
        return float(len(values)), None, ""
    by_benchmark: dict[str, list[float]] = {}
    for one in values:
        if one.get(column) is not None:
            by_benchmark.setdefault(one["benchmark"], []).append(float(one[column]))
    if not by_benchmark:
        return None, None, ""
    known = sum(map(len, by_benchmark.values()))
    tail = f" ({known}/{len(values)})" if known < len(values) else ""
    tables = {slug: np.array(numbers)[:, np.newaxis] for slug, numbers in by_benchmark.items()}
    span = aggregate_mean_interval(tables, over="runs", level=inputs.config.level)
    if span.over is None:
        span = replace(span, note=_TOO_FEW)
    return span.estimate, span if inputs.config.over else None, tail
