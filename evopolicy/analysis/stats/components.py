"""Where the error of a mean comes from: Runs, Episodes, and what is left of each Run on each
Episode.

Two-way random effects: score[r, k] = mean + run[r] + episode[k] + rest[r, k]. The Runs of a
Benchmark meet the same held-out Episodes, so the two are crossed, across entries too. With n Runs
and m Episodes

    Var(mean) = run^2 / n + episode^2 / m + rest^2 / (n m) = (MS_run + MS_episode - MS_rest) / (n m)

in the mean squares of the analysis of variance. Degrees of freedom by Satterthwaite 1946. Where
scores are missing the same sums are taken over the parts each Run and Episode has in the mean
(Cameron, Gelbach and Miller 2011); with none missing that is the line above to the last digit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from evopolicy.analysis.stats.statistics import Floats, as_table, run_scores
from evopolicy.analysis.stats.ties import ROUNDING
from evopolicy.kernel.errors import ConfigError, RecordError, did_you_mean

Over = Literal["runs_and_episodes", "runs", "episodes"]
OVER: tuple[Over, ...] = get_args(Over)


@dataclass(frozen=True, eq=False)
class Cell:
    """The scores of one entry on one Benchmark, and what each Run and each Episode adds to the
    error of their mean."""

    table: Floats
    """(Runs, Episodes), NaN where there is no score; Runs without any are left out, Episodes keep
    their place."""
    runs: Floats
    """(Runs,): scores of the Runs."""
    mean: float
    """Of the Runs' scores."""
    run_parts: Floats
    """(Runs,), sum 0: (score - mean) / n."""
    episode_parts: Floats
    """(Episodes,), sum 0: without missing scores (mean of the Episode - mean) / m."""
    rest: float
    """Variance of the mean from what is left: rest^2 / (n m)."""
    rest_df: float

    @property
    def n(self) -> int:
        """Runs."""
        return len(self.runs)

    @property
    def size(self) -> float:
        """Of the largest of the Runs' scores, as `ties` asks."""
        return float(np.abs(self.runs).max())

    @property
    def m(self) -> int:
        """Episodes with a score."""
        return int((~np.isnan(self.table)).any(axis=0).sum())


def read_cell(table: ArrayLike) -> Cell:
    """`table` (Runs, Episodes) taken apart. Raises RecordError where it holds no score."""
    values = as_table(table)
    values = values[~np.isnan(values).all(axis=1)]
    if not values.size:
        raise RecordError("statistics: a table without any score; leave the cell out or run it")
    there = ~np.isnan(values)
    n = len(values)
    scores = run_scores(values)
    mean = math.fsum(scores) / n
    weights = there / there.sum(axis=1, keepdims=True) / n
    floor = ROUNDING * float(np.abs(values[there]).max())
    within = quiet(np.where(there, values - scores[:, np.newaxis], 0.0), floor)
    rest, rest_df = _rest(values, weights, floor)
    parts = quiet(scores - mean, floor) / n
    return Cell(values, scores, mean, parts, (weights * within).sum(axis=0), rest, rest_df)


def quiet(values: Floats, floor: float) -> Floats:
    """`values` with 0 for those no larger than `floor`, which are rounding."""
    return np.where(np.abs(values) <= floor, 0.0, values)


def _rest(values: Floats, weights: Floats, floor: float) -> tuple[float, float]:
    """Variance of the mean from the rest, and its degrees of freedom; 0 and 0 where nothing is left
    to estimate it."""
    there = ~np.isnan(values)
    count = int(there.sum())
    if there.all():
        fitted = (
            values.mean(axis=1, keepdims=True) + values.mean(axis=0, keepdims=True) - values.mean()
        )
        df = (values.shape[0] - 1) * (values.shape[1] - 1)
    else:
        rows, columns = np.nonzero(there)
        design = np.concatenate(
            [np.eye(values.shape[0])[rows], np.eye(values.shape[1])[columns]], axis=1
        )
        solution, _, rank, _ = np.linalg.lstsq(design, values[there], rcond=None)
        fitted = np.full(values.shape, np.nan)
        fitted[there] = design @ solution
        df = count - int(rank)
    if df < 1:
        return 0.0, 0.0
    left = quiet(np.where(there, values - fitted, 0.0), floor)
    return float(((weights * left) ** 2).sum()) * count / df, float(df)


