"""How often the 95 % intervals hold the truth, on simulated tables whose truth is known.

python scripts/measure_coverage.py [--tables 400] [--seed 0] [--to docs/pictures/coverage.png]
python scripts/measure_coverage.py --part ranks --tables 100    # few and unequal Runs python
scripts/measure_coverage.py --part few                    # chances, Runs of two kinds, tails of
profiles

Scores are mean + run + episode + rest, all normal, in three mixes of the variances; the Episodes of
a Benchmark are the same for its Runs and for all entries. Counted over new Runs and new Episodes.
Prints a table in Markdown."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import ndtr, ndtri

from evopolicy.analysis.stats.intervals import (
    Interval,
    aggregate_difference_interval,
    aggregate_mean_interval,
    mean_interval,
)
from evopolicy.analysis.stats.rank import rank_scores
from evopolicy.analysis.stats.resampling import (
    aggregate_interval,
    improvement_interval,
    profile_band,
    rank_score_intervals,
)
from evopolicy.analysis.stats.statistics import Floats

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
"""Standard deviation that entries' true means are drawn with there, in standard errors of a cell's
mean."""
SEEDS = (
    (2,) * 5,
    (3,) * 5,
    (5,) * 5,
    (10,) * 5,
    (3, 3, 5, 10, 10),
    (2, 5, 5, 5, 5),
    (1, 3, 3, 10, 10),
    (1, 1, 2, 3, 3),
)
"""Runs of each entry, in tables of ranks."""
CHANCES = (0.5, 0.8, 0.95, 0.99)
WORKING = (0.1, 0.2, 0.3, 0.5)
"""Shares of Runs that work; the others fail."""
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
    parser.add_argument(
        "--formulas", action="store_true", help="only the intervals that need no bootstrap"
    )
    parser.add_argument(
        "--part", choices=("all", "ranks", "few"), default="all", help="what is measured"
    )
    parser.add_argument(
        "--to", type=Path, default=None, help="write a figure, such as docs/pictures/coverage.png"
    )
    options = parser.parse_args()
    if options.part != "all":
        rng = np.random.default_rng(options.seed)
        (unequal_ranks if options.part == "ranks" else few_runs)(
            options.tables, options.replicates, rng
        )
        return 0
    found: dict[tuple[str, int], dict[str, float]] = {}
    names = METHODS[1:4] if options.formulas else METHODS
    print(
        f"| variance mostly | Runs | {' | '.join(names)} |\n|---|---:|{'---:|' * len(names)}",
        flush=True,
    )
    for row, (mix, variances) in enumerate(MIXES.items()):
        for runs in RUNS:
            rng = np.random.default_rng([options.seed, row, runs])
            replicates = 0 if options.formulas else options.replicates
            share = coverage(variances, runs, options.tables, replicates, rng)
            found[mix, runs] = share
            print(
                f"| {mix} | {runs} | {' | '.join(f'{share[name]:.3f}' for name in names)} |",
                flush=True,
            )
    if options.to:
        picture(found, names, options.tables, options.to)
    return 0


def coverage(
    variances: tuple[float, float, float],
    runs: int,
    tables: int,
    replicates: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Share of `tables` whose interval holds the truth, by method; no bootstrap where `replicates`
    is 0."""
    run, episode, rest = variances
    apart = 1.5 * np.sqrt(run / 5 + episode / EPISODES + rest / (5 * EPISODES))
    iqm = mixture_iqm(np.sqrt(run + rest / EPISODES))
    hits: dict[str, list[bool]] = {name: [] for name in METHODS}
    for _ in range(tables):
        first, second, third = simulate(
            [LEVELS, LEVELS + apart, LEVELS + 2 * apart], runs, variances, rng
        )
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
        hits["rank score, best and worst"] += [
            holds(ranks["first"], 0.0),
            holds(ranks["third"], 1.0),
        ]
        hits["rank score, middle"].append(holds(ranks["second"], 0.5))
    if replicates:
        hits["rank score, 16 Benchmarks"] = wide_ranks(
            variances, runs, tables // 4, replicates, rng
        )
    return {name: float(np.mean(each)) for name, each in hits.items() if each}


