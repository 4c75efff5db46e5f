"""Every entry against one of them, Benchmark by Benchmark: what a claim that one is better than
another rests on.

Entries of one Benchmark met the same held-out Episodes, so a difference is taken by Episode: what
is hard for both cancels. Where the two entries are read from the same Runs (two selection rules, a
regrade), it is taken by Run as well, and such a Run counts once. All differences of one table are
one family for Holm's adjustment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evopolicy.analysis.stats.components import Error, Over
from evopolicy.analysis.stats.intervals import (
    Difference,
    Interval,
    difference_interval,
    make_interval,
    paired_interval,
)
from evopolicy.analysis.stats.resampling import improvement_interval
from evopolicy.analysis.stats.statistics import Floats, holm, run_scores, wilson
from evopolicy.analysis.stats.ties import is_above
from evopolicy.kernel.errors import ConfigError, RecordError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

Tables = Mapping[str, Mapping[str, Floats]]
"""Held-out scores (Runs, Episodes) by entry and Benchmark."""


@dataclass(frozen=True)
class EntryDifference:
    """An entry less `against` on one Benchmark."""

    entry: str
    against: str
    benchmark: str
    difference: Difference
    """Of the held-out means, with its interval and p-value."""
    p_holm: float
    """Adjusted for all differences of the comparison (Holm)."""
    improvement: Interval
    """Chance that a Run of the entry scores above one of `against`, ties half; of one Run by both
    where `paired`."""
    runs: int
    others: int
    """Runs of `against`."""
    paired: bool
    """Whether the two are read from the same Runs."""

    @property
    def estimate(self) -> float:
        return self.difference.interval.estimate

    def decided(self, level: float = 0.95) -> int:
        """1 where the entry is higher by the adjusted p-value, -1 where it is lower, else 0."""
        if not self.p_holm <= 1 - level:
            return 0
        return 1 if self.estimate > 0 else -1


def partners(entries: Sequence[str], against: str = "") -> dict[str, str]:
    """By entry the one it is compared with: `against` ('' for the first of `entries`), or, where
    that is a swept setting such as `feedback=score`, the entry that is the same but for it.

    Raises ConfigError where there is no such entry or setting, RecordError where no two can be
    compared."""
    against = against or next(iter(entries), "")
    if against in entries:
        found = {entry: against for entry in entries if entry != against}
    else:
        key = against.partition("=")[0] + "="
        settings = {word for entry in entries for word in entry.split(" ")[1:] if "=" in word}
        if against not in settings:
            raise ConfigError(
                f"against: there is no entry '{against}' "
                f"here.{did_you_mean(against, [*entries, *settings])}"
            )
        found = {}
        for entry in entries:
            other = " ".join(against if word.startswith(key) else word for word in entry.split(" "))
            if other != entry and other in entries:
                found[entry] = other
    if not found:
        raise RecordError(
            f"difference: there is nothing to compare with '{against}'; choose another against="
        )
    return found


def name_partners(against: Mapping[str, str]) -> str:
    """What the entries are compared with, in words."""
    others = dict.fromkeys(against.values())
    if len(others) == 1:
        return next(iter(others))
    shared = set.intersection(*(set(other.split(" ")[1:]) for other in others))
    own = {word for entry in against for word in entry.split(" ")[1:]}
    return f"the same with {' '.join(sorted(shared - own))}"


def entry_differences(
    tables: Tables,
    keys: Mapping[tuple[str, str], Sequence[str]],
    against: Mapping[str, str],
    *,
    seed: int = 0,
    over: Over = "runs_and_episodes",
    level: float = 0.95,
    replicates: int = 2000,
) -> tuple[EntryDifference, ...]:
    """Each entry less the one it is compared with, on the Benchmarks both have, entry by entry.

    Args:
        tables: columns of one Benchmark are the same Episodes for every entry. against: as
        `partners` finds it. keys: of the Runs of each cell, in the order of its rows, what tells
        the agents' Runs apart: two entries whose
            Runs have the same keys on a Benchmark are read from the same Runs.
        seed: of the replicates behind the chance of improvement.

    Raises RecordError as the intervals do.
    """
    rng = np.random.default_rng(seed)
    found: list[EntryDifference] = []
    for entry, other in against.items():
        for name, first in tables.get(entry, {}).items():
            if name in tables.get(other, {}):
                second = tables[other][name]
                order = _same_runs(keys.get((entry, name), ()), keys.get((other, name), ()))
                if order is not None:
                    second = second[order]
                    difference = paired_interval(first, second, over=over, level=level)
                    improvement = _paired_improvement(first, second, level)
                else:
                    difference = difference_interval(first, second, over=over, level=level)
                    improvement = improvement_interval(
                        {name: first},
                        {name: second},
                        rng=rng,
                        over=over,
                        level=level,
                        replicates=replicates,
                    )
                counts = len(first), len(second), order is not None
                found.append(
                    EntryDifference(entry, other, name, difference, math.nan, improvement, *counts)
                )
    adjusted = holm([one.difference.p_value for one in found])
    return tuple(replace(one, p_holm=float(p)) for one, p in zip(found, adjusted, strict=True))


def run_keys(runs: pd.DataFrame) -> dict[tuple[str, str], list[str]]:
    """For `entry_differences`, of the part of `frames.runs` that its tables were made of.

    A regrade and another rule's result have the key of the Run whose Programs they measure.
    """
    cells = runs.groupby(["entry", "benchmark"], sort=False)["key"]
    return {(entry, benchmark): list(keys) for (entry, benchmark), keys in cells}  # type: ignore[misc]  # two keys


def _same_runs(first: Sequence[str], second: Sequence[str]) -> list[int] | None:
    """Where each Run of `first` is in `second`; None unless both are of the same Runs, each
    once."""
    places = {key: place for place, key in enumerate(second)}
    if (
        not first
        or len(places) < len(second)
        or len(set(first)) < len(first)
        or set(first) != set(places)
    ):
        return None
    return [places[key] for key in first]


def _paired_improvement(first: Floats, second: Floats, level: float) -> Interval:
    """Share of the Runs that score above under the first reading, ties half, with Wilson's interval
    over Runs."""
    ones, others = run_scores(first), run_scores(second)
    higher, lower = is_above(ones, others), is_above(others, ones)
    share = float((higher.mean() + (~lower).mean()) / 2)
    bounds = wilson(share * len(ones), len(ones), level)
    return make_interval(
        share, bounds, Error(0.25 / len(ones), math.inf), "runs", "Wilson", level, ""
    )
