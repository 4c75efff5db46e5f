"""Intervals of what has no formula, by a bootstrap over crossed Runs and Episodes: medians, IQMs, ranks, profiles.

A plain bootstrap is too narrow with few Runs: resampled Runs vary by (n - 1) / n of what Runs do, normal quantiles
stand where Student's belong, and Episodes resampled within each Run are taken to be independent although all Runs
share them.

Here, by cell (one entry on one Benchmark), a replicate of the Run scores is

    mean + sqrt(n / (n - 1)) (resampled deviations of the Runs) + error of the mean, f times

- Runs are resampled within the cell; one draw of Episodes serves all entries of a Benchmark (Owen 2007); Benchmarks are
  strata.
- The error of the mean is that of the resampled Runs and of the resampled Episodes, each scaled to its variance
  component, since the rest (Run x Episode) would otherwise be counted twice.
- f = t / z: Student's quantile over the normal one, at the degrees of freedom of the statistic itself. They are
  Satterthwaite's, from a first pass with f = 1 that finds each source's share in the statistic's variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evopolicy.analysis.components import Cell, Error, Over, read_cell, sources, spread, student_quantile
from evopolicy.analysis.intervals import (
    Interval,
    aggregate_mean_interval,
    allowed_over,
    check_same,
    make_interval,
)
from evopolicy.analysis.rank import Missing, rank_entries, rank_scores
from evopolicy.analysis.statistics import (
    Floats,
    Statistic,
    aggregate,
    anchored,
    normal_quantile,
    performance_profile,
    probability_of_improvement,
)
from evopolicy.kernel.errors import RecordError

REPLICATES = 2000
_METHOD = "crossed bootstrap"
_DIGITS = 10
"""Relative to the largest mean of a Benchmark: replicates closer than that tie when they are ranked."""

Key: TypeAlias = tuple[int, str]
"""Entry, Benchmark."""


@dataclass(frozen=True, eq=False)
class _Draw:
    """Replicates of one cell: Run scores are centre + f x (runs + episodes)."""

    centre: Floats
    """(R or 1, n)"""
    runs: Floats
    """(R, 1): error of the mean by Runs."""
    episodes: Floats
    """(R, 1), or (R, n) where the Runs are fixed: error by Episodes."""
    run_df: float
    episode_df: float
    rest_df: float = 0.0
    twice: float = 1.0
    """Variance of the Runs' error over what is left of it without the rest, which the Episodes hold too."""

    def scores(self, factor: float) -> Floats:
        """(R, n)"""
        return self.centre + factor * (self.runs + self.episodes)


Draws: TypeAlias = Mapping[Key, _Draw]
Scores: TypeAlias = Mapping[Key, Floats]
_Function: TypeAlias = Callable[[Scores], Floats]


def aggregate_interval(
    tables: Mapping[str, ArrayLike],
    statistic: Statistic = "mean",
    *,
    rng: np.random.Generator,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    anchors: Mapping[str, tuple[float, float]] | None = None,
    clip: bool = False,
    replicates: int = REPLICATES,
) -> Interval:
    """Interval of `statistics.aggregate` of an entry, from its scores (Runs, Episodes) by Benchmark.

    `anchors` (zero, one) normalize each Benchmark and count as known; `clip` clips to [0, 1] what the statistic is
    over. A mean that is not clipped has a formula, which is used. What it targets: the same statistic of endlessly many
    Runs, for `iqm` and a single Benchmark's `median` of Run scores measured on as many Episodes as here.
    """
    if statistic == "mean" and not clip:
        return aggregate_mean_interval(tables, over=over, level=level, anchors=anchors)
    scaled = anchored(tables, anchors)
    cells = {(0, name): read_cell(table) for name, table in scaled.items()}

    def number(scores: Scores) -> Floats:
        return aggregate([scores[0, name] for name in scaled], statistic, clip=clip)

    used, note, draws = _prepare(cells, over, rng, replicates)
    return _interval(number, _found(cells), draws, used, level, note)


