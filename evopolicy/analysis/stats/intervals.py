"""Intervals of means and of differences by Student's t, and what every interval of a table says of
itself.

What an interval is `over` says what it would vary with if all were done again:

- `runs_and_episodes` (default): new Runs of the agent, measured on new Episodes. What a claim about
  an agent on a Benchmark needs.
- `runs`: new Runs, measured on the same Episodes: what this pool says of the agent.
- `episodes`: the same Programs on new Episodes. All that one or two Runs can tell.

Below MIN_RUNS Runs in a cell only the last is given, whatever was asked for, and `kind` and `note`
say so. Where only some of the Benchmarks have such a cell there is none: what is left would be
narrower for having less data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evopolicy.analysis.stats.components import (
    Cell,
    Error,
    Over,
    Sources,
    check_over,
    read_cell,
    sources,
    two_sided,
)
from evopolicy.analysis.stats.statistics import (
    aggregate,
    anchored,
    as_table,
    holm,
    iqm,
    normal_quantile,
)
from evopolicy.analysis.stats.ties import is_above
from evopolicy.kernel.errors import RecordError

MIN_RUNS = 3
"""Runs a cell needs before anything is said of another Run: two leave one degree of freedom, and t
is 12.7."""
_WORDS: Mapping[str, str] = {
    "runs_and_episodes": "over Runs and Episodes",
    "runs": "over Runs, on these Episodes",
    "episodes": "over Episodes, of these Runs",
    "nothing": "none",
}
_FLAT = "No spread was found, so a width of 0 does not mean certainty."
FEW = 20
"""Runs in all below which the mean of Runs that either work or fail has an interval that is too
narrow."""
TWO_KINDS = (
    "Where Runs of an agent either work or fail, intervals of few Runs are too narrow: of 3 as of "
    "10 Runs as few as 73 in 100 hold the truth (docs/statistics.md)."
)
_NAMED = 6
"""Cells that are named where what is said of them holds for all."""


@dataclass(frozen=True)
class Interval:
    """An estimate between two bounds."""

    estimate: float
    low: float
    """NaN, as `high`, where neither Runs nor Episodes are enough for an interval."""
    high: float
    level: float
    over: Over | None
    """What it is over, which need not be what was asked for; None where there is no interval."""
    kind: str
    """`over` and the method, in words."""
    standard_error: float
    df: float
    """Degrees of freedom; infinite where nothing varied."""
    note: str = ""
    """What a reader has to know of it; '' where nothing."""


@dataclass(frozen=True)
class Difference:
    """First minus second."""

    interval: Interval
    p_value: float
    """Two-sided, of no difference, over what the interval is over; NaN where there is no
    interval."""


@dataclass(frozen=True)
class Comparison:
    """Two entries on one Benchmark, among others."""

    benchmark: str
    interval: Interval
    p_value: float
    p_holm: float
    """Adjusted for all Benchmarks compared at once (Holm)."""


@dataclass(frozen=True)
class Summary:
    """One cell of a table."""

    mean: float
    standard_error: float
    """NaN where neither Runs nor Episodes are enough."""
    error_over: Over | None
    """What the standard error is over."""
    median: float
    """Of the Runs' scores."""
    iqm: float
    """Of the Runs' scores."""
    runs: int
    episodes: int
    points: tuple[float, ...]
    """The Runs' scores: what to show where there are too few for an interval."""


def mean_interval(
    table: ArrayLike, *, over: Over = "runs_and_episodes", level: float = 0.95
) -> Interval:
    """Interval of the mean of one entry on one Benchmark, from its scores (Runs, Episodes); NaN is
    a missing score."""
    return aggregate_mean_interval({"": table}, over=over, level=level)


def aggregate_mean_interval(
    tables: Mapping[str, ArrayLike],
    *,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    anchors: Mapping[str, tuple[float, float]] | None = None,
) -> Interval:
    """Interval of the mean of an entry's means over Benchmarks, from its scores (Runs, Episodes) by
    Benchmark.

    The Benchmarks are fixed: it says nothing of others. `anchors` (zero, one) normalize each, and
    count as known.

    Raises RecordError without a Benchmark, ConfigError for an `over` or a level that is none and
    for anchors that are missing or make no scale."""
    cells = {name: read_cell(table) for name, table in anchored(tables, anchors).items()}
    if not cells:
        raise RecordError("intervals: no Benchmark to take the mean over")
    share = 1 / len(cells)
    estimate = float(aggregate([cell.runs for cell in cells.values()]))
    found = [sources([cell], [share]) for cell in cells.values()]
    return _interval(estimate, found, [[cell] for cell in cells.values()], over, level)


