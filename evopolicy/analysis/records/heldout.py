"""Held-out Episodes of Runs, and whether those of one Benchmark are the same Episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evopolicy.analysis.records.columns import rows_of
from evopolicy.analysis.records.conditions import drawn_by
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.stats.statistics import Floats


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


def heldout_tables(
    frames: Frames, runs: Iterable[Mapping[str, Any]], unlike: Collection[str | tuple[str, str]]
) -> tuple[dict[str, dict[str, Floats]], list[tuple[str, str]]]:
    """Held-out scores (Runs, Episodes) of `runs` by entry and Benchmark, and the cells that have none.

    The columns of one Benchmark are the same Episodes for every entry; NaN where a Run has no score of one. A cell
    has no table where the Episodes of a Run of it are not on disk.

    Args:
        runs: rows of `frames.runs`.
        unlike: Benchmarks, or single cells (entry, Benchmark), whose Runs met other Episodes than each other; they have
            one column, the Runs' means.
    """
    rows = list(runs)
    scores = heldout_scores(frames, {run["run"] for run in rows})
    found: dict[tuple[str, str], list[dict[int, float]]] = {}
    indices: dict[str, set[int]] = {}
    apart = {cell for run in rows if (cell := (run["entry"], run["benchmark"])) in unlike or cell[1] in unlike}
    for run in rows:
        cell = run["entry"], run["benchmark"]
        found.setdefault(cell, []).append({0: run["heldout_mean"]} if cell in apart else scores[run["run"]])
        if cell not in apart:
            indices.setdefault(cell[1], set()).update(scores[run["run"]])
    lacking = [cell for cell, of in found.items() if not all(of)]
    tables: dict[str, dict[str, Floats]] = {}
    for cell, of in found.items():
        if all(of):
            tables.setdefault(cell[0], {})[cell[1]] = as_columns(of, [0] if cell in apart else sorted(indices[cell[1]]))
    return tables, lacking


def unlike_benchmarks(scores: Iterable[CellScore]) -> tuple[str, ...]:
    """Benchmarks on which the done cells do not draw the same Episodes: one index is another Episode in each, so that
    Episodes must not be paired."""
    return tuple(benchmark for (benchmark,) in _unlike(scores, lambda score: (score.benchmark,)))


def unlike_cells(scores: Iterable[CellScore]) -> tuple[tuple[str, str], ...]:
    """Entries and Benchmarks whose own Runs do not draw the same Episodes. What is said of one entry alone pairs no
    other's."""
    return tuple((entry, slug) for entry, slug in _unlike(scores, lambda score: (score.entry, score.benchmark)))


def _unlike(scores: Iterable[CellScore], key: Callable[[CellScore], tuple[str, ...]]) -> list[tuple[str, ...]]:
    found: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}
    for score in scores:
        if score.status == "done" and score.conditions:
            found.setdefault(key(score), set()).add(drawn_by(score.conditions, score.settings))
    return [name for name, kinds in found.items() if len(kinds) > 1]


def unlike_note(names: Collection[str]) -> list[str]:
    """What has to be known of intervals on `names`, Benchmarks or single cells."""
    if not names:
        return []
    return [f"Other Episodes in other Runs, so none are paired and a Run counts as its mean: {', '.join(names)}."]