def improvement_interval(
    first: Mapping[str, ArrayLike],
    second: Mapping[str, ArrayLike],
    *,
    rng: np.random.Generator,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    replicates: int = REPLICATES,
) -> Interval:
    """Interval of the mean over Benchmarks of `probability_of_improvement` of first over second.

    Both give scores (Runs, Episodes) by Benchmark, with matching columns.
    """
    check_same(first, second)
    cells = {(i, name): read_cell(tables[name]) for i, tables in enumerate((first, second)) for name in first}

    def number(scores: Scores) -> Floats:
        chances = [probability_of_improvement(scores[0, name], scores[1, name]) for name in first]
        return np.asarray(np.mean(chances, axis=0))

    used, note, draws = _prepare(cells, over, rng, replicates)
    return _interval(number, _found(cells), draws, used, level, note)


@dataclass(frozen=True, eq=False)
class ProfileBand:
    """A performance profile with pointwise intervals."""

    thresholds: Floats
    fractions: Floats
    low: Floats
    high: Floats
    level: float
    over: Over | None
    note: str


def profile_band(
    tables: Mapping[str, ArrayLike],
    thresholds: ArrayLike,
    *,
    rng: np.random.Generator,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    anchors: Mapping[str, tuple[float, float]] | None = None,
    replicates: int = REPLICATES,
) -> ProfileBand:
    """`performance_profile` (T,) of an entry at T thresholds, from its scores (Runs, Episodes) by Benchmark.

    The intervals hold at each threshold by itself, not for the whole curve at once.
    """
    scaled = anchored(tables, anchors)
    cells = {(0, name): read_cell(table) for name, table in scaled.items()}
    levels = np.asarray(thresholds, dtype=float)

    def curve(scores: Scores) -> Floats:
        return performance_profile([scores[0, name] for name in scaled], levels)

    used, note, draws = _prepare(cells, over, rng, replicates)
    fractions = curve(_found(cells))[0]
    if used is None:
        nothing = np.full(levels.shape, np.nan)
        return ProfileBand(levels, fractions, nothing, nothing, level, None, note)
    factor, _ = _widening(curve(_scores(draws, 1.0)).mean(axis=-1), draws, level)
    low, high = _bounds(curve(_scores(draws, factor)), fractions, level)
    return ProfileBand(levels, fractions, low, high, level, used, note)


def rank_score_intervals(
    tables: Mapping[str, Mapping[str, ArrayLike]],
    *,
    rng: np.random.Generator,
    missing: Missing = "refuse",
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    replicates: int = REPLICATES,
) -> dict[str, Interval]:
    """Interval of each entry's mean rank score, all entries ranked anew in each replicate.

    `tables[entry][benchmark]` holds scores (Runs, Episodes); entries of one Benchmark share the columns. `missing` is
    the policy of `rank.rank_entries` for cells that are not there. Entries whose true means tie have true scores that
    no measurement with noise shows, and intervals lie off them.

    Raises RecordError where no Benchmark can be ranked, and under missing='refuse' where a cell is not there.
    """
    names = list(dict.fromkeys(name for of in tables.values() for name in of))
    cells = {(i, name): read_cell(of[name]) for i, of in enumerate(tables.values()) for name in names if name in of}
    means = np.array([[cells[i, b].mean if (i, b) in cells else np.nan for b in names] for i in range(len(tables))])
    ranking = rank_entries(_tied(means.reshape(len(tables), len(names)).T).T, missing)
    ranked = [name for name, counts in zip(names, ranking.included, strict=True) if counts]
    if not ranked:
        raise RecordError("rank: no Benchmark on which the entries can be ranked")
    kept = {key: cell for key, cell in cells.items() if key[1] in ranked}
    used, note, draws = _prepare(kept, over, rng, replicates)

    def ranks(scores: Scores) -> Floats:
        return _mean_ranks(scores, len(tables), ranked)

    first = ranks(_scores(draws, 1.0)) if used else None
    found: dict[str, Interval] = {}
    for i, entry in enumerate(tables):
        point = float(ranking.rank_score[i])
        if used is None or first is None:
            found[entry] = make_interval(point, (math.nan, math.nan), Error(0.0, math.inf), None, "", level, note)
            continue
        factor, df = _widening(first[:, i], draws, level)
        low, high = _rank_bounds(ranks(_scores(draws, factor))[:, i], point, level)
        error = Error(float(first[:, i].var()), df)
        found[entry] = make_interval(point, (low, high), error, used, _METHOD, level, note)
    return found