def difference_interval(
    first: ArrayLike, second: ArrayLike, *, over: Over = "runs_and_episodes", level: float = 0.95
) -> Difference:
    """First mean minus second, of two entries on one Benchmark, from scores (Runs, Episodes) with
    matching columns.

    Paired by Episode: what makes an Episode hard for both cancels. Runs are not paired, whatever
    their seeds are."""
    return aggregate_difference_interval({"": first}, {"": second}, over=over, level=level)


def paired_interval(
    first: ArrayLike, second: ArrayLike, *, over: Over = "runs_and_episodes", level: float = 0.95
) -> Difference:
    """First mean minus second of one entry's Runs read in two ways: row i of both is the same Run.

    The mean of the differences (Runs, Episodes), each Run counted once. Raises RecordError unless
    both have a shape."""
    ones, others = as_table(first), as_table(second)
    if ones.shape != others.shape:
        raise RecordError(
            f"intervals: paired Runs have tables of one shape, found {ones.shape} and "
            f"{others.shape}"
        )
    apart = is_above(ones, others) | is_above(others, ones) | np.isnan(ones - others)
    interval = mean_interval(np.where(apart, ones - others, 0.0), over=over, level=level)
    return Difference(interval, _p_value(interval))


def aggregate_difference_interval(
    first: Mapping[str, ArrayLike],
    second: Mapping[str, ArrayLike],
    *,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    anchors: Mapping[str, tuple[float, float]] | None = None,
) -> Difference:
    """`difference_interval` of the means over the Benchmarks of `first`, which must be those of
    `second`."""
    check_same(first, second)
    ones, others = anchored(first, anchors), anchored(second, anchors)
    pairs = [(read_cell(ones[name]), read_cell(others[name])) for name in ones]
    share = 1 / len(pairs)
    estimate = share * math.fsum(a.mean - b.mean for a, b in pairs)
    found = [sources(pair, [share, -share]) for pair in pairs]
    interval = _interval(estimate, found, pairs, over, level)
    return Difference(interval, _p_value(interval))


def compare(
    first: Mapping[str, ArrayLike],
    second: Mapping[str, ArrayLike],
    *,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
) -> tuple[Comparison, ...]:
    """`difference_interval` on each Benchmark, in the order of `first`, with p-values adjusted for
    their number.

    The intervals are not adjusted: each is of the level by itself.
    """
    check_same(first, second)
    found = {
        name: difference_interval(first[name], second[name], over=over, level=level)
        for name in first
    }
    adjusted = holm([each.p_value for each in found.values()])
    pairs = zip(found.items(), adjusted, strict=True)
    return tuple(
        Comparison(name, each.interval, each.p_value, float(p)) for (name, each), p in pairs
    )


def summarize(table: ArrayLike, *, over: Over = "runs_and_episodes") -> Summary:
    """Mean with its standard error, median and IQM of one entry on one Benchmark, from its scores
    (Runs, Episodes)."""
    cell = read_cell(table)
    interval = mean_interval(table, over=over)
    return Summary(
        cell.mean,
        interval.standard_error,
        interval.over,
        float(aggregate([cell.runs], "median")),
        float(iqm(cell.runs)),
        cell.n,
        cell.m,
        tuple(float(score) for score in cell.runs),
    )


_OVER_EPISODES = (
    "their points are Runs, and intervals of them are over Episodes only; they do "
    "not say what another Run would score"
)
MIXED = f"{_OVER_EPISODES}. A mean of such a cell and of others has no interval"
"""For `few_runs_foot` under means over cells."""


def few_runs_foot(runs: Mapping[str, int], meaning: str = _OVER_EPISODES) -> str:
    """The sentence for a table's foot where cells have fewer than MIN_RUNS Runs; '' where none has.

    `runs` counts the Runs of each cell by the cell's name, such as 'random on cartpole'. `meaning`
    is what follows for a reader: by default for a table with intervals of held-out scores. Each
    such cell is named, but where all are."""
    short = [f"{name}: {count}" for name, count in runs.items() if count < MIN_RUNS]
    if not short:
        return ""
    told = _NAMED if len(short) == len(runs) else len(short)
    more = f" and {len(short) - told} more" if len(short) > told else ""
    every = "the only cell" if len(runs) == 1 else f"all {len(runs)} cells"
    which = every if len(short) == len(runs) else f"{len(short)} of {len(runs)} cells"
    return f"Fewer than three Runs in {which} ({', '.join(short[:told])}{more}): {meaning}."


