"""Replicates of cells' Run scores, for intervals of what has no formula.

A plain bootstrap is too narrow with few Runs: resampled Runs vary by (n - 1) / n of what Runs do,
normal quantiles stand where Student's belong, and Episodes resampled within each Run are taken to
be independent although all Runs share them.

Here, by cell (one entry on one Benchmark), a replicate of the Run scores is

    mean + sqrt(n / (n - 1)) (resampled deviations of the Runs) + error of the mean, f times

- Runs are resampled within the cell; one draw of Episodes serves all entries of a Benchmark (Owen
  2007); Benchmarks are strata.
- The error of the mean is that of the resampled Runs and of the resampled Episodes, each scaled to
  its variance component, since the rest (Run x Episode) would otherwise be counted twice.
- f = t / z: Student's quantile over the normal one, at the degrees of freedom of the statistic
  itself. They are Satterthwaite's, from a first pass with f = 1 that finds each source's share in
  the statistic's variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evopolicy.analysis.stats.components import Cell, Over, quiet, sources, spread, student_quantile
from evopolicy.analysis.stats.intervals import MIN_RUNS
from evopolicy.analysis.stats.statistics import Floats, normal_quantile
from evopolicy.analysis.stats.ties import ROUNDING

Key: TypeAlias = tuple[int, str]
"""Entry, Benchmark."""


@dataclass(frozen=True, eq=False)
class Draw:
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
    """Variance of the Runs' error over what is left of it without the rest, which the Episodes hold
    too."""

    def scores(self, factor: float) -> Floats:
        """(R, n)"""
        return self.centre + factor * (self.runs + self.episodes)


Draws: TypeAlias = Mapping[Key, Draw]
Scores: TypeAlias = Mapping[Key, Floats]


def by_benchmark(cells: Mapping[Key, Cell]) -> list[list[Cell]]:
    groups: dict[str, list[Cell]] = {}
    for (_, name), cell in cells.items():
        groups.setdefault(name, []).append(cell)
    return list(groups.values())


def draw_cells(
    cells: Mapping[Key, Cell], over: Over, rng: np.random.Generator, replicates: int
) -> Draws:
    """Replicates of every cell; one draw of Episodes for all entries of a Benchmark."""
    counts: dict[str, Floats | None] = {}
    draws: dict[Key, Draw] = {}
    for (entry, name), cell in cells.items():
        if name not in counts:
            there = [one for (_, benchmark), one in cells.items() if benchmark == name]
            if over != "runs":
                sources(
                    there, [1.0] * len(there)
                )  # refuses entries that do not share their Episodes
            several = over != "runs" and min(one.m for one in there) > 1
            counts[name] = _episode_counts(cells, name, rng, replicates) if several else None
        drawn = counts[name]
        if over == "episodes" and drawn is not None:
            draws[entry, name] = _of_fixed_runs(cell, drawn)
        elif cell.n < MIN_RUNS:
            draws[entry, name] = _of_too_few_runs(
                cell, pooled(cells, name) or (0.0, math.inf), drawn, rng, replicates
            )
        else:
            draws[entry, name] = _of_new_runs(cell, drawn, rng, replicates)
    return draws


def _episode_counts(
    cells: Mapping[Key, Cell], name: str, rng: np.random.Generator, replicates: int
) -> Floats:
    """How often (R, Episodes) each Episode was drawn; one that no entry has a score of never is."""
    there = np.any(
        [(~np.isnan(cell.table)).any(axis=0) for (_, b), cell in cells.items() if b == name], axis=0
    )
    m = int(there.sum())
    drawn = rng.integers(m, size=(replicates, m)) + m * np.arange(replicates)[:, np.newaxis]
    counts = np.zeros((replicates, there.size))
    counts[:, there] = np.bincount(drawn.ravel(), minlength=replicates * m).reshape(replicates, m)
    return counts


def _of_fixed_runs(cell: Cell, counts: Floats) -> Draw:
    """Each Run's mean over the Episodes drawn; a Run with none of them keeps its own."""
    there = ~np.isnan(cell.table)
    left = np.where(there, cell.table - cell.runs[:, np.newaxis], 0.0)
    drawn = counts @ there.T
    errors = (counts @ left.T) / np.where(drawn > 0, drawn, 1.0) * math.sqrt(cell.m / (cell.m - 1))
    errors[:, ~left.any(axis=1)] = 0.0
    return Draw(
        cell.runs[np.newaxis], np.zeros((len(counts), 1)), errors, cell.n - 1.0, cell.m - 1.0
    )