def _mean_ranks(scores: Scores, entries: int, benchmarks: Sequence[str]) -> Floats:
    """Mean rank scores (R, entries) of Run scores (R, n) by cell; a cell that is not there ranks below every other."""
    total: Floats | None = None
    for name in benchmarks:
        size = len(next(scores[i, name] for i in range(entries) if (i, name) in scores))
        gone = np.full(size, -np.inf)
        means = np.stack([scores[i, name].mean(axis=1) if (i, name) in scores else gone for i in range(entries)])
        of = rank_scores(_tied(means[np.newaxis])[0]).T
        total = of if total is None else total + of
    assert total is not None
    return total / len(benchmarks)


def _tied(means: Floats) -> Floats:
    """Means (Benchmarks, ...) without the last digits, in which Runs of another number may differ."""
    size = np.abs(np.where(np.isfinite(means), means, 0.0)).max(axis=tuple(range(1, means.ndim)), keepdims=True)
    return np.asarray(np.round(means / np.where(size > 0, size, 1.0), _DIGITS))


# --- replicates ---------------------------------------------------------------------------------------------------


def _prepare(
    cells: Mapping[Key, Cell], over: Over, rng: np.random.Generator, replicates: int
) -> tuple[Over | None, str, Draws]:
    if not cells:
        raise RecordError("intervals: no Benchmark with scores")
    used, note = allowed_over(list(cells.values()), over)
    return used, note, {} if used is None else _draws(cells, used, rng, replicates)


def _draws(cells: Mapping[Key, Cell], over: Over, rng: np.random.Generator, replicates: int) -> Draws:
    """Replicates of every cell; one draw of Episodes for all entries of a Benchmark."""
    counts: dict[str, Floats] = {}
    draws: dict[Key, _Draw] = {}
    for (entry, name), cell in cells.items():
        if name not in counts and over != "runs":
            sources([one for (_, benchmark), one in cells.items() if benchmark == name], _ones(cells, name))
            counts[name] = _episode_counts(cells, name, rng, replicates)
        if over == "episodes":
            draws[entry, name] = _of_fixed_runs(cell, counts[name])
        else:
            draws[entry, name] = _of_new_runs(cell, counts.get(name), rng, replicates)
    return draws


def _ones(cells: Mapping[Key, Cell], name: str) -> list[float]:
    return [1.0 for _, benchmark in cells if benchmark == name]


def _episode_counts(cells: Mapping[Key, Cell], name: str, rng: np.random.Generator, replicates: int) -> Floats:
    """How often (R, Episodes) each Episode was drawn; one that no entry has a score of never is."""
    there = np.any([(~np.isnan(cell.table)).any(axis=0) for (_, b), cell in cells.items() if b == name], axis=0)
    m = int(there.sum())
    drawn = rng.integers(m, size=(replicates, m)) + m * np.arange(replicates)[:, np.newaxis]
    counts = np.zeros((replicates, there.size))
    counts[:, there] = np.bincount(drawn.ravel(), minlength=replicates * m).reshape(replicates, m)
    return counts


def _of_fixed_runs(cell: Cell, counts: Floats) -> _Draw:
    """Each Run's mean over the Episodes drawn; a Run with none of them keeps its own."""
    there = ~np.isnan(cell.table)
    left = np.where(there, cell.table - cell.runs[:, np.newaxis], 0.0)
    drawn = counts @ there.T
    errors = (counts @ left.T) / np.where(drawn > 0, drawn, 1.0) * math.sqrt(cell.m / (cell.m - 1))
    errors[:, ~left.any(axis=1)] = 0.0
    return _Draw(cell.runs[np.newaxis], np.zeros((len(counts), 1)), errors, cell.n - 1.0, cell.m - 1.0)


