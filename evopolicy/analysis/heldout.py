"""Held-out Episodes of Runs, and whether those of one Benchmark are the same Episodes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from evopolicy.analysis.columns import rows_of
from evopolicy.analysis.frames import Frames
from evopolicy.analysis.scores import CellScore
from evopolicy.analysis.statistics import Floats

_EPISODES_ARE = ("parameters", "pool")
"""Conditions that decide which Episode an index is."""


def heldout_scores(frames: Frames, runs: Collection[str]) -> dict[str, dict[int, float]]:
    """By Run, the score of its selected Program on each Assessment index that is on disk."""
    chosen = {row["run"]: row["selected_program"] for row in rows_of(frames.runs) if row["run"] in runs}
    found: dict[str, dict[int, float]] = {run: {} for run in chosen}
    episodes = frames.episodes[frames.episodes["split"] == "assessment"]
    keys = zip(episodes["run"], episodes["program"], episodes["index"], episodes["score"], strict=True)
    for run, program, index, score in keys:
        if run in chosen and program == chosen[run]:
            found[run][int(index)] = float(score)
    return found


def as_columns(rows: Sequence[Mapping[int, float]], indices: Sequence[int]) -> Floats:
    """A table (Runs, Episodes) of `rows`, NaN where a Run has no score of an index."""
    return np.array([[row.get(index, math.nan) for index in indices] for row in rows], dtype=float)


def unlike_benchmarks(scores: Iterable[CellScore]) -> tuple[str, ...]:
    """Benchmarks on which the done cells differ in parameters or pool: one index is another Episode in each, so that
    Episodes must not be paired."""
    found: dict[str, set[tuple[str | None, ...]]] = {}
    for score in scores:
        if score.status == "done" and score.conditions:
            found.setdefault(score.benchmark, set()).add(tuple(score.conditions.get(name) for name in _EPISODES_ARE))
    return tuple(benchmark for benchmark, kinds in found.items() if len(kinds) > 1)


def unlike_note(benchmarks: Collection[str]) -> list[str]:
    """What has to be known of intervals on `benchmarks`."""
    if not benchmarks:
        return []
    return [f"Other Episodes in other Runs, so none are paired and a Run counts as its mean: {', '.join(benchmarks)}."]
