"""How often the 95 % intervals hold the truth, on simulated tables whose truth is known.

python scripts/measure_coverage.py [--tables 400] [--seed 0] [--to docs/pictures/coverage.png]

Scores are mean + run + episode + rest, all normal, in three mixes of the variances; the Episodes of a Benchmark are the
same for its Runs and for all entries. Counted over new Runs and new Episodes. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import ndtr

from evopolicy.analysis.intervals import (
    Interval,
    aggregate_difference_interval,
    aggregate_mean_interval,
    mean_interval,
)
from evopolicy.analysis.rank import rank_scores
from evopolicy.analysis.resampling import aggregate_interval, rank_score_intervals
from evopolicy.analysis.statistics import Floats

MIXES: Mapping[str, tuple[float, float, float]] = {
    "between Runs": (1.0, 0.1, 0.3),
    "between Episodes": (0.02, 1.0, 0.3),
    "both": (0.2, 1.0, 1.0),
}
"""Variances of run, episode and rest."""
RUNS = (3, 5, 10, 20)
EPISODES = 24
LEVELS = np.array([0.0, 0.7, 1.1, 2.0])
"""True means of an entry on four Benchmarks."""
WIDE = (5, 16)
"""Entries and Benchmarks of a table of the paper's size."""
APART = 2.0
"""Standard deviation that entries' true means are drawn with there, in standard errors of a cell's mean."""
METHODS = (
    "nested bootstrap, for comparison",
    "mean of a cell",
    "mean over Benchmarks",
    "difference of two entries",
    "IQM",
    "median",
    "rank score, best and worst",
    "rank score, middle",
    "rank score, 16 Benchmarks",
)
Tables: TypeAlias = dict[str, Floats]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=int, default=400, help="simulated tables of each row")
    parser.add_argument("--replicates", type=int, default=500, help="of each bootstrap")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formulas", action="store_true", help="only the intervals that need no bootstrap")
    parser.add_argument("--to", type=Path, default=None, help="write a figure, such as docs/pictures/coverage.png")
    options = parser.parse_args()
    found: dict[tuple[str, int], dict[str, float]] = {}
    names = METHODS[1:4] if options.formulas else METHODS
    print(f"| variance mostly | Runs | {' | '.join(names)} |\n|---|---:|{'---:|' * len(names)}", flush=True)
    for row, (mix, variances) in enumerate(MIXES.items()):
        for runs in RUNS:
            rng = np.random.default_rng([options.seed, row, runs])
            replicates = 0 if options.formulas else options.replicates
            share = coverage(variances, runs, options.tables, replicates, rng)
            found[mix, runs] = share
            print(f"| {mix} | {runs} | {' | '.join(f'{share[name]:.3f}' for name in names)} |", flush=True)
    if options.to:
        picture(found, names, options.tables, options.to)
    return 0