def wide_ranks(
    variances: tuple[float, float, float],
    runs: int,
    tables: int,
    replicates: int,
    rng: np.random.Generator,
) -> list[bool]:
    """Whether each entry's interval holds its true rank score, in tables of the paper's size with
    means of their own.

    Over sixteen Benchmarks a rank score takes enough values that an interval need not hold more
    than it must."""
    error = np.sqrt((variances[0] + variances[2] / EPISODES) / runs)
    hits: list[bool] = []
    for _ in range(tables):
        hits += [
            holds(span, true)
            for span, true in ranks_and_truths(error, runs, variances, replicates, rng)
        ]
    return hits


def ranks_and_truths(
    error: float,
    runs: int | Sequence[int],
    variances: tuple[float, float, float],
    replicates: int,
    rng: np.random.Generator,
) -> list[tuple[Interval, float]]:
    """The interval and the true rank score of each entry, in one table of the paper's size."""
    means = APART * error * rng.normal(size=WIDE)
    truth = rank_scores(means).mean(axis=1)
    found = {str(i): table for i, table in enumerate(simulate(list(means), runs, variances, rng))}
    spans = rank_score_intervals(found, rng=rng, replicates=replicates)
    return [(spans[str(i)], float(true)) for i, true in enumerate(truth)]


def unequal_ranks(tables: int, replicates: int, rng: np.random.Generator) -> None:
    """Print how often intervals of rank scores hold the truth, by the Runs of the five entries.

    Means are drawn as in `wide_ranks`, for five Runs. An entry with fewer than three Runs has no
    interval."""
    print("| variance mostly | Runs of the five entries | intervals | hold the truth | width |")
    print("|---|---|---:|---:|---:|", flush=True)
    for mix, variances in MIXES.items():
        error = np.sqrt((variances[0] + variances[2] / EPISODES) / 5)
        for runs in SEEDS:
            held: list[bool] = []
            widths: list[float] = []
            for _ in range(tables):
                pairs = ranks_and_truths(error, runs, variances, replicates, rng)
                printed = [(span, true) for span, true in pairs if span.over]
                held += [holds(span, true) for span, true in printed]
                widths += [span.high - span.low for span, _ in printed]
            told = f"{np.mean(held):.3f} | {np.mean(widths):.2f}" if held else "none printed | "
            print(f"| {mix} | {', '.join(map(str, runs))} | {len(held)} | {told} |", flush=True)


def few_runs(tables: int, replicates: int, rng: np.random.Generator) -> None:
    """Print coverage where few Runs tell little: chances of improvement, Runs of two kinds, tails
    of profiles."""
    run, episode, rest = np.sqrt(MIXES["between Runs"])
    spread = np.sqrt(run**2 + rest**2 / EPISODES)
    rows: dict[str, dict[int, float]] = {}
    for runs in RUNS:
        for noise in (1, 3):
            for chance in CHANCES:
                far = spread * np.hypot(1, noise) * ndtri(chance)
                held = []
                for _ in range(tables):
                    hard = episode * rng.normal(size=(1, EPISODES))
                    first, second = (
                        mean
                        + hard
                        + size
                        * (
                            run * rng.normal(size=(runs, 1))
                            + rest * rng.normal(size=(runs, EPISODES))
                        )
                        for mean, size in ((far, 1), (0, noise))
                    )
                    span = improvement_interval(
                        {"": first}, {"": second}, rng=rng, replicates=replicates
                    )
                    held.append(holds(span, chance))
                like = "alike" if noise == 1 else f"one {noise} times as noisy"
                rows.setdefault(f"chance of improvement {chance}, {like}", {})[runs] = float(
                    np.mean(held)
                )
        for share in WORKING:
            works = rng.random(size=(tables, runs, 1)) < share
            drawn = (
                works
                + 0.1 * rng.normal(size=works.shape)
                + 0.2 * rng.normal(size=(tables, runs, EPISODES))
            )
            rows.setdefault(f"mean of a cell, {100 * share:.0f} % of Runs work", {})[runs] = float(
                np.mean([holds(mean_interval(table), share) for table in drawn])
            )
        deviation = np.hypot(spread, episode / np.sqrt(EPISODES))
        levels = np.linspace(LEVELS.min() - 3 * deviation, LEVELS.max() + 3 * deviation, 400)
        truth = share_above(levels, deviation)
        at = [int(np.argmin(np.abs(truth - share))) for share in (0.98, 0.8, 0.5, 0.2, 0.02)]
        inside = []
        for _ in range(tables):
            (found,) = simulate([LEVELS], runs, MIXES["between Runs"], rng)
            band = profile_band(found, levels[at], rng=rng, replicates=replicates)
            inside.append((band.low - 1e-12 <= truth[at]) & (truth[at] <= band.high + 1e-12))
        for place, share in zip(at, np.mean(inside, axis=0), strict=True):
            rows.setdefault(f"profile where the share is {truth[place]:.2f}", {})[runs] = float(
                share
            )
    print(f"| Runs | {' | '.join(map(str, RUNS))} |\n|---|{'---:|' * len(RUNS)}")
    for name, shares in rows.items():
        print(f"| {name} | {' | '.join(f'{shares[runs]:.3f}' for runs in RUNS)} |", flush=True)


