"""Runs that are copies of each other: levels of a swept setting that changed nothing, seeds that
gave one Program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from evopolicy.analysis.records.conditions import drawn_by
from evopolicy.kernel.values import digest
from evopolicy.present.numbers import plural

if TYPE_CHECKING:
    from evopolicy.analysis.records.scores import CellScore

_NAMED = 6
"""Sets of copies that are named before the others are counted."""


def trajectory_of(programs: Iterable[str]) -> str:
    """Equal of two Runs exactly where their Submissions, in order, are of the same Programs; ''
    without any."""
    submitted = list(programs)
    return digest("evopolicy/trajectory/1", submitted) if submitted else ""


def equal_levels(scores: Sequence[CellScore]) -> list[str]:
    """A sentence for every set of entries that differ in one swept setting alone and submitted the
    same Programs.

    Selectors and scores are left out: an index that names another Episode at the very end is no
    other search. Two readings of one Run (another selection rule, a regrade) are the same by their
    nature, and not told."""
    copies: dict[tuple[str, str, tuple[str, ...]], int] = defaultdict(int)
    compared: dict[tuple[str, str], int] = defaultdict(int)
    for key, rest, cells in _beside_each_other(scores):
        compared[key, rest] += 1
        by_trajectory: dict[str, list[CellScore]] = defaultdict(list)
        for score in cells:
            by_trajectory[score.trajectory].append(score)
        for trajectory, found in by_trajectory.items():
            if trajectory and len({score.key for score in found}) > 1:
                copies[key, rest, tuple(sorted((s.axes[key] for s in found), key=_in_size))] += 1
    words = [
        f"{rest} {key}={'|'.join(levels)} in {count} of {plural(compared[key, rest], 'cell')}"
        for (key, rest, levels), count in copies.items()
    ]
    said = "Levels that changed nothing, the same Programs were submitted in the same order: "
    return [f"{said}{_few(words)}."] if words else []


def equal_seeds(scores: Sequence[CellScore]) -> list[str]:
    """A sentence for the entries of which several seeds have one selected Program, on the same
    held-out Episodes.

    An agent that draws nothing (`baseline`) is measured once, however many seeds it has.
    """
    cells: dict[tuple[str, str], list[CellScore]] = defaultdict(list)
    for score in scores:
        cells[score.entry, score.benchmark].append(score)
    shared: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for (entry, benchmark), found in cells.items():
        seeds: dict[tuple[object, ...], set[int]] = defaultdict(set)
        for score in found:
            seeds[score.selected, score.episodes, drawn_by(score.conditions, score.settings)].add(
                score.seed
            )
        if copies := set().union(
            *(same for (program, *_), same in seeds.items() if program and len(same) > 1)
        ):
            shared[entry, len(copies), len({score.seed for score in found})].append(benchmark)
    alike: dict[tuple[tuple[str, ...], int, int], list[str]] = defaultdict(list)
    for (entry, copies_of, of), benchmarks in shared.items():
        alike[tuple(benchmarks), copies_of, of].append(entry)
    words = [
        f"{', '.join(entries)} ({copies_of} of {of} on "
        f"{benchmarks[0] if len(benchmarks) == 1 else plural(len(benchmarks), 'Benchmark')})"
        for (benchmarks, copies_of, of), entries in alike.items()
    ]
    said = (
        "Such Runs are copies, counted one by one: no spread lies between them, and an "
        "interval of them speaks of "
    )
    return (
        [f"Several seeds gave the same Program: {_few(words)}. {said}Episodes only."]
        if words
        else []
    )


def _few(words: Sequence[str]) -> str:
    return "; ".join(words[:_NAMED]) + (
        f"; and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    )


def _beside_each_other(scores: Sequence[CellScore]) -> Iterator[tuple[str, str, list[CellScore]]]:
    """By swept setting and the rest of the entries' names, the cells of one Benchmark and seed; two
    at the least."""
    found: dict[tuple[str, str, str, int], list[CellScore]] = defaultdict(list)
    for score in scores:
        for key, value in score.axes.items():
            rest = score.entry.replace(f" {key}={value}", "", 1)
            if rest != score.entry:
                found[key, rest, score.benchmark, score.seed].append(score)
    for (key, rest, *_), cells in sorted(found.items(), key=lambda item: item[0][:2]):
        if len(cells) > 1:
            yield key, rest, cells


def _in_size(level: str) -> tuple[int, str]:
    """Orders 16 before 128."""
    return len(level), level
