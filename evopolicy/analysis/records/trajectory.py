"""How a Run went: best-so-far curves, their area and reach, and what its Episodes were spent on.

Frames in, frames out; a higher score is a better one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
import pandas as pd

from evopolicy.analysis.records.columns import WHOSE, typed
from evopolicy.analysis.records.frames import Column, Frames
from evopolicy.analysis.records.validity import split_means
from evopolicy.analysis.stats.ties import is_above
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.pool import parse_selector

Axis = Literal["units", "submissions", "seconds", "tokens", "cost_usd"]
AXES: tuple[Axis, ...] = get_args(Axis)
Value = Literal["validation", "score"]
References = Mapping[str, tuple[float, float]]
"""By Benchmark: the score that counts as 0 (a floor, such as uniform random's) and the one that
counts as 1."""

CURVE_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("submission", "int64", ""),
    Column("program", "string", "digest"),
    Column("submissions", "int64", "axis: Submissions up to and with this one"),
    Column("units", "int64", "axis: Episode units spent up to and with this one"),
    Column("units_budget", "int64", "Episode units the Run may spend"),
    Column(
        "seconds",
        "float64",
        "axis: wall time from the Run's beginning to this one's Feedback; NaN where unknown",
    ),
    Column(
        "tokens",
        "float64",
        "axis: all tokens up to this one; NaN where nobody counted them by Submission",
    ),
    Column("cost_usd", "float64", "axis: likewise, US dollars"),
    Column("score", "float64", "on training Episodes, as the agent saw it"),
    Column("best_score", "float64", "the best of these so far; NaN before the first"),
    Column(
        "validation",
        "float64",
        "mean on Validation, known after the Run; NaN where it was not measured in full",
    ),
    Column(
        "best_validation",
        "float64",
        "the best of those that are known so far; NaN before the first",
    ),
)

SPENDING_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("submission", "int64", ""),
    Column("program", "string", "digest"),
    Column("units", "int64", "Episode units it cost; the sum of the next four"),
    Column(
        "exploring", "int64", "a Program not tried before, on indices never used before in the Run"
    ),
    Column(
        "comparing",
        "int64",
        "a Program not tried before, on indices an earlier Program was tried on",
    ),
    Column("confirming", "int64", "a Program that was tried before"),
    Column("lost", "int64", "of a Submission that failed: it told nothing"),
    Column(
        "repeated",
        "int64",
        "of confirming: the same Program on the same index, whose outcome was known",
    ),
)

AREA_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("axis", "string", "units, submissions, seconds, tokens or cost_usd"),
    Column("value", "string", "validation or score"),
    Column("horizon", "float64", "length of the axis the area is over"),
    Column("low", "float64", "score that counts as 0"),
    Column("high", "float64", "score that counts as 1"),
    Column("final", "float64", "best at the horizon"),
    Column(
        "area", "float64", "mean of the best so far over the horizon, `low` before the first result"
    ),
    Column(
        "normalized_area",
        "float64",
        "likewise of the best so far scaled from low to high and cut to [0, 1]",
    ),
)

REACH_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("axis", "string", ""),
    Column("value", "string", ""),
    Column("fraction", "float64", "of the way from low to high"),
    Column("target", "float64", "the score that is"),
    Column(
        "at",
        "float64",
        "where on the axis the best so far first reaches it; NaN where it never does",
    ),
    Column("reached", "bool", ""),
)


# --- curves ---------------------------------------------------------------------------------------


def curve_points(frames: Frames, usage: pd.DataFrame | None = None) -> pd.DataFrame:
    """CURVE_COLUMNS: a row for every Submission that has ended.

    Args:
        usage: columns run, submission and any of tokens and cost_usd: what the Run had used up to
        each Submission;
            None for what the Host's proxy counted.
    """
    sent = frames.submissions.join(split_means(frames, "validation"), on=["run", "program"])
    if usage is not None:
        counted = usage[usage.columns.intersection(["run", "submission", "tokens", "cost_usd"])]
        sent = sent.drop(columns=["tokens", "cost_usd"]).merge(
            counted, on=["run", "submission"], how="left"
        )
    sent = sent.merge(
        frames.runs[["run", "units_budget", "created", "opened"]], on="run", how="left"
    )
    sent = sent.assign(submissions=sent.groupby("run").cumcount() + 1, units=sent["units_used"])
    sent = sent[sent["status"] != "running"]
    # Since the journal was opened; a regrade's record is younger than the Submissions in it, so it
    # tells nothing.
    seconds = sent["time"] - sent["opened"].fillna(sent["created"])
    sent = sent.assign(
        seconds=seconds.where(seconds >= 0),
        validation=sent["validation"].where(sent["status"] == "published"),
    )
    for value in ("score", "validation"):
        sent[f"best_{value}"] = sent.groupby("run")[value].cummax()
        sent[f"best_{value}"] = sent.groupby("run")[f"best_{value}"].ffill()
    return typed(CURVE_COLUMNS, sent)


def own_references(
    curves: pd.DataFrame, value: Value = "validation"
) -> dict[str, tuple[float, float]]:
    """By Benchmark, the lowest first value of its Runs and the best of any: a scale that depends on
    who is compared."""
    known = curves.dropna(subset=[value])
    lows = known.drop_duplicates("run").groupby("benchmark")[value].min()
    highs = known.groupby("benchmark")[value].max()
    return {str(name): (float(lows[name]), float(highs[name])) for name in lows.index}


def curve_areas(
    curves: pd.DataFrame,
    axis: Axis = "units",
    value: Value = "validation",
    references: References | None = None,
    horizons: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """AREA_COLUMNS: a row a Run, the area under its best so far as a step function of the axis.

    Args:
        references: for Benchmarks that are not in it, and by default, `own_references`. horizons:
        length of the axis by Benchmark; by default a Run's budget for units, else the longest of
        its
            Benchmark's Runs.
    """
    found = _runs(curves, axis, value, references)
    ends = curves.dropna(subset=[axis]).groupby("benchmark")[axis].max().to_dict() | dict(
        horizons or {}
    )
    horizon = found["benchmark"].map(ends).astype(float)
    if axis == "units":
        horizon = horizon.where(
            found["benchmark"].isin(list(horizons or ())), found["units_budget"]
        )
    steps = _steps(curves, axis, value)
    pairs = list(zip(found["run"], horizon, strict=True))
    areas = [
        _area(steps[run], end, low, high)
        for (run, end), low, high in zip(pairs, found["low"], found["high"], strict=True)
    ]
    found["area"], found["normalized_area"] = np.array(areas, dtype=float).reshape(-1, 2).T
    final = [
        max((best for at, best in steps[run] if at <= end), default=math.nan) for run, end in pairs
    ]
    return typed(AREA_COLUMNS, found.assign(horizon=horizon, final=final))


def curve_reach(
    curves: pd.DataFrame,
    axis: Axis = "units",
    value: Value = "validation",
    references: References | None = None,
    fractions: Sequence[float] = (0.5, 0.8, 0.95),
) -> pd.DataFrame:
    """REACH_COLUMNS: a row a Run and fraction, with the Episode units (or what else `axis` is) it
    took to get there."""
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise ConfigError(f"fractions: each lies above 0 and at most at 1, found {fraction}")
    runs = _runs(curves, axis, value, references)
    steps = _steps(curves, axis, value)
    parts = []
    for fraction in fractions:
        # high itself, not low + (high - low), which may round above it
        target = (
            runs["high"] if fraction == 1 else runs["low"] + fraction * (runs["high"] - runs["low"])
        )
        at = [
            next((at for at, best in steps[run] if not is_above(goal, best)), math.nan)
            for run, goal in zip(runs["run"], target, strict=True)
        ]
        parts.append(runs.assign(fraction=fraction, target=target, at=at, reached=~np.isnan(at)))
    found = pd.concat(parts).sort_index(kind="stable") if parts else runs
    return typed(REACH_COLUMNS, found)


def _runs(
    curves: pd.DataFrame, axis: Axis, value: Value, references: References | None
) -> pd.DataFrame:
    """A row a Run, with the scores that count as 0 and as 1 on its Benchmark."""
    scale = {**own_references(curves, value), **(references or {})}
    runs = curves.drop_duplicates("run")
    low, high = (
        runs["benchmark"].map({name: ends[place] for name, ends in scale.items()})
        for place in (0, 1)
    )
    return runs.assign(axis=axis, value=value, low=low.astype(float), high=high.astype(float))


def _steps(curves: pd.DataFrame, axis: Axis, value: Value) -> dict[str, list[tuple[float, float]]]:
    """By Run, (place on the axis, best so far) wherever both are known."""
    return {
        str(run): list(
            of[[axis, f"best_{value}"]].dropna().astype(float).itertuples(index=False, name=None)
        )
        for run, of in curves.groupby("run")
    }


def _area(
    steps: list[tuple[float, float]], horizon: float, low: float, high: float
) -> tuple[float, float]:
    """Means over [0, horizon] of the best so far, as it is and scaled; NaN where there is nothing
    to average."""
    if not steps or not horizon > 0 or math.isnan(low):
        return math.nan, math.nan
    area = scaled = 0.0
    at, best = 0.0, low
    for end, following in [*((min(x, horizon), y) for x, y in steps), (horizon, math.nan)]:
        share = max(end - at, 0.0) / horizon
        area += share * best
        scaled += share * (
            min(max((best - low) / (high - low), 0.0), 1.0) if is_above(high, low) else math.nan
        )
        at, best = max(at, end), following  # never back: no stretch is counted twice
    return area, scaled


# --- spending -------------------------------------------------------------------------------------


def spending(frames: Frames) -> pd.DataFrame:
    """SPENDING_COLUMNS: a row a Submission, each of its Episode units counted once.

    A Program that was tried before is confirmed, on whatever index; what a failed Submission used
    tried nothing."""
    tried: dict[tuple[str, str], set[int]] = {}
    used: dict[str, set[int]] = {}
    rows = []
    sent = frames.submissions
    for run, program, status, selector, units in zip(
        sent["run"],
        sent["program"],
        sent["status"],
        sent["selector"],
        sent["episodes"],
        strict=True,
    ):
        indices = set(parse_selector(selector, 10**9)) if selector else set()
        if status == "failed":
            rows.append((0, 0, 0, units, 0))
            continue
        if (run, program) in tried:
            rows.append((0, 0, units, 0, len(indices & tried[run, program])))
        else:
            comparing = len(indices & used.get(run, set()))
            rows.append((units - comparing, comparing, 0, 0, 0))
        tried.setdefault((run, program), set()).update(indices)
        used.setdefault(run, set()).update(indices)
    names = ["exploring", "comparing", "confirming", "lost", "repeated"]
    spent = pd.DataFrame(rows, columns=names, index=sent.index)
    return typed(SPENDING_COLUMNS, sent.assign(units=sent["episodes"]).join(spent))
