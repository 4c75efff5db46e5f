"""What stands in a table: a person's own cells and the published ones, chosen, checked and
named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from evopolicy.analysis.paper.protocol import protocol_note
from evopolicy.analysis.paper.published import (
    AGENTS,
    CORE16,
    DEMANDS,
    ENTRIES,
    FAMILIES,
    NOTE,
    SLUGS,
    as_published,
    gymnasium_id,
    published_scores,
    slugs_of,
)
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.records.heldout import unlike_benchmarks, unlike_cells, unlike_note
from evopolicy.analysis.records.scores import CellScore, check_comparable, mixed_names, name_missing
from evopolicy.analysis.stats.intervals import MIXED, few_runs_foot
from evopolicy.analysis.tables.config import TableConfig
from evopolicy.analysis.tables.footnotes import about
from evopolicy.kernel.errors import ConfigError, RecordError, did_you_mean
from evopolicy.present.table import PUBLISHED_MARK, Cell

_NAMED = 6
_PER_BENCHMARK = ("rank", "heldout", "normalized", "difference")
"""Kinds whose published rows are numbers of single Benchmarks; others published means over groups
of them."""
PAIRED = ("rank", "difference")
"""Of them, those that pair Episodes across entries."""
_PUBLISHED = (*_PER_BENCHMARK, "edits", "code")


@dataclass(frozen=True, eq=False)
class TableInputs:
    """The cells of a table; Benchmarks are named by slug."""

    config: TableConfig
    frames: Frames | None
    """None where there are published rows alone."""
    own: tuple[CellScore, ...]
    published: tuple[CellScore, ...]
    names: Mapping[str, str]
    """Published entries by the name they have here: their own, unless a person's entry has it."""
    benchmarks: tuple[str, ...]
    """Slugs, the paper's in its order first."""
    titles: Mapping[str, str]
    """What a Benchmark is called, by slug."""
    ids: Mapping[str, str]
    """Gymnasium id by slug, of those that are known."""
    notes: tuple[str, ...]

    @property
    def scores(self) -> list[CellScore]:
        """Every cell, the published ones first."""
        return [*self.published, *self.own]

    @property
    def entries(self) -> tuple[str, ...]:
        """As asked for, else the published ones before a person's own."""
        found = tuple(dict.fromkeys([*self.names, *(score.entry for score in self.own)]))
        return self.config.entries or found

    def is_published(self, entry: str) -> bool:
        """Whether the row of that name is the paper's."""
        return entry in self.names

    def named(self, entry: str) -> Cell:
        """The cell that names a row."""
        return Cell(entry, f"{entry} {PUBLISHED_MARK}" if self.is_published(entry) else entry)

    def origin(self, entry: str) -> Cell:
        """Where a row comes from, for CSV."""
        return Cell("published" if self.is_published(entry) else "runs")

    def group(self, benchmark: str) -> str:
        """The group of a Benchmark under `by`; '' for all, 'other' outside Core16."""
        known = {"demand": DEMANDS, "category": FAMILIES}.get(self.config.by)
        return "" if known is None else known.get(self.ids.get(benchmark, ""), "other")

    def groups(self) -> tuple[str, ...]:
        """The groups there are, in the paper's order."""
        order = [*dict.fromkeys(DEMANDS.values()), *dict.fromkeys(FAMILIES.values()), "", "other"]
        order = ["synthesis", "tuning", *order]
        there = {*self.benchmarks, *(score.benchmark for score in self.published)}
        return tuple(sorted({self.group(benchmark) for benchmark in there}, key=order.index))

    def valid(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of a frame of this table's valid Runs."""
        done = {(score.entry, score.benchmark) for score in self.own if score.status == "done"}
        pairs = zip(frame["entry"], frame["benchmark"], frame["valid"], strict=True)
        return frame[
            [bool(valid) and (entry, benchmark) in done for entry, benchmark, valid in pairs]
        ]

    def table(self) -> Frames:
        """The frames. Raises ConfigError where only published rows are there."""
        if self.frames is None:
            raise ConfigError("table: it needs Runs; name them, sweep=NAME or source=FOLDER")
        return self.frames


def gather(config: TableConfig, frames: Frames | None) -> TableInputs:
    """The cells a table is made of.

    Raises ConfigError for an entry or Benchmark there is not and where there is nothing to show;
    RecordError where conditions differ that may not, or (unless a rank table decides itself) where
    cells are missing that may not."""
    published = _published(config)
    if frames is None and not published:
        raise ConfigError(
            f"table: of {config.kind} no published rows are shown; name Runs, sweep=NAME or "
            "source=FOLDER"
        )
    own = frames.scores() if frames is not None else []
    slugs = _slugs(own)
    published = [replace(score, benchmark=slugs[score.benchmark_id]) for score in published]
    names = _published_names(own, published)
    published = [replace(score, entry=names[score.entry]) for score in published]
    own, published, left_out = _choose(config, own, published, slugs)
    shown = {score.entry for score in published}
    back = {name: entry for entry, name in names.items() if name in shown}
    mixes = check_comparable(own, config.allow)
    if frames is not None and (mixed := mixed_names(own)):
        own = [replace(score, entry=mixed.get(score.entry, score.entry)) for score in own]
        config = replace(config, entries=tuple(mixed.get(entry, entry) for entry in config.entries))
        frames = frames.renamed(mixed)
    ids = {slugs[b.id]: b.id for b in CORE16}
    ids |= {
        score.benchmark: gymnasium_id(score.benchmark_id) for score in own if score.benchmark_id
    }
    benchmarks = _benchmarks(config, own, published, slugs)
    notes = [
        *left_out,
        *mixes,
        *_unlike_notes(config, own),
        *_published_notes(back, own),
        *_run_notes(config, own),
    ]
    inputs = TableInputs(
        config,
        frames,
        tuple(own),
        tuple(published),
        back,
        benchmarks,
        _titles(benchmarks, ids),
        ids,
        (),
    )
    if config.kind == "rank":
        return replace(inputs, notes=tuple(notes))
    found = _missing(inputs)
    means = config.rows == "entries" and config.kind != "heldout"
    complete = _complete(inputs) if means and (found or config.kind == "normalized") else benchmarks
    if len(complete) < len(benchmarks):
        whose = "entries" if config.kind in _PER_BENCHMARK or not published else "entries of Runs"
        found.append(
            f"Over the {len(complete)} of {len(benchmarks)} Benchmarks that are complete for all "
            f"{whose}."
        )
        inputs = _restricted(inputs, complete)
    found += _scope_notes(inputs)
    return replace(inputs, notes=(*notes, *found))


def _published(config: TableConfig) -> list[CellScore]:
    """The published cells, of the entries of which there is something to show."""
    if not config.published or config.kind not in _PUBLISHED or config.rows == "cells":
        return []
    return published_scores(ENTRIES if config.kind in _PER_BENCHMARK else AGENTS)


def _slugs(own: Sequence[CellScore]) -> dict[str, str]:
    """Our slug of each published Benchmark, by Gymnasium id: of the Runs that are of it, else the
    suite's."""
    found = slugs_of((score.benchmark, score.benchmark_id) for score in own)
    return {id_: found.get(id_, slug) for id_, slug in SLUGS.items()}


def _published_names(own: Sequence[CellScore], published: Sequence[CellScore]) -> dict[str, str]:
    taken = {score.entry for score in own}
    return {
        e: as_published(e) if e in taken else e
        for e in ENTRIES
        if any(s.entry == e for s in published)
    }


def _choose(
    config: TableConfig, own: list[CellScore], published: list[CellScore], slugs: Mapping[str, str]
) -> tuple[list[CellScore], list[CellScore], list[str]]:
    """The cells of the entries and Benchmarks that were asked for, and what is left out of the
    table."""
    scores = [*own, *published]
    entries = list(dict.fromkeys(score.entry for score in scores))
    for name in config.entries:
        if name not in entries:
            raise ConfigError(
                f"entries: there is no entry '{name}' here.{did_you_mean(name, entries)}"
            )
    chosen = set(config.entries or entries)
    wanted = (
        set(_wanted(config, own, slugs))
        if config.benchmarks
        else {score.benchmark for score in scores}
    )
    beside = list(dict.fromkeys(score.benchmark for score in own if score.benchmark not in wanted))
    notes = [f"Not of this table's Benchmarks and left out: {_few(beside)}."] if beside else []
    kept = [
        [s for s in part if s.entry in chosen and s.benchmark in wanted]
        for part in (own, published)
    ]
    if own and not kept[0]:
        raise RecordError(
            "table: none of your Runs is of this table's entries and Benchmarks (yours: "
            f"{_few(beside or entries)}); name a table that has them, or benchmarks=[...]"
        )
    if not any(kept):
        raise RecordError(
            "table: none of the Runs is of the entries and Benchmarks it shows; change the two, "
            "or source"
        )
    return kept[0], kept[1], notes


def _wanted(config: TableConfig, own: Sequence[CellScore], slugs: Mapping[str, str]) -> list[str]:
    """Slugs of `config.benchmarks`."""
    known = {**slugs, **{slug: slug for slug in slugs.values()}}
    known |= {
        name: score.benchmark
        for score in own
        for name in (score.benchmark, score.benchmark_id)
        if name
    }
    known |= slugs_of((score.benchmark, score.benchmark_id) for score in own)
    found: dict[str, None] = {}
    for name in config.benchmarks:
        if name == "core16":
            found.update(dict.fromkeys(slugs.values()))
        elif name in known:
            found[known[name]] = None
        else:
            raise ConfigError(
                f"benchmarks: there is no Benchmark '{name}' "
                f"here.{did_you_mean(name, [*known, 'core16'])}"
            )
    return list(found)


def _benchmarks(
    config: TableConfig,
    own: Sequence[CellScore],
    published: Sequence[CellScore],
    slugs: Mapping[str, str],
) -> tuple[str, ...]:
    if config.benchmarks:
        return tuple(_wanted(config, own, slugs))
    there = {score.benchmark: None for score in (*published, *own)}
    if config.kind not in _PER_BENCHMARK and own:
        there = {score.benchmark: None for score in own}
    paper = [slug for slug in slugs.values() if slug in there]
    return (*paper, *(slug for slug in there if slug not in paper))


def _titles(benchmarks: Sequence[str], ids: Mapping[str, str]) -> dict[str, str]:
    """Gymnasium ids, where that tells them apart."""
    often = Counter(ids.get(slug, slug) for slug in benchmarks)
    return {slug: name if often[name := ids.get(slug, slug)] == 1 else slug for slug in benchmarks}


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


# --- what has to be known -------------------------------------------------------------------------


def _published_notes(names: Mapping[str, str], own: Sequence[CellScore]) -> list[str]:
    if not names:
        return []
    return [f"{PUBLISHED_MARK} {NOTE}", *protocol_note(own)]


def _unlike_notes(config: TableConfig, own: Sequence[CellScore]) -> list[str]:
    """Where Episodes cannot be paired: across entries in ranks, else within one entry's own
    Runs."""
    if config.kind not in _PER_BENCHMARK or config.over is None:
        return []
    if config.kind in PAIRED:
        return unlike_note(unlike_benchmarks(own))
    return unlike_note([f"{entry} on {slug}" for entry, slug in unlike_cells(own)])


def _scope_notes(inputs: TableInputs) -> list[str]:
    """Where published means over groups stand beside Runs of other Benchmarks."""
    paper = {slug for slug, id_ in inputs.ids.items() if id_ in SLUGS}
    there = [
        slug for slug in inputs.benchmarks if any(score.benchmark == slug for score in inputs.own)
    ]
    if (
        inputs.config.kind in _PER_BENCHMARK
        or not (inputs.published and there)
        or set(there) == paper
    ):
        return []
    titles = _few([inputs.titles[slug] for slug in there])
    return [
        f"Published rows are over all {len(SLUGS)} Benchmarks of Core16, the others over {titles} "
        "alone."
    ]


def _run_notes(config: TableConfig, own: Sequence[CellScore]) -> list[str]:
    notes = list(about(own))
    counts = Counter(
        f"{score.entry} on {score.benchmark}" for score in own if score.status == "done"
    )
    if config.kind not in _PER_BENCHMARK:
        foot = few_runs_foot(counts, "they do not say what another Run would do")
    elif config.over is None:
        foot = few_runs_foot(counts, "they do not say what another Run would score")
    elif config.kind == "rank" and config.over != "episodes":
        foot = ""  # the intervals themselves say whose there are none of
    else:
        foot = (
            few_runs_foot(counts, MIXED) if config.kind == "normalized" else few_runs_foot(counts)
        )
    return [*notes, *([foot] if foot else [])]


def _complete(inputs: TableInputs) -> tuple[str, ...]:
    """The Benchmarks on which every entry has all its cells."""
    cells = [*inputs.own, *(inputs.published if inputs.config.kind in _PER_BENCHMARK else ())]
    entries = {score.entry for score in cells}
    gone = {score.benchmark for score in cells if score.status != "done"}
    there = {(score.entry, score.benchmark) for score in cells}
    return tuple(
        b
        for b in inputs.benchmarks
        if b not in gone and all((entry, b) in there for entry in entries)
    )


def _restricted(inputs: TableInputs, benchmarks: Sequence[str]) -> TableInputs:
    """`inputs` with the cells of `benchmarks` alone, but for what the paper published over all of
    its Benchmarks."""
    if not benchmarks:
        raise RecordError(
            "table: no Benchmark is complete for all entries; run what is missing, or choose "
            "entries"
        )
    own = tuple(score for score in inputs.own if score.benchmark in benchmarks)
    published = inputs.published
    if inputs.config.kind in _PER_BENCHMARK:
        published = tuple(score for score in published if score.benchmark in benchmarks)
    return replace(inputs, own=own, published=published, benchmarks=tuple(benchmarks))


def _missing(inputs: TableInputs) -> list[str]:
    """Refuse missing cells of a person's entries, or name them."""
    own = inputs.own
    gone = [score for score in own if score.status != "done"]
    there = {(score.entry, score.benchmark) for score in own}
    entries = dict.fromkeys(score.entry for score in own)
    never = [f"{e} on {b}" for e in entries for b in inputs.benchmarks if (e, b) not in there]
    if not gone and not never:
        return []
    words = name_missing(gone, never, 4)
    count = f"{len(gone) + len(never)} cells have no valid result ({words})"
    if inputs.config.missing == "refuse":
        raise RecordError(f"table: {count}; run them, or set missing=exclude")
    return [f"Missing: {count}."]