def interval_notes(spans: Sequence[Interval], level: float, mark: str = "[low, high]") -> list[str]:
    """What the intervals of a table or a figure are, each kind once, and what has to be known of
    them.

    `mark` is what they look like there; `sheet.mark_kinds` tells those of several kinds apart.
    """
    kinds = dict.fromkeys(span.kind for span in spans if span.over is not None)
    return [
        *(f"{mark}: {100 * level:g} % confidence interval {kind}." for kind in kinds),
        *told_once(span.note for span in spans),
    ]


def told_once(notes: Iterable[str]) -> list[str]:
    """`notes` of intervals, each once; that there was no spread is not said again with each of
    them."""
    given = list(notes)
    found = dict.fromkeys(note.removesuffix(_FLAT).strip() for note in given)
    flat = [_FLAT] if any(note.endswith(_FLAT) for note in given) else []
    return [*(note for note in found if note), *flat]


def check_same(first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike]) -> None:
    """Raise RecordError unless the two have tables for the same Benchmarks, and at least one."""
    if not first or set(first) != set(second):
        alone = ", ".join(sorted(set(first) ^ set(second))) or "no Benchmark"
        raise RecordError(
            f"intervals: two entries are compared on the Benchmarks both have; found {alone} on "
            "one side"
        )


def allowed_over(groups: Sequence[Sequence[Cell]], asked: Over) -> tuple[Over | None, str]:
    """What an interval can be over, and the note that says so where it is not what was asked for.

    `groups` are the cells it uses, by Benchmark. Fewer than MIN_RUNS Runs say nothing of another
    Run. With such a cell on every Benchmark the interval is over Episodes only; on some of them
    alone there is none, since without that Benchmark's Runs it would be narrower than with more
    data."""
    check_over(asked)
    few = [min(cell.n for cell in cells) < MIN_RUNS for cells in groups]
    single = [min(cell.m for cell in cells) < 2 for cells in groups]
    if asked != "episodes" and any(few) and not all(few):
        return (
            None,
            f"No interval: on some of its Benchmarks a cell has fewer than {MIN_RUNS} Runs.",
        )
    if any(few) and any(single):
        return None, f"No interval: a cell has fewer than {MIN_RUNS} Runs and a single Episode."
    if asked != "episodes" and any(few):
        return (
            "episodes",
            f"Over Episodes only, since a cell has fewer than {MIN_RUNS} Runs; not what another "
            "Run scores.",
        )
    if asked == "runs" or not any(single):
        return asked, ""
    if asked == "episodes" or all(single):
        return (
            "runs",
            "Over Runs only, since a cell has a single Episode; not what other Episodes give.",
        )
    return (
        asked,
        "Over Runs only on Benchmarks of a single Episode; not what other Episodes give there.",
    )


def two_kinds(groups: Sequence[Sequence[Cell]], over: Over | None) -> str:
    """What has to be known of an interval of scores over so few Runs, by Benchmark; '' where they
    are enough."""
    few = sum(min(cell.n for cell in cells) for cells in groups) < FEW
    return TWO_KINDS if few and over not in (None, "episodes") else ""


def make_interval(
    estimate: float,
    bounds: tuple[float, float],
    error: Error,
    over: Over | None,
    method: str,
    level: float,
    note: str,
) -> Interval:
    """An Interval that says what it is; without bounds where `over` is None."""
    normal_quantile(level)
    if over is None:
        return Interval(
            estimate, math.nan, math.nan, level, None, _WORDS["nothing"], math.nan, math.nan, note
        )
    if error.variance == 0:
        note = f"{note} {_FLAT}" if note else _FLAT
    kind = f"{_WORDS[over]}, {method}"
    return Interval(estimate, *bounds, level, over, kind, error.standard_error, error.df, note)


def _interval(
    estimate: float,
    found: Sequence[Sources],
    groups: Sequence[Sequence[Cell]],
    over: Over,
    level: float,
) -> Interval:
    used, note = allowed_over(groups, over)
    note = f"{note} {two_kinds(groups, used)}".strip()
    error = sum(found, Sources()).error(used or "episodes")
    half = error.half_width(level)
    return make_interval(
        estimate, (estimate - half, estimate + half), error, used, "Student's t", level, note
    )


def _p_value(interval: Interval) -> float:
    if interval.over is None:
        return math.nan
    if not interval.standard_error:
        return 1.0 if interval.estimate == 0 else math.nan
    return two_sided(interval.estimate / interval.standard_error, interval.df)
