"""Held-out Episodes of Runs, and whether those of one Benchmark are the same Episodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pandas as pd

from evopolicy.analysis.records.conditions import drawn_by
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.stats.statistics import Floats


def heldout_scores(frames: Frames, runs: pd.DataFrame) -> pd.DataFrame:
    """The score of the selected Program of each of `runs` (rows, by run) on each Assessment index
    (columns) on disk.

    `runs` is of `frames.runs`; NaN where a Run has no score of an index.
    """
    episodes = frames.episodes[frames.episodes["split"] == "assessment"]
    chosen = runs[["run", "selected_program"]].rename(columns={"selected_program": "program"})
    found = episodes.merge(chosen, on=["run", "program"]).drop_duplicates(
        ["run", "index"], keep="last"
    )
    return found.pivot(index="run", columns="index", values="score").reindex(runs["run"])


def heldout_tables(
    frames: Frames, runs: pd.DataFrame, unlike: Collection[str | tuple[str, str]]
) -> tuple[dict[str, dict[str, Floats]], list[tuple[str, str]]]:
    """Held-out scores (Runs, Episodes) of `runs` by entry and Benchmark, and the cells that have
    none.

    The columns of one Benchmark are the same Episodes for every entry; NaN where a Run has no score
    of one. A cell has no table where the Episodes of a Run of it are not on disk.

    Args:
        runs: of `frames.runs`. unlike: Benchmarks, or single cells (entry, Benchmark), whose Runs
        met other Episodes than each other; they have
            one column, the Runs' means.
    """
    cells = list(zip(runs["entry"], runs["benchmark"], strict=True))
    apart = np.array([cell in unlike or cell[1] in unlike for cell in cells], dtype=bool)
    scores = heldout_scores(frames, runs[~apart])
    met = {
        str(benchmark): scores.loc[of["run"].tolist()].notna().any()
        for benchmark, of in runs[~apart].groupby("benchmark")
    }
    tables: dict[str, dict[str, Floats]] = {}
    lacking = []
    for entry, benchmark in dict.fromkeys(cells):
        of = runs[(runs["entry"] == entry) & (runs["benchmark"] == benchmark)]
        if (entry, benchmark) in unlike or benchmark in unlike:
            found = of[["heldout_mean"]]
        else:
            found = scores.loc[of["run"].tolist(), met[benchmark]]
            if found.isna().all(axis=1).any():
                lacking.append((entry, benchmark))
                continue
        tables.setdefault(entry, {})[benchmark] = found.to_numpy(dtype=float)
    return tables, lacking


def unlike_benchmarks(scores: Iterable[CellScore]) -> tuple[str, ...]:
    """Benchmarks on which the done cells do not draw the same Episodes: one index is another
    Episode in each, so that Episodes must not be paired."""
    return tuple(benchmark for (benchmark,) in _unlike(scores, lambda score: (score.benchmark,)))


def unlike_cells(scores: Iterable[CellScore]) -> tuple[tuple[str, str], ...]:
    """Entries and Benchmarks whose own Runs do not draw the same Episodes. What is said of one
    entry alone pairs no other's."""
    return tuple(
        (entry, slug)
        for entry, slug in _unlike(scores, lambda score: (score.entry, score.benchmark))
    )


def _unlike(
    scores: Iterable[CellScore], key: Callable[[CellScore], tuple[str, ...]]
) -> list[tuple[str, ...]]:
    found: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}
    for score in scores:
        if score.status == "done" and score.conditions:
            found.setdefault(key(score), set()).add(drawn_by(score.conditions, score.settings))
    return [name for name, kinds in found.items() if len(kinds) > 1]


def unlike_note(names: Collection[str]) -> list[str]:
    """What has to be known of intervals on `names`, Benchmarks or single cells."""
    if not names:
        return []
    return [
        "Other Episodes in other Runs, so none are paired and a Run counts as its mean: "
        f"{', '.join(names)}."
    ]
