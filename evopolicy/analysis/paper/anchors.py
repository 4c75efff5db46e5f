"""The two scores between which held-out scores are normalized, by Benchmark: 0 and 1 of its
scale."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evopolicy.analysis.paper.published import AGENTS, RANDOM, as_published, published_scores
from evopolicy.analysis.stats.statistics import Floats, run_scores
from evopolicy.analysis.stats.ties import is_above
from evopolicy.kernel.errors import ConfigError, did_you_mean

Anchors = Mapping[str, tuple[float, float]]
"""By Benchmark, the scores that count as 0 and as 1."""


@dataclass(frozen=True)
class Scale:
    """Anchors, and what has to be known of them."""

    anchors: dict[str, tuple[float, float]]
    """Of the Benchmarks that have both."""
    without: tuple[str, ...]
    """Benchmarks that lack a score that is 0, or one above it."""
    zero: str
    """What is 0, in words."""
    floors: frozenset[str]
    """Entries whose score is never 1: the one that is 0, and the published random row."""


def scaled(value: float, zero: float, one: float) -> float:
    """`value` between the two anchors, cut to [0, 1]."""
    return min(max((value - zero) / (one - zero), 0.0), 1.0)


def find_scale(
    values: Mapping[tuple[str, str], float],
    benchmarks: Collection[str],
    slugs: Mapping[str, str],
    *,
    own: Collection[str],
    zero: str = RANDOM,
    one: Literal["best", "published"] = "best",
) -> Scale:
    """The anchors of `benchmarks`.

    Args:
        values: scores by entry and Benchmark. slugs: the Benchmark that the paper's scores are of,
        by Gymnasium id (see `published.slugs_of`). own: the entries of `values` that are a
        person's. zero: the entry whose score is 0; 'uniform random' is the published row, also
        where an entry of `own` has
            that name.
        one: 'best' of `values`, or the best 'published' agent's.

    Raises ConfigError for a `zero` there is not.
    """
    names = {entry for entry, _ in values}
    if zero != RANDOM and zero not in names:
        raise ConfigError(
            f"zero: there is no entry '{zero}' here.{did_you_mean(zero, {RANDOM, *names})}"
        )
    history = {
        (score.entry, slugs[score.benchmark_id]): score.mean
        for score in published_scores()
        if score.benchmark_id in slugs and score.mean is not None
    }
    row = as_published(RANDOM) if RANDOM in own else RANDOM
    floors = frozenset({row} if zero == RANDOM else {row, zero})
    zeros = history if zero == RANDOM else values
    found, without = {}, []
    for name in benchmarks:
        agents = [
            value
            for (entry, benchmark), value in values.items()
            if benchmark == name and entry not in floors
        ]
        if one == "published":
            agents = [history[agent, name] for agent in AGENTS if (agent, name) in history]
        low = zeros.get((zero, name))
        if low is None or not agents or not is_above(max(agents), low):
            without.append(name)
        else:
            found[name] = (low, max(agents))
    words = f"{RANDOM} as published" if zero == RANDOM else zero
    words += " (not your entry of that name)" if zero == RANDOM and RANDOM in own else ""
    return Scale(found, tuple(without), words, floors)


def own_anchors(
    tables: Mapping[str, Mapping[str, Floats]], random: Collection[str]
) -> tuple[dict[str, tuple[float, float]], str]:
    """Scores that are 0 and 1, of the Runs at hand, and the sentence that says so: a scale that
    moves with them.

    0 is the mean of the entry whose agent is `random` where there is one, else the lowest Run; 1
    the best mean of an entry.

    Args:
        tables: held-out scores (Runs, Episodes) by entry and Benchmark.
        random: the entries whose agent is `random`.
    """
    floor = next(iter(random)) if len(random) == 1 else ""
    found: dict[str, tuple[float, float]] = {}
    for name in dict.fromkeys(benchmark for of in tables.values() for benchmark in of):
        runs = {entry: run_scores(of[name]) for entry, of in tables.items() if name in of}
        means = {entry: math.fsum(scores) / len(scores) for entry, scores in runs.items()}
        zero = means.get(floor, float(min(scores.min() for scores in runs.values())))
        if is_above(
            max(means.values()), zero, max(float(np.abs(scores).max()) for scores in runs.values())
        ):
            found[name] = (zero, max(means.values()))
    words = f"{floor}, or the lowest Run where it has none" if floor else "the lowest Run"
    return (
        found,
        f"0 is {words}, 1 the best entry's mean on each Benchmark: a scale that moves with who is "
        "here.",
    )