def _of_new_runs(cell: Cell, counts: Floats | None, rng: np.random.Generator, replicates: int) -> _Draw:
    n = cell.n
    deviations = (cell.run_parts * n) * math.sqrt(n / (n - 1))
    drawn = deviations[rng.integers(n, size=(replicates, n))]
    shift = drawn.mean(axis=1, keepdims=True)
    by_runs, errors, size = spread(cell.run_parts, n), np.zeros((replicates, 1)), 1.0
    if counts is not None:
        m = cell.m
        errors = ((counts - 1.0) @ cell.episode_parts)[:, np.newaxis] * math.sqrt(m / (m - 1))
        own = sources([cell]).error("runs_and_episodes").variance
        rest = max(own - spread(cell.episode_parts, m), 0.0)
        size = math.sqrt(rest / by_runs) if by_runs else 0.0
    twice = 1 / size**2 if size else 1.0
    return _Draw(cell.mean + drawn - shift, shift * size, errors, n - 1.0, cell.m - 1.0, cell.rest_df, twice)


def _scores(draws: Draws, factor: float) -> Scores:
    return {key: draw.scores(factor) for key, draw in draws.items()}


def _found(cells: Mapping[Key, Cell]) -> Scores:
    """The Run scores as they are, as one replicate."""
    return {key: cell.runs[np.newaxis] for key, cell in cells.items()}


# --- from replicates to intervals ---------------------------------------------------------------------------------


def _interval(number: _Function, found: Scores, draws: Draws, over: Over | None, level: float, note: str) -> Interval:
    point = float(number(found)[0])
    if over is None:
        return make_interval(point, (math.nan, math.nan), Error(0.0, math.inf), None, "", level, note)
    first = number(_scores(draws, 1.0))
    factor, df = _widening(first, draws, level)
    low, high = _bounds(number(_scores(draws, factor)), point, level)
    error = Error(float(first.var()), df)
    return make_interval(point, (float(low), float(high)), error, over, _METHOD, level, note)


def _bounds(replicates: Floats, point: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Percentiles along the first axis; the estimate itself always lies between them."""
    low, high = np.quantile(replicates, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return np.minimum(low, point), np.maximum(high, point)


def _rank_bounds(replicates: Floats, point: float, level: float) -> tuple[float, float]:
    """Percentiles, and the same mirrored at the estimate, within [0, 1].

    Noise moves scores near 0 and 1 only inwards, once in the estimate and once more in its replicates; mirrored, the
    second move undoes the first.
    """
    low, high = _bounds(replicates, point, level)
    return max(0.0, min(float(low), 2 * point - float(high))), min(1.0, max(float(high), 2 * point - float(low)))


def _widening(replicates: Floats, draws: Draws, level: float) -> tuple[float, float]:
    """t / z and the degrees of freedom of replicates (R,) of a statistic.

    The statistic is fitted by a line in the errors of all means; each source's share in the variance of that line
    weighs its degrees of freedom. Where it never moved, the fewest count.
    """
    columns: list[Floats] = []
    groups: dict[tuple[object, ...], tuple[list[int], _Draw]] = {}
    for (entry, name), draw in draws.items():
        own: tuple[tuple[object, ...], Floats] = ((entry, name), draw.runs)
        for group, error in (own, ((name,), draw.episodes.mean(axis=1, keepdims=True))):
            if error.any():
                groups.setdefault(group, ([], draw))[0].append(len(columns))
                columns.append(error[:, 0] - error.mean())
    if not columns:
        return 1.0, math.inf
    design = np.stack(columns, axis=1)
    design /= design.std(axis=0)
    slopes = np.linalg.lstsq(design.T @ design, design.T @ (replicates - replicates.mean()), rcond=None)[0]
    total, squares, fewest = 0.0, 0.0, math.inf
    for kind, (which, draw) in groups.items():
        part = float((design[:, which] @ slopes[which]).var())
        total += part
        if len(kind) == 1:
            squares += part**2 / draw.episode_df
        else:
            squares += (part * draw.twice) ** 2 / draw.run_df
            squares += (part * (draw.twice - 1)) ** 2 / draw.rest_df if draw.twice > 1 and draw.rest_df else 0.0
        fewest = min(fewest, draw.episode_df if len(kind) == 1 else draw.run_df)
    df = total**2 / squares if squares > 0 else fewest
    return student_quantile(level, df) / normal_quantile(level), df
