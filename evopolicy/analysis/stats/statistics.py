"""Point estimates and tests: arrays in, numbers out. Nothing here draws random numbers.

A Run's score is its mean over the held-out Episodes; a *table* holds the scores (Runs, Episodes) of
one entry on one Benchmark, NaN where there is none. Sources: Agarwal et al. 2021 (arXiv 2108.13264)
for interquartile mean, probability of improvement and performance profiles; Wilson 1927; Holm 1979;
Newcombe 2006 (Statistics in Medicine 25)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from evopolicy.analysis.stats.ties import is_above
from evopolicy.kernel.errors import ConfigError, RecordError, did_you_mean

Floats: TypeAlias = NDArray[np.float64]
Statistic = Literal["mean", "median", "iqm", "iqm_benchmarks"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


def run_scores(table: ArrayLike) -> Floats:
    """Scores (Runs,) of a table (Runs, Episodes): means over the Episodes found; a Run without any
    is left out.

    The sums are exact before they are rounded.
    """
    values = as_table(table)
    rows = [row[~np.isnan(row)] for row in values]
    return np.array([math.fsum(row) / row.size for row in rows if row.size])


def as_table(table: ArrayLike) -> Floats:
    """`table` as floats (Runs, Episodes). Raises RecordError for another shape or an infinite
    score."""
    values = np.asarray(table, dtype=float)
    if values.ndim != 2:
        raise RecordError(
            f"statistics: scores of shape (Runs, Episodes) are needed, found shape {values.shape}"
        )
    if np.isinf(values).any():
        raise RecordError("statistics: a score is infinite; that is a fault, not a result")
    return values


def normalize(scores: ArrayLike, zero: float, one: float, *, clip: bool = False) -> Floats:
    """(scores - zero) / (one - zero), so that the two anchors come to lie at 0 and 1; clipped to
    [0, 1] where asked.

    Raises ConfigError where the anchors tie or are not finite: there is no scale between them.
    """
    if not (math.isfinite(zero) and math.isfinite(one)) or not (
        is_above(zero, one) or is_above(one, zero)
    ):
        raise ConfigError(
            f"anchors: two different finite scores are needed, found {zero} and {one}"
        )
    scaled: Floats = (np.asarray(scores, dtype=float) - zero) / (one - zero)
    return np.clip(scaled, 0.0, 1.0) if clip else scaled


def iqm(values: ArrayLike, weights: ArrayLike | None = None, *, whole: bool = False) -> Floats:
    """Interquartile mean along the last axis: the mean of the middle half.

    A quarter of the weight is cut from either end, and a value on the edge counts for the part of
    it that lies inside. `whole` cuts only whole values, floor(n / 4) from either end, as
    `scipy.stats.trim_mean` and rliable do; the two agree wherever n is a multiple of four.
    `weights` are positive, of the length of the last axis; default: all equal.

    Raises ConfigError for `weights` with `whole`.
    """
    found = np.asarray(values, dtype=float)
    if whole:
        if weights is not None:
            raise ConfigError(
                "iqm: whole values are cut only where all weigh the same; leave weights or whole "
                "out"
            )
        cut = found.shape[-1] // 4
        middle: Floats = np.sort(found, axis=-1)[..., cut : found.shape[-1] - cut].mean(axis=-1)
        return middle
    mass = np.ones(found.shape[-1]) if weights is None else np.asarray(weights, dtype=float)
    if (mass == mass[0]).all():
        alike: Floats = np.sort(found, axis=-1) @ iqm_weights(mass)
        return alike
    order = np.argsort(found, axis=-1, kind="stable")
    inside = iqm_weights(mass[order])
    averaged: Floats = (np.take_along_axis(found, order, axis=-1) * inside).sum(axis=-1)
    return averaged


def iqm_weights(weights: ArrayLike) -> Floats:
    """What each of the values, in ascending order, counts in their interquartile mean; sums to 1
    along the last axis.

    Five equal values: 0, 0.3, 0.4, 0.3, 0.
    """
    mass = np.asarray(weights, dtype=float)
    mass = mass / mass.sum(axis=-1, keepdims=True)
    upper = np.cumsum(mass, axis=-1)
    lower = np.concatenate([np.zeros_like(upper[..., :1]), upper[..., :-1]], axis=-1)
    inside: Floats = np.clip(np.minimum(upper, 0.75) - np.maximum(lower, 0.25), 0.0, None)
    shares: Floats = inside / inside.sum(axis=-1, keepdims=True)
    return shares


def aggregate(
    scores: Sequence[ArrayLike], statistic: Statistic = "mean", *, clip: bool = False
) -> Floats:
    """One number of an entry from its Run scores on B Benchmarks, each (..., Runs); leading axes
    are kept.

    `mean` and `median` are over the B means of Runs, so is `iqm_benchmarks`; `iqm` is rliable's,
    over all Run scores (each Benchmark weighs the same). With one Benchmark `iqm` and `median` are
    of its Runs. `clip` clips to [0, 1] what the statistic is over.

    Raises ConfigError for a statistic there is not, RecordError without a Benchmark.
    """
    if statistic not in STATISTICS:
        raise ConfigError(
            f"statistic: '{statistic}' is not known.{did_you_mean(statistic, STATISTICS)}"
        )
    if not scores:
        raise RecordError("statistics: no Benchmark to aggregate over")
    arrays = [np.asarray(each, dtype=float) for each in scores]
    if statistic == "iqm" or (statistic == "median" and len(arrays) == 1):
        pooled = np.concatenate(arrays, axis=-1)
        pooled = np.clip(pooled, 0.0, 1.0) if clip else pooled
        if statistic == "median":
            return np.asarray(np.median(pooled, axis=-1))
        return iqm(
            pooled, np.concatenate([np.full(each.shape[-1], 1 / each.shape[-1]) for each in arrays])
        )
    means = np.stack([each.mean(axis=-1) for each in arrays], axis=-1)
    means = np.clip(means, 0.0, 1.0) if clip else means
    if statistic == "mean":
        return np.asarray(means.mean(axis=-1))
    return np.asarray(np.median(means, axis=-1)) if statistic == "median" else iqm(means)


def probability_of_improvement(first: ArrayLike, second: ArrayLike) -> Floats:
    """P(X > Y) + P(X = Y) / 2 for a Run score X of `first` (..., n) and Y of `second` (..., m),
    over all n x m pairs.

    The Mann-Whitney statistic over n m. Over several Benchmarks: the mean of theirs. Raises
    RecordError where one of the two has no Run."""
    x = np.asarray(first, dtype=float)[..., :, np.newaxis]
    y = np.asarray(second, dtype=float)[..., np.newaxis, :]
    if not x.size or not y.size:
        raise RecordError("probability of improvement: each of the two needs a Run")
    higher, lower = is_above(x, y), is_above(y, x)
    chances: Floats = (higher.mean(axis=(-2, -1)) + (~lower).mean(axis=(-2, -1))) / 2
    return chances


def performance_profile(scores: Sequence[ArrayLike], thresholds: ArrayLike) -> Floats:
    """Share (..., T) of Run scores above each of T thresholds, from B Benchmarks of (..., Runs).

    Benchmarks weigh the same. Strictly above, as published: F(t) = 1/B sum_b 1/n_b sum_r [x_br >
    t]. Raises RecordError without a Benchmark."""
    levels = np.asarray(thresholds, dtype=float)
    if not scores:
        raise RecordError("performance profile: no Benchmark to look at")
    shares = [
        is_above(np.asarray(each, dtype=float)[..., np.newaxis], levels).mean(axis=-2)
        for each in scores
    ]
    return np.asarray(np.mean(shares, axis=0))


def wilson(successes: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a rate from independent trials: (0, 1) where there is no trial.

    (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n). It stays inside [0, 1] and has a
    width where all or none succeed. Half a success (a tie) counts too, of which
    `scipy.stats.binomtest` has no interval. Episodes of several Runs are no independent trials:
    take their intervals from `intervals`.

    Raises RecordError unless 0 <= successes <= trials, ConfigError unless 0 < level < 1.
    """
    if not 0 <= successes <= trials:
        raise RecordError(f"wilson: {successes} successes of {trials} trials cannot be")
    if trials == 0:
        return 0.0, 1.0
    z = normal_quantile(level)
    rate, spread = successes / trials, z * z / trials
    centre = rate + spread / 2
    half = z * math.sqrt(rate * (1 - rate) / trials + spread / (4 * trials))
    low = 0.0 if successes == 0 else (centre - half) / (1 + spread)
    high = 1.0 if successes == trials else (centre + half) / (1 + spread)
    return low, high


