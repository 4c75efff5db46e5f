"""The rank score: arrays in, arrays out.

On one Benchmark with N entries, in the order of their held-out means: rank score = 1 - (rank - 1) /
(N - 1), where entries that tie (`ties`) share the best rank (competition ranking: 1, 2, 3, 3, 3). A
single entry scores 1. Seeds are averaged per Benchmark before they are ranked. Source: arXiv
2607.02440."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evopolicy.analysis.stats.ties import settle
from evopolicy.kernel.errors import ConfigError, RecordError, did_you_mean

Missing = Literal["refuse", "exclude", "worst"]
MISSING: tuple[Missing, ...] = get_args(Missing)
Floats: TypeAlias = NDArray[np.float64]


def average_seeds(scores: ArrayLike) -> Floats:
    """Held-out means (entries, Benchmarks) of scores (entries, Benchmarks, seeds); NaN is a seed
    that is not there.

    NaN where no seed is. The sums are exact before they are rounded.
    """
    values = np.asarray(scores, dtype=float)
    means = np.full(values.shape[:2], np.nan)
    for place in np.ndindex(*means.shape):
        found = values[place][~np.isnan(values[place])]
        if found.size:
            means[place] = math.fsum(found) / found.size
    return means


def seed_errors(scores: ArrayLike) -> Floats:
    """Standard errors (entries, Benchmarks) of the seeds' scores (entries, Benchmarks, seeds); NaN
    below two seeds."""
    values = np.asarray(scores, dtype=float)
    errors = np.full(values.shape[:2], np.nan)
    for place in np.ndindex(*errors.shape):
        found = values[place][~np.isnan(values[place])]
        if found.size > 1:
            errors[place] = found.std(ddof=1) / math.sqrt(found.size)
    return errors


def score_sizes(scores: ArrayLike) -> Floats:
    """Largest size (entries, Benchmarks) of the seeds' scores (entries, Benchmarks, seeds), for
    `ties`; 0 for none."""
    values = np.abs(np.nan_to_num(np.asarray(scores, dtype=float)))
    return np.asarray(values.max(axis=2, initial=0.0))


def competition_ranks(means: ArrayLike, sizes: ArrayLike = 0.0) -> NDArray[np.int64]:
    """Ranks from 1 (best) along the first axis of (entries, Benchmarks) means; ties share the best
    rank.

    `sizes` as in `ties.is_above`. Raises RecordError for a mean that is NaN.
    """
    values = settle(_table(means), sizes)
    if np.isnan(values).any():
        raise RecordError(
            "rank: a held-out mean is missing; choose what to do with missing cells first"
        )
    ranks: NDArray[np.int64] = 1 + (values[np.newaxis] > values[:, np.newaxis]).sum(axis=1)
    return ranks


def rank_scores(means: ArrayLike, sizes: ArrayLike = 0.0) -> Floats:
    """Rank scores (entries, Benchmarks) in [0, 1] of held-out means of that shape; 1.0 where there
    is one entry."""
    ranks = competition_ranks(means, sizes)
    entries = len(ranks)
    return np.ones(ranks.shape) if entries == 1 else 1 - (ranks - 1) / (entries - 1)


@dataclass(frozen=True, eq=False)
class Ranking:
    """N entries ranked on B Benchmarks."""

    included: NDArray[np.bool_]
    """(B,): the Benchmarks that count."""
    ranks: Floats
    """(N, B), from 1; NaN on Benchmarks that do not count."""
    scores: Floats
    """(N, B); NaN on Benchmarks that do not count."""
    rank_score: Floats
    """(N,): mean over the Benchmarks that count; NaN where none does."""
    wins: NDArray[np.int64]
    """(N,): Benchmarks on which the entry has rank 1; a tie for it is a win of each."""
    top2: NDArray[np.int64]
    """(N,): Benchmarks on which the entry has rank 1 or 2."""


def rank_entries(means: ArrayLike, missing: Missing = "refuse", sizes: ArrayLike = 0.0) -> Ranking:
    """Rank held-out means (entries, Benchmarks), in which NaN is a missing cell; `sizes` as in
    `ties.is_above`.

    `refuse` raises RecordError for any missing cell; `exclude` leaves out the Benchmarks that lack
    one; `worst` ranks a missing cell below every other. A Benchmark that has no score at all never
    counts."""
    if missing not in MISSING:
        raise ConfigError(
            "missing: unknown policy for missing cells "
            f"'{missing}'.{did_you_mean(missing, MISSING)}"
        )
    values = _table(means)
    gaps = np.isnan(values)
    if missing == "refuse" and gaps.any():
        raise RecordError(
            f"rank: {int(gaps.sum())} of {gaps.size} cells are missing; run them, "
            "or set missing to 'exclude' or 'worst'"
        )
    gone = gaps.all(axis=0) if missing == "worst" else gaps.any(axis=0)
    included: NDArray[np.bool_] = np.logical_not(gone)
    if not len(values):
        included = np.zeros(values.shape[1], dtype=bool)
    filled = np.where(gaps, -np.inf, values)[:, included]
    of = np.broadcast_to(np.asarray(sizes, dtype=float), values.shape)[:, included]
    ranks = np.full(values.shape, np.nan)
    scores = np.full(values.shape, np.nan)
    if included.any():
        ranks[:, included] = competition_ranks(filled, of)
        scores[:, included] = rank_scores(filled, of)
    return Ranking(
        included,
        ranks,
        scores,
        mean_rank_score(ranks, included),
        (ranks == 1).sum(axis=1),
        (ranks <= 2).sum(axis=1),
    )


def mean_rank_score(ranks: Floats, columns: NDArray[np.bool_]) -> Floats:
    """Mean rank score (N,) over those of `columns` (B,) that have ranks (N, B); NaN where none
    does.

    Sums whole ranks, so that entries with the same ranks in another order have the same score to
    the last bit."""
    entries = len(ranks)
    chosen = ranks[:, columns & ~np.isnan(ranks).any(axis=0)]
    count = chosen.shape[1]
    if not entries or not count:
        return np.full(entries, np.nan)
    means: Floats = 1 - (chosen.sum(axis=1) - count) / (count * max(entries - 1, 1))
    return means


def category_means(ranking: Ranking, categories: Sequence[str]) -> dict[str, Floats]:
    """Mean rank score (N,) by category, in order of appearance; `categories` (B,) names each
    Benchmark's."""
    names = np.asarray(categories, dtype=object)
    return {
        name: mean_rank_score(ranking.ranks, names == name) for name in dict.fromkeys(categories)
    }


def _table(means: ArrayLike) -> Floats:
    values = np.asarray(means, dtype=float)
    if values.ndim != 2:
        raise RecordError(
            f"rank: means of shape (entries, Benchmarks) are needed, found shape {values.shape}"
        )
    if (values == np.inf).any():
        raise RecordError("rank: a held-out mean is infinite; that is a fault, not a result")
    return values
