"""How a Run went: best-so-far curves, their area and reach, and what its Episodes were spent on.

Frames in, frames out; a higher score is a better one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import pandas as pd

from evopolicy.analysis.records.columns import WHOSE, by_run, rows_of, typed_frame, whose
from evopolicy.analysis.records.frames import Column, Frames
from evopolicy.analysis.records.validity import split_means
from evopolicy.analysis.stats.ties import is_above
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.pool import parse_selector

Axis = Literal["units", "submissions", "seconds", "tokens", "cost_usd"]
AXES: tuple[Axis, ...] = get_args(Axis)
Value = Literal["validation", "score"]
References = Mapping[str, tuple[float, float]]
"""By Benchmark: the score that counts as 0 (a floor, such as uniform random's) and the one that counts as 1."""

CURVE_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("submission", "int64", ""),
    Column("program", "string", "digest"),
    Column("submissions", "int64", "axis: Submissions up to and with this one"),
    Column("units", "int64", "axis: Episode units spent up to and with this one"),
    Column("units_budget", "int64", "Episode units the Run may spend"),
    Column("seconds", "float64", "axis: wall time from the Run's beginning to this one's Feedback; NaN where unknown"),
    Column("tokens", "float64", "axis: all tokens up to this one; NaN where nobody counted them by Submission"),
    Column("cost_usd", "float64", "axis: likewise, US dollars"),
    Column("score", "float64", "on training Episodes, as the agent saw it"),
    Column("best_score", "float64", "the best of these so far; NaN before the first"),
    Column("validation", "float64", "mean on Validation, known after the Run; NaN where it was not measured in full"),
    Column("best_validation", "float64", "the best of those that are known so far; NaN before the first"),
)

SPENDING_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("submission", "int64", ""),
    Column("program", "string", "digest"),
    Column("units", "int64", "Episode units it cost; the sum of the next four"),
    Column("exploring", "int64", "a Program not tried before, on indices never used before in the Run"),
    Column("comparing", "int64", "a Program not tried before, on indices an earlier Program was tried on"),
    Column("confirming", "int64", "a Program that was tried before"),
    Column("lost", "int64", "of a Submission that failed: it told nothing"),
    Column("repeated", "int64", "of confirming: the same Program on the same index, whose outcome was known"),
)

AREA_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("axis", "string", "units, submissions, seconds, tokens or cost_usd"),
    Column("value", "string", "validation or score"),
    Column("horizon", "float64", "length of the axis the area is over"),
    Column("low", "float64", "score that counts as 0"),
    Column("high", "float64", "score that counts as 1"),
    Column("final", "float64", "best at the horizon"),
    Column("area", "float64", "mean of the best so far over the horizon, `low` before the first result"),
    Column("normalized_area", "float64", "likewise of the best so far scaled from low to high and cut to [0, 1]"),
)

REACH_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("axis", "string", ""),
    Column("value", "string", ""),
    Column("fraction", "float64", "of the way from low to high"),
    Column("target", "float64", "the score that is"),
    Column("at", "float64", "where on the axis the best so far first reaches it; NaN where it never does"),
    Column("reached", "bool", ""),
)


# --- curves ------------------------------------------------------------------------------------------------------


def curve_points(frames: Frames, usage: pd.DataFrame | None = None) -> pd.DataFrame:
    """CURVE_COLUMNS: a row for every Submission that has ended.

    Args:
        usage: columns run, submission and any of tokens and cost_usd: what the Run had used up to each Submission;
            None for what the Host's proxy counted.
    """
    means = split_means(frames, "validation")
    runs = {row["run"]: row for row in rows_of(frames.runs)}
    used = {(row["run"], row["submission"]): row for row in rows_of(frames.submissions if usage is None else usage)}
    rows = []
    for run, submissions in by_run(frames.submissions).items():
        best_score = best_validation = -math.inf
        for count, one in enumerate(submissions, start=1):
            if one["status"] == "running":
                continue
            validation = means.get((run, one["program"])) if one["status"] == "published" else None
            best_score = max(best_score, _number(one["score"]))
            best_validation = max(best_validation, _number(validation))
            point = {
                "submission": one["submission"],
                "program": one["program"],
                "submissions": count,
                "units": one["units_used"],
                "units_budget": runs[run]["units_budget"],
                "seconds": _seconds(runs[run], one["time"]),
                "score": one["score"],
                "best_score": _finite(best_score),
                "validation": validation,
                "best_validation": _finite(best_validation),
            }
            spent = used.get((run, one["submission"]), {})
            rows.append({**whose(one), **point, "tokens": spent.get("tokens"), "cost_usd": spent.get("cost_usd")})
    return typed_frame(CURVE_COLUMNS, rows)


def _seconds(run: Mapping[str, Any], time: float) -> float | None:
    """Since the journal was opened; a regrade's record is younger than the Submissions in it, so it tells nothing."""
    began = run["created"] if run["opened"] is None else run["opened"]
    return time - began if began <= time else None


def own_references(curves: pd.DataFrame, value: Value = "validation") -> dict[str, tuple[float, float]]:
    """By Benchmark, the lowest first value of its Runs and the best of any: a scale that depends on who is compared."""
    found: dict[str, tuple[float, float]] = {}
    for points in by_run(curves).values():
        values = [point[value] for point in points if point[value] is not None]
        if values:
            low, high = found.get(points[0]["benchmark"], (math.inf, -math.inf))
            found[points[0]["benchmark"]] = min(low, values[0]), max(high, *values)
    return found


