"""Tables of what happened in Runs: edits, code, what was spent, and what selection was worth."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evopolicy.analysis import published_facts
from evopolicy.analysis.code import code_frame
from evopolicy.analysis.columns import by_run, rows_of
from evopolicy.analysis.edits import edit_frame
from evopolicy.analysis.intervals import MIN_RUNS, Interval, aggregate_mean_interval, interval_notes
from evopolicy.analysis.published_facts import CODE, DEMANDS, EDITS
from evopolicy.analysis.sheet import ESTIMATE_MARK, Head, Sheet, SheetCell, fitting, mark_columns, number, percent
from evopolicy.analysis.statistics import wilson
from evopolicy.analysis.table_source import Material
from evopolicy.analysis.trajectory import curve_areas, curve_points, curve_reach
from evopolicy.analysis.validity import score_gaps, selection_validity
from evopolicy.kernel.shown import plural

_Row = tuple[str, str | None]
"""Entry, and its Benchmark where a row is a cell."""
_TOO_FEW = f"No interval where a cell has fewer than {MIN_RUNS} Runs."
_TITLES = {
    "synthesis_edits": "synthesis edits", "synthesis_hits": "hits", "parametric_edits": "parametric edits",
    "parametric_hits": "hits", "units_to_best": "units to best", "units_to_50": "units to 50 %",
    "units_to_80": "units to 80 %", "input_tokens": "input tokens", "cached_tokens": "cached tokens",
    "output_tokens": "output tokens", "cost_usd": "cost, $", "thinking_seconds": "thinking, s",
    "wall_seconds": "wall, s", "best_training": "best in training", "best": "best in hindsight",
    "chose_best": "chose the best", "correlation": "rank correlation", "validation_gap": "Validation gap",
    "changing_state": "changing state",
}  # fmt: skip


# --- edits -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Count:
    """Edits or events of one kind in one row and group."""

    total: int
    known: int
    """Of which it is known whether they were hits."""
    hits: int


def edits_sheet(material: Material, name: str) -> Sheet:
    """How many edits of each kind, and how often one raised the best Validation mean so far."""
    data_edits = material.config.data_edits
    submissions = rows_of(material.valid(edit_frame(material.table(), data_edits=data_edits))) if material.own else []
    runs = rows_of(material.valid(material.table().runs)) if material.own else []

    def cell(row: _Row, group: str, column: str) -> SheetCell:
        if material.is_published(row[0]):
            return _published_edits(material, row[0], group, column)
        if column == "runs":
            return _integer(sum(_is_in(material, run, row, group) for run in runs))
        chosen = [one for one in submissions if _is_in(material, one, row, group)]
        kind, _, what = column.partition("_")
        count = _count(
            [one for one in chosen if one["kind"] == {"rollbacks": "rollback", "retests": "retest"}.get(kind, kind)]
        )
        return _rate(material, count) if what == "hits" else _integer(count.total)

    sheet = _sheet(material, name, cell)
    notes = list(sheet.notes)
    unknown = sum(one["edit"] and one["new_best"] is None for one in submissions)
    if unknown:
        notes.append(f"Hits are of the edits whose Validation mean is known; {unknown} are not.")
    notes += _unknown_kinds(submissions, len(runs))
    if any("_edits" in column for column in material.config.columns):
        notes += _unlike_counts(material, runs)
    if data_edits:
        notes.append("Of the Runs, another Program with the same source (new numbers in a file) is a parametric edit.")
    if material.published:
        notes.append(published_facts.EDITS_NOTE)
    if material.config.over:
        level = f"{100 * material.config.level:g} %"
        notes.append(f"[low, high]: {level} interval of a rate by Wilson, as if edits were independent of each other.")
    marked = [head.key for head in sheet.heads if "_hits" in head.key]
    return mark_columns(_noted(sheet, notes), marked)


def _unknown_kinds(submissions: Sequence[Mapping[str, Any]], runs: int) -> list[str]:
    unknown = [one["run"] for one in submissions if one["kind"] == "unknown"]
    if not unknown:
        return []
    return [
        f"Of unknown kind, since a source is not there, and counted nowhere: {plural(len(unknown), 'Submission')} of "
        f"{len(set(unknown))} of {plural(runs, 'Run')}."
    ]


def _unlike_counts(material: Material, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """That rows are totals over unlike numbers of Runs, where the eye would compare them."""

    def there(row: _Row, group: str) -> int:
        if material.is_published(row[0]):
            return int(_published_edits(material, row[0], group, "runs").value or 0)
        return sum(_is_in(material, run, row, group) for run in runs)

    rows = _rows(material)
    if all(len({there(row, group) for row in rows} - {0}) < 2 for group in material.groups()):
        return []
    return ["Edits are totals over a row's Runs, whose numbers differ: compare edits a Run, or hits, which are rates."]


def _count(rows: Sequence[Mapping[str, Any]]) -> _Count:
    known = [row for row in rows if row["new_best"] is not None]
    return _Count(len(rows), len(known), sum(row["new_best"] for row in known))


def _rate(material: Material, count: _Count) -> SheetCell:
    if not count.known:
        return SheetCell()
    bounds = wilson(count.hits, count.known, material.config.level) if material.config.over else None
    return percent(count.hits / count.known, bounds, material.config.digits or 0)


def _published_edits(material: Material, entry: str, group: str, column: str) -> SheetCell:
    facts = EDITS.get(material.names[entry])
    demands = DEMANDS if group == "" else tuple(d for d in DEMANDS if d == group)
    if facts is None or not demands:
        return SheetCell()
    if column == "runs":
        return _integer(sum(published_facts.BENCHMARKS[demand] for demand in demands))
    kind, _, what = column.partition("_")
    if what not in ("edits", "hits"):
        return SheetCell()
    found = [facts[kind, demand] for demand in demands]
    total = sum(one.edits for one in found)
    count = _Count(total, total, sum(one.hits for one in found))
    return _rate(material, count) if what == "hits" else _integer(total)


# --- means over Runs ---------------------------------------------------------------------------------------------

_Published = Callable[[Material, str, str, str], float | None]
"""What the paper has for an entry, group and column."""
_Values = list[dict[str, Any]]
"""A row a Run: entry, benchmark and a number for each column, None where there is none."""


def code_sheet(material: Material, name: str) -> Sheet:
    """Measures of the selected source bundles: means over Benchmarks of the means over Runs."""
    values = _code_values(material) if material.own else []
    sheet = _means(material, name, values, _published_code)
    notes = [*sheet.notes, published_facts.CODE_NOTE] if material.published else list(sheet.notes)
    runs = len(material.valid(material.table().runs)) if material.own else 0
    if gone := runs - len(values):
        notes.append(f"Left out, since their selected Program's source is not there: {gone} of {plural(runs, 'Run')}.")
    return _noted(sheet, ["Of the source bundle of the Program that was selected.", *notes])


def _code_values(material: Material) -> _Values:
    frames = material.table()
    programs = {(r["run"], r["entry"]): r["selected_program"] for r in rows_of(material.valid(frames.runs))}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows_of(material.valid(code_frame(frames))):
        key = row["run"], row["entry"]
        if row["program"] == programs.get(key) and row["parsed"] is not None:
            found[key] = row
    return list(found.values())


def _published_code(material: Material, entry: str, group: str, column: str) -> float | None:
    facts = CODE.get(material.names[entry], {})
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


def efficiency_sheet(material: Material, name: str) -> Sheet:
    """What a Run used, and how soon it had what it found."""
    values = _efficiency_values(material)
    sheet = _means(material, name, values)
    guessed = any(one["cost_is_estimate"] and one["cost_usd"] is not None for one in values)
    notes = ["A Run's means; area and units to 50 % and 80 % are of best-so-far Validation means between the lowest "
             "first and the best of any Run of the Benchmark here.", *sheet.notes]  # fmt: skip
    if guessed and "cost_usd" in material.config.columns:
        notes.append(f"{ESTIMATE_MARK} marks a cost that is estimated, at least in part, from list prices.")
    sheet = mark_columns(_noted(sheet, notes), [h.key for h in sheet.heads if h.key.startswith("area")])
    return mark_columns(sheet, (), [h.key for h in sheet.heads if h.key.startswith(("units_to_50", "units_to_80"))])


_RUN_COLUMNS = ("submissions", "units_used", "thinking_seconds", "wall_seconds")
_USED = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd", "cost_is_estimate")


def _efficiency_values(material: Material) -> _Values:
    frames = material.table()
    curves = material.valid(curve_points(frames))
    areas = {row["run"]: row["normalized_area"] for row in rows_of(curve_areas(curves))}
    reach: dict[str, dict[str, float | None]] = {}
    for row in rows_of(curve_reach(curves, fractions=(0.5, 0.8))):
        reach.setdefault(row["run"], {})[f"units_to_{100 * row['fraction']:.0f}"] = row["at"]
    best = {run: _units_to_best(points) for run, points in by_run(curves).items()}
    usage = {(row["run"], row["entry"]): row for row in rows_of(frames.usage)}
    found = []
    for run in rows_of(material.valid(frames.runs)):
        used = usage.get((run["run"], run["entry"]), {})
        values = {name: run[name] for name in ("run", "entry", "benchmark", *_RUN_COLUMNS)}
        values |= {name: used.get(name) for name in _USED}
        values |= reach.get(run["run"], {})
        found.append(
            {**values, "units": run["units_used"], "area": areas.get(run["run"]), "units_to_best": best.get(run["run"])}
        )
    return found


def _units_to_best(points: Sequence[Mapping[str, Any]]) -> float | None:
    known = [point for point in points if point["best_validation"] is not None]
    if not known:
        return None
    return next(float(point["units"]) for point in known if point["best_validation"] == known[-1]["best_validation"])


def selection_sheet(material: Material, name: str) -> Sheet:
    """What was selected beside the last, the best in training and the best in hindsight, by cell."""
    values = _selection_values(material)
    sheet = _means(material, name, values)
    notes = list(sheet.notes)
    empty = sum(not value["published"] for value in values)
    if empty:
        notes.append(f"Of the initial Program, since nothing was published: {empty} of {plural(len(values), 'Run')}.")
    lacking = sum(value["best"] is None for value in values) - empty
    if lacking:
        notes.append(
            f"{lacking} of {len(values)} Runs have not measured all their Programs on held-out Episodes, so their best "
            "in hindsight is not known; `evopolicy regrade` measures them."
        )
    return _noted(sheet, notes)


def _selection_values(material: Material) -> _Values:
    """A row a valid Run; of one that published nothing only what was selected, the initial Program, is known."""
    frames = material.table()
    gaps, runs = material.valid(score_gaps(frames)), material.valid(frames.runs)
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


def _means(material: Material, name: str, values: _Values, published: _Published | None = None) -> Sheet:
    """A sheet of means: over the Runs of a cell, then over the Benchmarks, which weigh the same."""
    config = material.config
    spans: list[Interval] = []
    found: dict[tuple[_Row, str, str], tuple[float | None, Interval | None, str]] = {}
    for column in config.columns:
        for group in material.groups():
            for row in _rows(material):
                if published is not None and material.is_published(row[0]):
                    found[row, group, column] = published(material, row[0], group, column), None, ""
                    continue
                chosen = [one for one in values if _is_in(material, one, row, group)]
                found[row, group, column] = _mean(material, chosen, column)
                spans += [span] if (span := found[row, group, column][1]) else []

    def cell(row: _Row, group: str, column: str) -> SheetCell:
        value, span, tail = found[row, group, column]
        points = [v for (_, _, c), (v, _, _) in found.items() if c == column]
        widths = [s.high - s.low for (_, _, c), (_, s, _) in found.items() if c == column and s and s.over]
        decimals = 0 if column == "runs" else config.digits
        decimals = fitting(points, max(widths, default=0.0) / 2) if decimals is None else decimals
        shown = replace(number(value, decimals, span, tail), partial=bool(tail))
        guessed = column == "cost_usd" and any(
            one.get("cost_is_estimate") and one[column] is not None
            for one in values
            if _is_in(material, one, row, group)
        )
        return replace(shown, text=f"{ESTIMATE_MARK}{shown.text}") if guessed else shown

    sheet = _sheet(material, name, cell)
    partial = any(tail for _, _, tail in found.values())
    marks = ["(known/Runs) marks a mean over fewer Runs than the row has."] if partial else []
    return _noted(sheet, [*sheet.notes, *marks, *interval_notes(spans, config.level)])


def _mean(material: Material, values: _Values, column: str) -> tuple[float | None, Interval | None, str]:
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
    span = aggregate_mean_interval(tables, over="runs", level=material.config.level)
    if span.over is None:
        span = replace(span, note=_TOO_FEW)
    return span.estimate, span if material.config.over else None, tail


# --- the sheet ---------------------------------------------------------------------------------------------------


def _rows(material: Material) -> list[_Row]:
    if material.config.rows == "entries":
        return [(entry, None) for entry in material.entries]
    there = {(score.entry, score.benchmark) for score in material.own}
    return [(entry, b) for b in material.benchmarks for entry in material.entries if (entry, b) in there]


def _is_in(material: Material, one: Mapping[str, Any], row: _Row, group: str) -> bool:
    entry, benchmark = row
    return one["entry"] == entry and benchmark in (None, one["benchmark"]) and material.group(one["benchmark"]) == group


def _sheet(material: Material, name: str, cell: Callable[[_Row, str, str], SheetCell]) -> Sheet:
    """A row an entry or a cell, and every column once a group."""
    config = material.config
    heads = [Head("entry", "entry", text=True)]
    if config.rows == "cells":
        heads.insert(0, Head("benchmark", "Benchmark", text=True))
    places = [(group, column) for group in material.groups() for column in config.columns]
    stub = len(heads)
    heads += [
        Head(f"{column} {group}".strip(), _TITLES.get(column, column), group=_group_title(material, group))
        for group, column in places
    ]
    heads.append(Head("source", "source", text=True, drawn=False))
    rows = []
    for entry, benchmark in _rows(material):
        first = [material.named(entry)]
        if benchmark is not None:
            first.insert(0, SheetCell(benchmark, material.titles[benchmark]))
        cells = [cell((entry, benchmark), group, column) for group, column in places]
        rows.append((*first, *cells, material.origin(entry)))
    return Sheet(name, config.title, tuple(heads), tuple(rows), stub, material.notes)


def _group_title(material: Material, group: str) -> str:
    return f"{group} tasks" if material.config.by == "demand" and group in DEMANDS else group


def _integer(value: int) -> SheetCell:
    return SheetCell(value, str(value))


def _noted(sheet: Sheet, notes: Sequence[str]) -> Sheet:
    return Sheet(sheet.name, sheet.title, sheet.heads, sheet.rows, sheet.stub, tuple(dict.fromkeys(notes)))
