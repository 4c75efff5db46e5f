"""What holds of the intervals of any table: the estimate inside, a width where Runs differ, no gain
by knowing less."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest

from evopolicy.analysis.stats.components import OVER
from evopolicy.analysis.stats.intervals import (
    Interval,
    aggregate_difference_interval,
    aggregate_mean_interval,
)
from evopolicy.analysis.stats.resampling import (
    aggregate_interval,
    improvement_interval,
    profile_band,
    rank_score_intervals,
)
from evopolicy.analysis.stats.statistics import STATISTICS, Floats

Tables: TypeAlias = dict[str, dict[str, Floats]]
SEEDS = range(40)


def drawn(seed: int, fewest: int = 1) -> Tables:
    """Entries, unequal numbers of Runs, some scores of two kinds, some of few values, of any
    size."""
    rng = np.random.default_rng(seed)
    size, kind = 10.0 ** rng.integers(-3, 4), rng.integers(3)
    episodes = {f"b{i}": int(rng.integers(2, 9)) for i in range(rng.integers(1, 4))}
    tables: Tables = {}
    for entry in range(rng.integers(2, 6)):
        tables[f"e{entry}"] = {}
        for name, m in episodes.items():
            n = int(rng.integers(fewest, 7))
            runs = rng.normal(size=(n, 1)) if kind else 2.0 * (rng.random(size=(n, 1)) < 0.5)
            table = runs + rng.normal(size=(n, m)) + rng.normal() * 2
            tables[f"e{entry}"][name] = size * (np.round(table) if kind == 2 else table)
    return tables


def sound(span: Interval) -> bool:
    return span.over is None or span.low <= span.estimate <= span.high


def differ(table: Floats) -> bool:
    return bool(np.ptp(table.mean(axis=1)) > 1e-9 * np.abs(table).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_an_estimate_lies_in_its_interval(seed: int) -> None:
    tables, rng = drawn(seed), np.random.default_rng(seed)
    over = OVER[seed % 3]
    first, second = tables["e0"], tables["e1"]
    found = [
        aggregate_interval(first, statistic, rng=rng, over=over, replicates=100)
        for statistic in STATISTICS
    ]
    found.append(aggregate_difference_interval(first, second, over=over).interval)
    found.append(improvement_interval(first, second, rng=rng, over=over, replicates=100))
    found += rank_score_intervals(tables, rng=rng, over=over, replicates=100).values()
    assert all(map(sound, found))
    assert all(
        each.low >= 0 and each.high <= 1 for each in found[len(STATISTICS) + 1 :] if each.over
    )
    band = profile_band(first, np.linspace(-3, 3, 7), rng=rng, over=over, replicates=100)
    assert band.over is None or ((band.low <= band.fractions) & (band.fractions <= band.high)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_that_differ_leave_no_interval_without_a_width(seed: int) -> None:
    tables, rng = drawn(seed), np.random.default_rng(seed)
    first, second = tables["e0"], tables["e1"]
    if any(map(differ, first.values())):
        for statistic in STATISTICS:
            span = aggregate_interval(first, statistic, rng=rng, replicates=100)
            assert span.over in (None, "episodes") or span.high > span.low
        far = {name: table + 1e6 for name, table in first.items()}
        chance = improvement_interval(far, second, rng=rng, replicates=100)
        assert chance.over is None or chance.high > chance.low
    band = profile_band(first, [-1e9, 1e9], rng=rng, replicates=100)
    assert band.over in (None, "episodes") or (band.high > band.low).all()


def test_an_entry_of_few_runs_beside_them_narrows_no_rank_interval() -> None:
    """In ranks. Each end may move by a rank on one Benchmark, where what lies beyond it falls below
    2.5 %."""
    total = np.zeros(2)
    for seed in SEEDS:
        tables, rng = drawn(seed, fewest=3), np.random.default_rng(seed)
        runs, count, benchmarks = 1 + seed % 2, len(tables), len(tables["e0"])
        late = {
            name: table[:1] + rng.normal(size=(runs, 1)) for name, table in tables["e0"].items()
        }
        before = rank_score_intervals(tables, rng=np.random.default_rng(seed), replicates=300)
        after = rank_score_intervals(
            {**tables, "late": late}, rng=np.random.default_rng(seed), replicates=300
        )
        assert after["late"].over is None
        for entry, span in before.items():
            if after[entry].over is not None:
                widths = (
                    (span.high - span.low) * (count - 1),
                    (after[entry].high - after[entry].low) * count,
                )
                assert widths[1] >= widths[0] - 2 / benchmarks - 1e-9
                total += widths
    assert total[1] > total[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_fewer_runs_of_a_cell_give_no_narrower_rank_interval_over_less(seed: int) -> None:
    """What cannot be over Runs and Episodes is not given over Episodes instead."""
    tables = drawn(seed)
    for span in rank_score_intervals(
        tables, rng=np.random.default_rng(seed), replicates=50
    ).values():
        assert span.over in (None, "runs_and_episodes")
    for of in tables.values():
        short = [len(table) < 3 for table in of.values()]
        span = aggregate_mean_interval(of)
        assert span.over == (
            "episodes" if all(short) else None if any(short) else "runs_and_episodes"
        )