def coverage(
    variances: tuple[float, float, float], runs: int, tables: int, replicates: int, rng: np.random.Generator
) -> dict[str, float]:
    """Share of `tables` whose interval holds the truth, by method; no bootstrap where `replicates` is 0."""
    run, episode, rest = variances
    apart = 1.5 * np.sqrt(run / 5 + episode / EPISODES + rest / (5 * EPISODES))
    iqm = mixture_iqm(np.sqrt(run + rest / EPISODES))
    hits: dict[str, list[bool]] = {name: [] for name in METHODS}
    for _ in range(tables):
        first, second, third = simulate([LEVELS, LEVELS + apart, LEVELS + 2 * apart], runs, variances, rng)
        hits["mean of a cell"].append(holds(mean_interval(first["0"]), LEVELS[0]))
        hits["mean over Benchmarks"].append(holds(aggregate_mean_interval(first), LEVELS.mean()))
        gap = aggregate_difference_interval(second, first)
        hits["difference of two entries"].append(holds(gap.interval, apart))
        if not replicates:
            continue
        hits["nested bootstrap, for comparison"].append(nested(first["0"], replicates, rng))
        middle = aggregate_interval(first, "iqm", rng=rng, replicates=replicates)
        hits["IQM"].append(holds(middle, iqm))
        half = aggregate_interval(first, "median", rng=rng, replicates=replicates)
        hits["median"].append(holds(half, float(np.median(LEVELS))))
        entries = {"first": first, "second": second, "third": third}
        ranks = rank_score_intervals(entries, rng=rng, replicates=replicates)
        hits["rank score, best and worst"] += [holds(ranks["first"], 0.0), holds(ranks["third"], 1.0)]
        hits["rank score, middle"].append(holds(ranks["second"], 0.5))
    if replicates:
        hits["rank score, 16 Benchmarks"] = wide_ranks(variances, runs, tables // 4, replicates, rng)
    return {name: float(np.mean(each)) for name, each in hits.items() if each}


def wide_ranks(
    variances: tuple[float, float, float], runs: int, tables: int, replicates: int, rng: np.random.Generator
) -> list[bool]:
    """Whether each entry's interval holds its true rank score, in tables of the paper's size with means of their own.

    Over sixteen Benchmarks a rank score takes enough values that an interval need not hold more than it must.
    """
    entries, benchmarks = WIDE
    error = np.sqrt((variances[0] + variances[2] / EPISODES) / runs)
    hits: list[bool] = []
    for _ in range(tables):
        means = APART * error * rng.normal(size=(entries, benchmarks))
        truth = rank_scores(means).mean(axis=1)
        found = {str(i): table for i, table in enumerate(simulate(list(means), runs, variances, rng))}
        ranks = rank_score_intervals(found, rng=rng, replicates=replicates)
        hits += [holds(ranks[str(i)], true) for i, true in enumerate(truth)]
    return hits


def simulate(
    means: Sequence[Floats], runs: int, variances: tuple[float, float, float], rng: np.random.Generator
) -> list[Tables]:
    """Tables (Runs, Episodes) by Benchmark of entries with these true means; the Episodes are shared."""
    run, episode, rest = np.sqrt(variances)
    size = len(means[0])
    hard = episode * rng.normal(size=(size, 1, EPISODES))
    entries = []
    for mean in means:
        own = run * rng.normal(size=(size, runs, 1)) + rest * rng.normal(size=(size, runs, EPISODES))
        entries.append({str(i): table for i, table in enumerate(mean[:, np.newaxis, np.newaxis] + hard + own)})
    return entries


def holds(interval: Interval, truth: float) -> bool:
    return interval.low - 1e-12 <= truth <= interval.high + 1e-12


def nested(table: Floats, replicates: int, rng: np.random.Generator) -> bool:
    """Whether a plain bootstrap holds 0: Runs drawn, then Episodes of each Run drawn by themselves."""
    n, m = table.shape
    rows = rng.integers(n, size=(replicates, n, 1))
    means = table[rows, rng.integers(m, size=(replicates, n, m))].mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return bool(low <= 0 <= high)


def mixture_iqm(deviation: float) -> float:
    """True IQM of Run scores: normal around each of LEVELS. By the trapezoidal rule, to five digits."""
    grid = np.linspace(LEVELS.min() - 8 * deviation, LEVELS.max() + 8 * deviation, 400_001)
    below: Floats = np.mean([ndtr((grid - level) / deviation) for level in LEVELS], axis=0)
    inside = np.clip(below, 0.25, 0.75)
    return float(((grid[1:] + grid[:-1]) / 2 * np.diff(inside)).sum() / 0.5)


def picture(found: Mapping[tuple[str, int], Mapping[str, float]], names: Sequence[str], tables: int, to: Path) -> None:
    """Coverage against Runs, one panel for each mix; the band is 92 to 97 %."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(MIXES), figsize=(12, 4.2), sharey=True, layout="constrained")
    places = np.arange(len(RUNS))
    for panel, mix in zip(panels, MIXES, strict=True):
        panel.axhspan(0.92, 0.97, color="0.9", zorder=0)
        panel.axhline(0.95, color="0.5", linewidth=0.8, zorder=1)
        for i, name in enumerate(names):
            shift = (i - (len(names) - 1) / 2) * 0.06
            shares = [found[mix, runs][name] for runs in RUNS]
            style = {"color": "0.35", "marker": "x"} if i == 0 and len(names) > 3 else {"color": f"C{i}", "marker": "o"}
            panel.plot(places + shift, shares, linestyle=":", linewidth=0.8, markersize=5, label=name, **style)
        panel.set_title(f"variance mostly {mix}" if mix != "both" else "both")
        panel.set_xticks(places, [str(runs) for runs in RUNS])
        panel.set_xlabel("Runs in a cell")
    panels[0].set_ylabel(f"coverage in {tables} tables")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=110)
    print(to)


if __name__ == "__main__":
    sys.exit(main())