def simulate(
    means: Sequence[Floats],
    runs: int | Sequence[int],
    variances: tuple[float, float, float],
    rng: np.random.Generator,
) -> list[Tables]:
    """Tables (Runs, Episodes) by Benchmark of entries with these true means; the Episodes are
    shared.

    `runs` are each entry's, or those of all.
    """
    run, episode, rest = np.sqrt(variances)
    size = len(means[0])
    hard = episode * rng.normal(size=(size, 1, EPISODES))
    counts = [runs] * len(means) if isinstance(runs, int) else runs
    entries = []
    for mean, count in zip(means, counts, strict=True):
        own = run * rng.normal(size=(size, count, 1)) + rest * rng.normal(
            size=(size, count, EPISODES)
        )
        entries.append(
            {str(i): table for i, table in enumerate(mean[:, np.newaxis, np.newaxis] + hard + own)}
        )
    return entries


def holds(interval: Interval, truth: float) -> bool:
    return interval.low - 1e-12 <= truth <= interval.high + 1e-12


def nested(table: Floats, replicates: int, rng: np.random.Generator) -> bool:
    """Whether a plain bootstrap holds 0: Runs drawn, then Episodes of each Run drawn by
    themselves."""
    n, m = table.shape
    rows = rng.integers(n, size=(replicates, n, 1))
    means = table[rows, rng.integers(m, size=(replicates, n, m))].mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return bool(low <= 0 <= high)


def share_above(scores: Floats, deviation: float) -> Floats:
    """True share of Run scores above each of `scores`: normal around each of LEVELS."""
    share: Floats = np.mean([ndtr((level - scores) / deviation) for level in LEVELS], axis=0)
    return share


def mixture_iqm(deviation: float) -> float:
    """True IQM of Run scores: normal around each of LEVELS. By the trapezoidal rule, to five
    digits."""
    grid = np.linspace(LEVELS.min() - 8 * deviation, LEVELS.max() + 8 * deviation, 400_001)
    inside = np.clip(1 - share_above(grid, deviation), 0.25, 0.75)
    return float(((grid[1:] + grid[:-1]) / 2 * np.diff(inside)).sum() / 0.5)


def picture(
    found: Mapping[tuple[str, int], Mapping[str, float]],
    names: Sequence[str],
    tables: int,
    to: Path,
) -> None:
    """Coverage against Runs, one panel for each mix; the band is 92 to 97 %."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(MIXES), figsize=(12, 4.2), sharey=True, layout="constrained"
    )
    places = np.arange(len(RUNS))
    for panel, mix in zip(panels, MIXES, strict=True):
        panel.axhspan(0.92, 0.97, color="0.9", zorder=0)
        panel.axhline(0.95, color="0.5", linewidth=0.8, zorder=1)
        for i, name in enumerate(names):
            shift = (i - (len(names) - 1) / 2) * 0.06
            shares = [found[mix, runs][name] for runs in RUNS]
            style = (
                {"color": "0.35", "marker": "x"}
                if i == 0 and len(names) > 3
                else {"color": f"C{i}", "marker": "o"}
            )
            panel.plot(
                places + shift,
                shares,
                linestyle=":",
                linewidth=0.8,
                markersize=5,
                label=name,
                **style,
            )
        panel.set_title(f"variance mostly {mix}" if mix != "both" else "both")
        panel.set_xticks(places, [str(runs) for runs in RUNS])
        panel.set_xlabel("Runs in a cell")
    panels[0].set_ylabel(f"coverage in {tables} tables")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=110)
    print(to)


if __name__ == "__main__":
    sys.exit(main())
