"""What figures are made of: the Runs that may be compared, and their held-out scores as tables."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.records.heldout import heldout_tables as episode_tables
from evopolicy.analysis.records.heldout import unlike_benchmarks, unlike_note
from evopolicy.analysis.records.scores import check_comparable, mixed_names
from evopolicy.analysis.stats.intervals import MIXED, few_runs_foot
from evopolicy.analysis.stats.statistics import Floats
from evopolicy.analysis.tables.estimates import estimated
from evopolicy.analysis.tables.footnotes import about
from evopolicy.kernel.errors import ConfigError, RecordError, did_you_mean
from evopolicy.present.numbers import plural

_NAMED = 6
Tables = Mapping[str, Mapping[str, Floats]]
"""Held-out scores (Runs, Episodes) by entry and Benchmark."""


@dataclass(frozen=True, eq=False)
class FigureInputs:
    """The valid Runs of a comparison."""

    frames: Frames
    """Of these Runs alone."""
    entries: tuple[str, ...]
    """In the order that gives them their colours."""
    benchmarks: tuple[str, ...]
    runs: Mapping[tuple[str, str], tuple[str, ...]]
    """Runs by entry and Benchmark."""
    notes: tuple[str, ...]
    """What is left out or mixed."""
    unlike: tuple[str, ...] = ()
    """Benchmarks whose Runs were measured on other Episodes than each other."""

    @functools.cached_property
    def heldout(self) -> tuple[Tables, tuple[str, ...]]:
        """`heldout_tables`, and what has to be known of them."""
        runs = self.frames.runs
        tables, lacking = episode_tables(self.frames, runs, self.unlike)
        if not lacking:
            return tables, ()
        gone = dict.fromkeys(benchmark for _, benchmark in lacking)
        tables, _ = episode_tables(self.frames, runs, [*self.unlike, *gone])
        some = ", ".join(f"{entry} on {benchmark}" for entry, benchmark in lacking[:_NAMED])
        more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
        said = (
            f"Episodes of {some}{more} are not on disk, so a Run counts as one Episode, its "
            f"mean: {', '.join(gone)}."
        )
        return tables, (said,)

    def estimated(self, columns: Collection[str]) -> list[str]:
        """The entries of which one of these columns of `usage` is, or has in it, an estimate."""
        usage = self.frames.usage
        return sorted(
            {entry for column in columns for entry in usage.loc[estimated(usage, column), "entry"]}
        )

    def count(self, entries: Collection[str] = (), benchmarks: Collection[str] = ()) -> str:
        """`N = 18 Runs, 3 an entry and Benchmark.`: how many are drawn, of `entries` on
        `benchmarks`, or of all.

        A Run that several entries read (by another selection rule, a regrade) counts once.
        """
        runs = self.frames.runs
        keys = dict(
            zip(runs["run"], runs["key"].replace("", pd.NA).fillna(runs["run"]), strict=True)
        )
        cells = [
            Counter(keys[run] for run in runs)
            for (entry, benchmark), runs in self.runs.items()
            if (not entries or entry in entries) and (not benchmarks or benchmark in benchmarks)
        ]
        sizes = sorted({cell.total() for cell in cells})
        each = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
        once: Counter[str] = functools.reduce(operator.or_, cells)
        again = sum(cell.total() for cell in cells) - once.total()
        read = (
            f"; {plural(once.total() + again, 'reading')} of them, by several rules"
            if again
            else ""
        )
        return f"N = {plural(once.total(), 'Run')}, {each} an entry and Benchmark{read}."


def few_runs(tables: Tables, benchmarks: Collection[str]) -> str:
    """The sentence that names the cells of `tables`, of those Benchmarks, whose Runs are too few;
    '' for none."""
    counts = {
        f"{entry} on {b}": len(of[b]) for entry, of in tables.items() for b in of if b in benchmarks
    }
    return few_runs_foot(counts, MIXED)


def gather(
    frames: Frames, entries: Sequence[str] = (), allow: Collection[str] = ()
) -> FigureInputs:
    """The valid Runs of `frames`, of all entries in alphabetical order or of `entries` in theirs.

    Raises RecordError where there is none, and where conditions differ that may not (see
    `scores.check_comparable`); ConfigError for an entry there is not."""
    there = sorted({str(entry) for entry in frames.runs["entry"]})
    for entry in entries:
        if entry not in there:
            raise ConfigError(
                f"entries: there is no entry '{entry}' here.{did_you_mean(entry, there)}"
            )
    done = [
        s for s in frames.scores() if s.status == "done" and s.entry in (list(entries) or there)
    ]
    mixes, unlike, names = check_comparable(done, allow), unlike_benchmarks(done), mixed_names(done)
    if names:
        frames = frames.renamed(names)
        entries, there = ([names.get(entry, entry) for entry in part] for part in (entries, there))
    chosen = frames.runs[frames.runs["entry"].isin(list(entries) or there)]
    valid = chosen[chosen["valid"]]
    if valid.empty:
        raise RecordError(
            f"figure: none of {len(chosen)} Runs has a valid held-out result; there is nothing to "
            "draw"
        )
    picked = of_runs(frames, set(valid["run"]))
    runs: dict[tuple[str, str], list[str]] = {}
    for entry, benchmark, run in zip(valid["entry"], valid["benchmark"], valid["run"], strict=True):
        runs.setdefault((entry, benchmark), []).append(run)
    left = len(chosen) - len(valid)
    notes = (
        [f"Left out: {left} of {len(chosen)} Runs, without a valid held-out result."]
        if left
        else []
    )
    notes += [
        *_gap_note(frames, entries),
        *about([s for s in frames.scores() if s.entry in (list(entries) or there)]),
    ]
    return FigureInputs(
        picked,
        tuple(dict.fromkeys([*entries] or there)),
        tuple(dict.fromkeys(benchmark for _, benchmark in runs)),
        {key: tuple(found) for key, found in runs.items()},
        (*notes, *mixes, *unlike_note(unlike)),
        unlike,
    )


def _gap_note(frames: Frames, entries: Sequence[str]) -> list[str]:
    """What was planned or found and is no Run here: of `entries`, or all; a folder alone may be
    anybody's."""
    gaps = frames.gaps[~frames.gaps["run"].isin(frames.runs["run"])]
    gaps = gaps[gaps["entry"].isna() | gaps["entry"].isin(list(entries))] if entries else gaps
    broken = int((gaps["status"] == "unreadable").sum())
    counts = (
        (len(gaps) - broken, "planned cell", "without a Run"),
        (broken, "record", "that cannot be read"),
    )
    found = [f"{plural(count, what)} {why}" for count, what, why in counts if count]
    return [f"Left out: {' and '.join(found)}."] if found else []


def of_runs(frames: Frames, runs: Collection[str]) -> Frames:
    """`frames` of `runs` alone; without gaps."""
    names = ("runs", "submissions", "episodes", "programs", "candidates", "usage")
    parts = {name: getattr(frames, name) for name in names}
    return replace(
        frames,
        gaps=frames.gaps.iloc[:0],
        **{
            name: part[part["run"].isin(list(runs))].reset_index(drop=True)
            for name, part in parts.items()
        },
    )


def heldout_tables(inputs: FigureInputs) -> Tables:
    """Held-out scores (Runs, Episodes); entries of one Benchmark share the columns, NaN where there
    is no score.

    Where the Episodes of a Run are not on disk, or are others than those of the other Runs, its
    Benchmark has one column: the Runs' means."""
    return inputs.heldout[0]