def _of_new_runs(
    cell: Cell, counts: Floats | None, rng: np.random.Generator, replicates: int
) -> Draw:
    n = cell.n
    deviations = (cell.run_parts * n) * math.sqrt(n / (n - 1))
    drawn = deviations[rng.integers(n, size=(replicates, n))]
    shift = drawn.mean(axis=1, keepdims=True)
    by_runs, size = spread(cell.run_parts, n), 1.0
    if counts is not None:
        own = sources([cell]).error("runs_and_episodes").variance
        rest = max(own - spread(cell.episode_parts, cell.m), 0.0)
        size = math.sqrt(rest / by_runs) if by_runs else 0.0
    twice = 1 / size**2 if size else 1.0
    errors = _by_episodes(cell, counts, replicates)
    return Draw(
        cell.mean + drawn - shift, shift * size, errors, n - 1.0, cell.m - 1.0, cell.rest_df, twice
    )


def _of_too_few_runs(
    cell: Cell,
    pooled: tuple[float, float],
    counts: Floats | None,
    rng: np.random.Generator,
    replicates: int,
) -> Draw:
    """The mean alone, with a normal error of the pooled variance of a Run and its degrees of
    freedom."""
    variance, df = pooled
    shift = math.sqrt(variance / cell.n) * rng.normal(size=(replicates, 1))
    return Draw(
        np.full((1, 1), cell.mean), shift, _by_episodes(cell, counts, replicates), df, cell.m - 1.0
    )


def _by_episodes(cell: Cell, counts: Floats | None, replicates: int) -> Floats:
    """Error of the mean (R, 1) by the Episodes drawn; none where they are kept."""
    if counts is None:
        return np.zeros((replicates, 1))
    m = cell.m
    return ((counts - 1.0) @ cell.episode_parts)[:, np.newaxis] * math.sqrt(m / (m - 1))


def pooled(cells: Mapping[Key, Cell], name: str) -> tuple[float, float] | None:
    """Variance of a Run's score on a Benchmark, over all entries whose Runs vary, with its degrees
    of freedom.

    None where no entry with MIN_RUNS Runs varies. Entries that never vary (a fixed Program, a
    published row held at its mean) say nothing of how far those do that have too few Runs."""
    varying = [
        cell for (_, benchmark), cell in cells.items() if benchmark == name and cell.run_parts.any()
    ]
    if not any(cell.n >= MIN_RUNS for cell in varying):
        return None
    df = sum(cell.n - 1.0 for cell in varying)
    return sum(spread(cell.run_parts, cell.n) * cell.n * (cell.n - 1) for cell in varying) / df, df


def scores_of(draws: Draws, factor: float) -> Scores:
    return {key: draw.scores(factor) for key, draw in draws.items()}


def as_found(cells: Mapping[Key, Cell]) -> Scores:
    """The Run scores as they are, as one replicate."""
    return {key: cell.runs[np.newaxis] for key, cell in cells.items()}


def percentiles(replicates: Floats, point: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Percentiles along the first axis; the estimate itself always lies between them."""
    low, high = np.quantile(replicates, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return np.minimum(low, point), np.maximum(high, point)


def widening(replicates: Floats, draws: Draws, level: float) -> tuple[float, float]:
    """t / z and the degrees of freedom of replicates (R,) of a statistic.

    The statistic is fitted by a line in the errors of all means; each source's share in the
    variance of that line weighs its degrees of freedom. Where it never moved, the fewest count."""
    columns: list[Floats] = []
    groups: dict[tuple[object, ...], tuple[list[int], Draw]] = {}
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
    moved = quiet(replicates - replicates.mean(), ROUNDING * float(np.abs(replicates).max()))
    slopes = np.linalg.lstsq(design.T @ design, design.T @ moved, rcond=None)[0]
    total, squares, fewest = 0.0, 0.0, math.inf
    for kind, (which, draw) in groups.items():
        part = float((design[:, which] @ slopes[which]).var())
        total += part
        if len(kind) == 1:
            squares += part**2 / draw.episode_df
        else:
            squares += (part * draw.twice) ** 2 / draw.run_df
            squares += (
                (part * (draw.twice - 1)) ** 2 / draw.rest_df
                if draw.twice > 1 and draw.rest_df
                else 0.0
            )
        fewest = min(fewest, draw.episode_df if len(kind) == 1 else draw.run_df)
    df = total**2 / squares if squares > 0 else fewest
    return student_quantile(level, df) / normal_quantile(level), df