def curve_areas(
    curves: pd.DataFrame,
    axis: Axis = "units",
    value: Value = "validation",
    references: References | None = None,
    horizons: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """AREA_COLUMNS: a row a Run, the area under its best so far as a step function of the axis.

    Args:
        references: for Benchmarks that are not in it, and by default, `own_references`.
        horizons: length of the axis by Benchmark; by default a Run's budget for units, else the longest of its
            Benchmark's Runs.
    """
    scale = {**own_references(curves, value), **(references or {})}
    ends = {**_horizons(curves, axis), **(horizons or {})}
    rows = []
    for points in by_run(curves).values():
        benchmark = points[0]["benchmark"]
        low, high = scale.get(benchmark, (math.nan, math.nan))
        default = points[0]["units_budget"] if axis == "units" and benchmark not in (horizons or {}) else None
        horizon = float(default if default is not None else ends.get(benchmark, math.nan))
        steps = _steps(points, axis, value)
        area, normalized = _area(steps, horizon, low, high)
        final = max((best for at, best in steps if at <= horizon), default=math.nan)
        row = {"axis": axis, "value": value, "horizon": horizon, "low": low, "high": high, "final": final}
        rows.append({**whose(points[0]), **row, "area": area, "normalized_area": normalized})
    return typed_frame(AREA_COLUMNS, rows)


def curve_reach(
    curves: pd.DataFrame,
    axis: Axis = "units",
    value: Value = "validation",
    references: References | None = None,
    fractions: Sequence[float] = (0.5, 0.8, 0.95),
) -> pd.DataFrame:
    """REACH_COLUMNS: a row a Run and fraction, with the Episode units (or what else `axis` is) it took to get there."""
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise ConfigError(f"fractions: each lies above 0 and at most at 1, found {fraction}")
    scale = {**own_references(curves, value), **(references or {})}
    rows = []
    for points in by_run(curves).values():
        low, high = scale.get(points[0]["benchmark"], (math.nan, math.nan))
        steps = _steps(points, axis, value)
        for fraction in fractions:
            # high itself, not low + (high - low), which may round above it
            target = high if fraction == 1 else low + fraction * (high - low)
            at = next((at for at, best in steps if not is_above(target, best)), None)
            row = {"axis": axis, "value": value, "fraction": fraction, "target": target, "at": at}
            rows.append({**whose(points[0]), **row, "reached": at is not None})
    return typed_frame(REACH_COLUMNS, rows)


def _steps(points: Iterable[Mapping[str, Any]], axis: Axis, value: Value) -> list[tuple[float, float]]:
    """(place on the axis, best so far) wherever both are known."""
    best = f"best_{value}"
    return [(float(p[axis]), p[best]) for p in points if p[axis] is not None and p[best] is not None]


def _horizons(curves: pd.DataFrame, axis: Axis) -> dict[str, float]:
    found: dict[str, float] = {}
    for point in rows_of(curves):
        if point[axis] is not None:
            found[point["benchmark"]] = max(found.get(point["benchmark"], 0.0), float(point[axis]))
    return found


def _area(steps: list[tuple[float, float]], horizon: float, low: float, high: float) -> tuple[float, float]:
    """Means over [0, horizon] of the best so far, as it is and scaled; NaN where there is nothing to average."""
    if not steps or not horizon > 0 or math.isnan(low):
        return math.nan, math.nan
    area = scaled = 0.0
    at, best = 0.0, low
    for end, following in [*((min(x, horizon), y) for x, y in steps), (horizon, math.nan)]:
        share = max(end - at, 0.0) / horizon
        area += share * best
        scaled += share * (min(max((best - low) / (high - low), 0.0), 1.0) if is_above(high, low) else math.nan)
        at, best = max(at, end), following  # never back: no stretch is counted twice
    return area, scaled


def _number(value: float | None) -> float:
    return -math.inf if value is None else value


def _finite(value: float) -> float | None:
    return None if value == -math.inf else value


# --- spending ----------------------------------------------------------------------------------------------------


def spending(frames: Frames) -> pd.DataFrame:
    """SPENDING_COLUMNS: a row a Submission, each of its Episode units counted once.

    A Program that was tried before is confirmed, on whatever index; what a failed Submission used tried nothing.
    """
    rows = []
    for submissions in by_run(frames.submissions).values():
        tried: dict[str, set[int]] = {}
        for one in submissions:
            indices = set(parse_selector(one["selector"], 10**9)) if one["selector"] else set()
            units, before = one["episodes"], set().union(*tried.values())
            row = dict.fromkeys(("exploring", "comparing", "confirming", "lost", "repeated"), 0)
            if one["status"] == "failed":
                row["lost"] = units
            elif one["program"] in tried:
                row["confirming"] = units
                row["repeated"] = len(indices & tried[one["program"]])
            else:
                row["comparing"] = len(indices & before)
                row["exploring"] = units - row["comparing"]
            if one["status"] != "failed":
                tried.setdefault(one["program"], set()).update(indices)
            rows.append({**one, **row, "units": units})
    return typed_frame(SPENDING_COLUMNS, rows)