def improvement_bounds(
    chance: float, runs: Sequence[tuple[int, int]], level: float = 0.95
) -> tuple[float, float]:
    """Score interval of a mean `probability_of_improvement` over Benchmarks, from the two numbers
    of Runs on each.

    The chances p that lie no further from the one found than z standard errors of p, which are
    Newcombe's (2006, method 5): p(1-p) (1 + (N-1) ((1-p)/(2-p) + p/(1+p))) / nm with N = (n + m)/2.
    Of several Benchmarks as if p were that of each, which has the largest error. It has a width
    where one side wins every pair, as Wilson's has.

    Raises RecordError unless 0 <= chance <= 1 and without a Benchmark, ConfigError unless 0 < level
    < 1."""
    z = normal_quantile(level)
    if not runs or not 0 <= chance <= 1:
        raise RecordError(
            "improvement bounds: a chance between 0 and 1 on some Benchmark is needed, found "
            f"{chance}"
        )

    def error(p: float) -> float:
        mix = (1 - p) / (2 - p) + p / (1 + p)
        return math.sqrt(
            sum(p * (1 - p) * (1 + ((n + m) / 2 - 1) * mix) / (n * m) for n, m in runs)
        ) / len(runs)

    def edge(end: float) -> float:
        inside, outside = chance, end
        for _ in range(60):
            p = (inside + outside) / 2
            inside, outside = (p, outside) if abs(chance - p) <= z * error(p) else (inside, p)
        return inside

    return (edge(0.0) if chance > 0 else 0.0), (edge(1.0) if chance < 1 else 1.0)


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p-values in the order given: the i-th smallest of n times n - i + 1, made
    monotone, at most 1.

    Rejecting those at or below alpha keeps the chance of any false rejection at alpha. NaN is no
    test: not counted.

    Raises RecordError for what is no list of numbers between 0 and 1.
    """
    given = np.asarray(p_values, dtype=float)
    if given.ndim != 1 or ((given < 0) | (given > 1)).any():
        raise RecordError("holm: a list of p-values between 0 and 1 is needed")
    adjusted = np.full(given.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(given))
    order = tested[np.argsort(given[tested], kind="stable")]
    steps = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(given[order] * steps), 1.0)
    return adjusted


def normal_quantile(level: float) -> float:
    """z such that a standard normal lies within -z and z with probability `level`.

    Raises ConfigError unless 0 < level < 1.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level: a number between 0 and 1 is needed (0.95), found {level}")
    return float(ndtri(0.5 + level / 2))


def anchored(
    tables: Mapping[str, ArrayLike], anchors: Mapping[str, tuple[float, float]] | None
) -> dict[str, Floats]:
    """Tables by Benchmark, normalized by the anchors (zero, one) of each where there are any.

    Raises ConfigError for a Benchmark without anchors.
    """
    if anchors is None:
        return {name: as_table(table) for name, table in tables.items()}
    if lacking := [name for name in tables if name not in anchors]:
        raise ConfigError(
            f"anchors: none for {', '.join(lacking)}; give each Benchmark the scores that are 0 "
            "and 1"
        )
    return {name: normalize(as_table(table), *anchors[name]) for name, table in tables.items()}