@dataclass(frozen=True)
class Error:
    """The variance of an estimate with its degrees of freedom (infinite where the variance is
    0)."""

    variance: float
    df: float

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.variance)

    def half_width(self, level: float) -> float:
        """Half of Student's interval."""
        return student_quantile(level, self.df) * self.standard_error if self.variance else 0.0


@dataclass(frozen=True)
class Sources:
    """Variances of an estimate by source, each with its degrees of freedom. Add those of
    independent estimates."""

    runs: tuple[tuple[float, float], ...] = ()
    episodes: tuple[tuple[float, float], ...] = ()
    rest: tuple[tuple[float, float], ...] = ()

    def __add__(self, other: Sources) -> Sources:
        return Sources(
            self.runs + other.runs, self.episodes + other.episodes, self.rest + other.rest
        )

    def error(self, over: Over) -> Error:
        """What the estimate would vary by with new Runs, new Episodes, or both.

        Runs and Episodes hold the rest once each, so it is taken off; the sum is never below either
        of the two."""
        if over != "runs_and_episodes":
            return _satterthwaite(self.runs if over == "runs" else self.episodes)
        both = sum(v for v, _ in self.runs + self.episodes) - sum(v for v, _ in self.rest)
        runs, episodes = _satterthwaite(self.runs), _satterthwaite(self.episodes)
        if both >= max(runs.variance, episodes.variance):
            return _satterthwaite(self.runs + self.episodes + self.rest, both)
        return max(runs, episodes, key=lambda each: each.variance)


def sources(cells: Sequence[Cell], coefficients: Sequence[float] = (1.0,)) -> Sources:
    """Where the error of sum_e coefficient[e] x mean[e] comes from, for entries on one Benchmark
    that share Episodes.

    Raises RecordError where the cells have not the same number of Episodes: then which belong
    together is not known."""
    widths = {cell.table.shape[1] for cell in cells}
    if len(widths) > 1:
        found = " and ".join(map(str, sorted(widths)))
        raise RecordError(
            f"statistics: entries of one Benchmark must share their Episodes, found {found} "
            "columns; give every table a column for each index, NaN where there is no score"
        )
    parts: Floats = np.sum(
        [c * cell.episode_parts for c, cell in zip(coefficients, cells, strict=True)], axis=0
    )
    seen = int(np.any([(~np.isnan(cell.table)).any(axis=0) for cell in cells], axis=0).sum())
    pairs = list(zip(coefficients, cells, strict=True))
    return Sources(
        tuple((c * c * spread(cell.run_parts, cell.n), cell.n - 1.0) for c, cell in pairs),
        ((spread(parts, seen), seen - 1.0),),
        tuple((c * c * cell.rest, cell.rest_df) for c, cell in pairs),
    )


def spread(parts: Floats, count: int) -> float:
    """Variance of a sum of `count` independent parts whose own sum is 0."""
    return float((parts**2).sum()) * count / (count - 1) if count > 1 else 0.0


def _satterthwaite(terms: Iterable[tuple[float, float]], variance: float | None = None) -> Error:
    found = [(v, df) for v, df in terms if v > 0]
    total = sum(v for v, _ in found) if variance is None else variance
    if total <= 0:
        return Error(0.0, math.inf)
    return Error(total, total**2 / sum(v * v / df for v, df in found))


def student_quantile(level: float, df: float) -> float:
    """t such that Student's t with `df` degrees of freedom lies within -t and t with probability
    `level`.

    Raises ConfigError unless 0 < level < 1.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level: a number between 0 and 1 is needed (0.95), found {level}")
    return float(stdtrit(min(df, 1e9), 0.5 + level / 2))


def two_sided(ratio: float, df: float) -> float:
    """Probability that Student's t with `df` degrees of freedom is as far from 0 as `ratio`."""
    return float(2 * stdtr(min(df, 1e9), -abs(ratio)))


def check_over(over: str) -> None:
    """Raise ConfigError unless `over` is one of OVER."""
    if over not in OVER:
        raise ConfigError(
            f"over: '{over}' is nothing an interval can be over.{did_you_mean(over, OVER)}"
        )
