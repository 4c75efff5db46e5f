"""Tables of held-out scores: ranks, the scores themselves, and scores between two anchors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evopolicy.analysis.paper.anchors import Anchors, Scale, find_scale, scaled
from evopolicy.analysis.paper.facts import NORMALIZED_NOTE
from evopolicy.analysis.paper.published import DEMANDS, FAMILIES, SOURCE, as_published, slugs_of
from evopolicy.analysis.records.heldout import heldout_tables, unlike_benchmarks, unlike_cells
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.stats.intervals import MIN_RUNS, Interval, interval_notes
from evopolicy.analysis.stats.rank import average_seeds
from evopolicy.analysis.stats.resampling import aggregate_interval, rank_score_intervals
from evopolicy.analysis.stats.statistics import Floats, aggregate
from evopolicy.analysis.tables.config import COLUMNS
from evopolicy.analysis.tables.inputs import PAIRED, TableInputs
from evopolicy.analysis.tables.marks import mark_best, mark_columns
from evopolicy.analysis.tables.ranks import EntryRank, RankTable, rank_table
from evopolicy.kernel.errors import RecordError
from evopolicy.present.numbers import fitting
from evopolicy.present.table import Cell, Column, Table, number, words

_DIGITS = 3
"""Decimals of scores between 0 and 1."""
Tables = Mapping[str, Mapping[str, Floats]]
"""Held-out scores (Runs, Episodes) by entry and Benchmark."""


# --- ranks ----------------------------------------------------------------------------------------


def rank_score_table(inputs: TableInputs, name: str) -> Table:
    """Entries by rank score. Raises RecordError where `missing` refuses what is not there."""
    config = inputs.config
    scores = [
        score for slug in inputs.benchmarks for score in inputs.scores if score.benchmark == slug
    ]
    table = rank_table(
        [],
        missing=config.missing,
        allow=config.allow,
        groups=FAMILIES,
        extra=_expected(inputs, scores),
    )
    spans, span_notes = _rank_intervals(inputs, table)
    heads, columns = (
        [Column("entry", "entry", text=True)],
        [[inputs.named(row.entry) for row in table.entries]],
    )
    for key in config.columns:
        for head, cells in _rank_column(key, table, spans, config.digits):
            heads.append(head)
            columns.append(cells)
    heads.append(Column("source", "source", text=True, drawn=False))
    columns.append([inputs.origin(row.entry) for row in table.entries])
    entries = "Entries the ranks are among: " + ", ".join(row.entry for row in table.entries) + "."
    notes = dict.fromkeys([*table.notes, entries, *inputs.notes, *span_notes])
    rows = tuple(zip(*columns, strict=True))
    made = Table(name, config.title, tuple(heads), rows, notes=tuple(_without_errors(notes)))
    return mark_columns(
        made, ["rank_score", *(f"rank_score {category}" for category in table.categories)]
    )


def _expected(inputs: TableInputs, scores: list[CellScore]) -> list[CellScore]:
    """`scores`, and where a Benchmark that was asked for has none at all, its place with every
    entry."""
    there = {score.benchmark for score in scores}
    gone = [slug for slug in inputs.benchmarks if slug not in there]
    absent = [
        CellScore(entry, slug, 0, "pending", reason="not run")
        for entry in inputs.entries
        for slug in gone
    ]
    return [*scores, *absent]


def _without_errors(notes: Sequence[str] | Mapping[str, None]) -> list[str]:
    """Notes without those on standard errors, which these tables do not show."""
    return [note for note in notes if not note.startswith(("± ", "† "))]


def _rank_column(
    key: str, table: RankTable, spans: Mapping[str, Interval], digits: int | None
) -> list[tuple[Column, list[Cell]]]:
    rows, decimals = table.entries, _DIGITS if digits is None else digits
    if key == "categories":
        return [
            (
                Column(f"rank_score {category}", category),
                [
                    number(table.category_scores.get((row.entry, category)), decimals)
                    for row in rows
                ],
            )
            for category in table.categories
        ]
    if key == "rank_score":
        return [
            (
                Column(key, "rank score"),
                [number(r.rank_score, decimals, spans.get(r.entry)) for r in rows],
            )
        ]
    if key == "cells":
        done = [Cell(row.cells_done, f"{row.cells_done}/{row.cells_total}") for row in rows]
        return [(Column(key, "cells"), done)]
    return [
        (
            Column(key, COLUMNS["rank"][key].head(key)),
            [_count(row, getattr(row, key)) for row in rows],
        )
    ]


def _count(row: EntryRank, value: int | None) -> Cell:
    return Cell() if row.rank_score is None or value is None else Cell(value, str(value))


def _rank_intervals(inputs: TableInputs, table: RankTable) -> tuple[dict[str, Interval], list[str]]:
    """Intervals of the rank scores of a person's entries, the published ones held where they
    are."""
    config = inputs.config
    if config.over is None or not table.ranked:
        return {}, []
    if not inputs.own:
        return {}, [
            "No intervals: the paper published one Run a cell and none of its Episodes' scores."
        ]
    tables, lacking = episode_tables(inputs)
    if lacking:
        return {}, [f"No intervals: the held-out Episodes of {lacking[0]} are not on disk."]
    complete = {
        key for key, cell in table.cells.items() if cell.complete and key[1] in table.ranked
    }
    chosen: dict[str, dict[str, Floats]] = {}
    for row in table.entries:
        if row.rank_score is not None:
            chosen[row.entry] = {
                slug: tables[row.entry][slug] if row.entry in tables else _held(tables, row, slug)
                for slug in table.ranked
                if (row.entry, slug) in complete
            }
    found = rank_score_intervals(
        chosen,
        rng=np.random.default_rng(config.seed),
        missing=config.missing,
        over=config.over,
        level=config.level,
        replicates=config.replicates,
    )
    own = {entry: span for entry, span in found.items() if not inputs.is_published(entry)}
    notes = interval_notes(list(own.values()), config.level)
    if inputs.published:
        notes.append(
            "Published rows have no intervals and are held at their means while the others are "
            "drawn anew."
        )
    return own, notes


def _held(tables: Tables, row: EntryRank, slug: str) -> Floats:
    """A published mean as Runs and Episodes that do not vary, of the shape that its Benchmark's
    others have."""
    widths = [table[slug].shape[1] for table in tables.values() if slug in table]
    return np.full((MIN_RUNS, widths[0] if widths else 2), row.heldout[slug])


# --- held-out scores ------------------------------------------------------------------------------


def heldout_table(inputs: TableInputs, name: str) -> Table:
    """Held-out scores, by Benchmark and entry."""
    config = inputs.config
    values = _cells(inputs)
    spans, notes = _heldout_intervals(inputs, values)
    rows = {slug: _heldout_row(inputs, values, spans, slug) for slug in inputs.benchmarks}
    notes = [f"{_STATISTICS[config.statistic]} of the Runs' held-out means.", *inputs.notes, *notes]
    laid_out = _by_benchmark if config.rows == "benchmarks" else _by_entry
    return laid_out(inputs, name, rows, notes)


_STATISTICS = {"mean": "Mean", "median": "Median", "iqm": "Interquartile mean"}


def _cells(inputs: TableInputs) -> dict[tuple[str, str], list[float]]:
    """The Runs' held-out means by entry and Benchmark."""
    found: dict[tuple[str, str], list[float]] = {}
    for score in inputs.scores:
        if score.mean is not None:
            found.setdefault((score.entry, score.benchmark), []).append(score.mean)
    return found


def _statistic(inputs: TableInputs, runs: Sequence[float]) -> float:
    if inputs.config.statistic == "mean":
        return float(average_seeds([[runs]])[0, 0])
    return float(aggregate([np.array(runs)], inputs.config.statistic))


def _heldout_intervals(
    inputs: TableInputs, values: Mapping[tuple[str, str], list[float]]
) -> tuple[dict[tuple[str, str], Interval], list[str]]:
    config = inputs.config
    if config.over is None or not inputs.own:
        return {}, []
    tables, lacking = episode_tables(inputs)
    rng = np.random.default_rng(config.seed)
    spans = {
        (entry, slug): aggregate_interval(
            {slug: table},
            config.statistic,
            rng=rng,
            over=config.over,
            level=config.level,
            replicates=config.replicates,
        )
        for entry, row in tables.items()
        for slug, table in row.items()
        if (entry, slug) in values
    }
    gone = (
        [f"No interval where the held-out Episodes are not on disk: {', '.join(lacking)}."]
        if lacking
        else []
    )
    return spans, [*interval_notes(list(spans.values()), config.level), *gone]


def _heldout_row(
    inputs: TableInputs,
    values: Mapping[tuple[str, str], list[float]],
    spans: Mapping[tuple[str, str], Interval],
    slug: str,
) -> list[Cell]:
    """A cell for each entry, with the best marked."""
    runs = {entry: values.get((entry, slug), []) for entry in inputs.entries}
    points = {entry: _statistic(inputs, found) for entry, found in runs.items() if found}
    widest = max(
        (s.high - s.low for (_, b), s in spans.items() if b == slug and s.over), default=0.0
    )
    decimals = inputs.config.digits
    decimals = fitting(list(points.values()), widest / 2) if decimals is None else decimals
    cells = []
    for entry in inputs.entries:
        few = (
            runs[entry]
            if not inputs.is_published(entry) and 1 < len(runs[entry]) < MIN_RUNS
            else []
        )
        tail = f" ({'; '.join(number(one, decimals).text for one in few)})" if few else ""
        cells.append(number(points.get(entry), decimals, spans.get((entry, slug)), tail))
    return mark_best(cells)


def _by_benchmark(
    inputs: TableInputs, name: str, rows: Mapping[str, list[Cell]], notes: list[str]
) -> Table:
    heads = [Column("benchmark", "Benchmark", text=True)]
    found = [[Cell(slug, inputs.titles[slug])] for slug in rows]
    for key in inputs.config.columns:
        if key == "entries":
            heads += [_entry_head(inputs, entry) for entry in inputs.entries]
            found = [[*row, *cells] for row, cells in zip(found, rows.values(), strict=True)]
        else:
            groups = FAMILIES if key == "category" else DEMANDS
            heads.append(Column(key, key, text=True))
            found = [
                [*row, words(groups.get(inputs.ids.get(s, ""), "–"))]
                for row, s in zip(found, rows, strict=True)
            ]
    return Table(
        name, inputs.config.title, tuple(heads), tuple(map(tuple, found)), notes=tuple(notes)
    )


def _entry_head(inputs: TableInputs, entry: str) -> Column:
    cell = inputs.named(entry)
    renamed = inputs.names.get(entry) not in (None, entry)
    key = as_published(entry) if inputs.is_published(entry) and not renamed else entry
    return Column(key, cell.text)


def _by_entry(
    inputs: TableInputs, name: str, rows: Mapping[str, list[Cell]], notes: list[str]
) -> Table:
    heads = [
        Column("entry", "entry", text=True),
        *(Column(slug, inputs.titles[slug]) for slug in rows),
    ]
    heads.append(Column("source", "source", text=True, drawn=False))
    found = [
        (inputs.named(entry), *(cells[place] for cells in rows.values()), inputs.origin(entry))
        for place, entry in enumerate(inputs.entries)
    ]
    return Table(name, inputs.config.title, tuple(heads), tuple(found), notes=tuple(notes))


# --- normalized scores ----------------------------------------------------------------------------


def normalized_table(inputs: TableInputs, name: str) -> Table:
    """Held-out scores between two anchors, cut to [0, 1] and averaged over groups of Benchmarks."""
    config = inputs.config
    values = {key: _statistic(inputs, runs) for key, runs in _cells(inputs).items()}
    scale = _scale(inputs, values)
    anchors = scale.anchors
    tables, lacking = episode_tables(inputs) if config.over and inputs.own else ({}, [])
    rng = np.random.default_rng(config.seed)
    decimals = _DIGITS if config.digits is None else config.digits
    heads, columns = (
        [Column("entry", "entry", text=True)],
        [[inputs.named(entry) for entry in inputs.entries]],
    )
    spans: list[Interval] = []
    for group in inputs.groups():
        slugs = [b for b in inputs.benchmarks if b in anchors and inputs.group(b) == group]
        for key in config.columns:
            cells = []
            for entry in inputs.entries:
                there = [slug for slug in slugs if (entry, slug) in values]
                if key == "benchmarks":
                    cells.append(Cell(len(there), str(len(there))))
                    continue
                span = _normalized_interval(inputs, tables.get(entry, {}), there, anchors, rng)
                spans += [span] if span else []
                parts = [scaled(values[entry, slug], *anchors[slug]) for slug in there]
                point = math.fsum(parts) / len(parts) if parts else None
                cells.append(number(point, decimals, span))
            heads.append(
                Column(
                    f"{key} {group}".strip(), key if key == "benchmarks" else "score", group=group
                )
            )
            columns.append(mark_best(cells) if key == "normalized" else cells)
    heads.append(Column("source", "source", text=True, drawn=False))
    columns.append([inputs.origin(entry) for entry in inputs.entries])
    gone = (
        [f"No interval where the held-out Episodes are not on disk: {', '.join(lacking)}."]
        if lacking
        else []
    )
    notes = [
        *_anchor_notes(inputs, scale),
        *inputs.notes,
        *interval_notes(spans, config.level),
        *gone,
    ]
    if inputs.published and not inputs.own and config.by == "demand":
        notes.append(NORMALIZED_NOTE)
    return Table(
        name, config.title, tuple(heads), tuple(zip(*columns, strict=True)), notes=tuple(notes)
    )


def _normalized_interval(
    inputs: TableInputs,
    tables: Mapping[str, Floats],
    slugs: Sequence[str],
    anchors: Anchors,
    rng: np.random.Generator,
) -> Interval | None:
    config = inputs.config
    if config.over is None or not slugs or any(slug not in tables for slug in slugs):
        return None
    chosen = {slug: tables[slug] for slug in slugs}
    known = {slug: anchors[slug] for slug in slugs}
    return aggregate_interval(
        chosen,
        rng=rng,
        over=config.over,
        level=config.level,
        anchors=known,
        clip=True,
        replicates=config.replicates,
    )


def _scale(inputs: TableInputs, values: Mapping[tuple[str, str], float]) -> Scale:
    config = inputs.config
    own = {score.entry for score in inputs.own}
    slugs = slugs_of(inputs.ids.items())
    scale = find_scale(values, inputs.benchmarks, slugs, own=own, zero=config.zero, one=config.one)
    if not scale.anchors:
        raise RecordError(
            f"normalized: no Benchmark has a score of '{config.zero}' and a better one; name "
            "another entry as zero"
        )
    return scale


def _anchor_notes(inputs: TableInputs, scale: Scale) -> list[str]:
    best = (
        f"the best of {', '.join(e for e in inputs.entries if e not in scale.floors)}: it "
        "moves with them"
    )
    one = (
        f"the best agent of {SOURCE}, whoever stands here"
        if inputs.config.one == "published"
        else best
    )
    notes = [
        f"0 is {scale.zero}, 1 on each Benchmark {one}; cut to [0, 1], mean over the group's "
        "Benchmarks."
    ]
    without = ", ".join(inputs.titles[slug] for slug in scale.without)
    return (
        [*notes, f"Left out, without a score that is 0 or one above it: {without}."]
        if without
        else notes
    )


# --- Episodes and notes ---------------------------------------------------------------------------


def episode_tables(inputs: TableInputs) -> tuple[dict[str, dict[str, Floats]], list[str]]:
    """Held-out scores (Runs, Episodes) of a person's cells, by entry and Benchmark, and the cells
    that have none.

    The columns of one Benchmark are the same Episodes for every entry in a table that pairs them
    (ranks, differences), else for the Runs of each cell; where they cannot be, there is one: Runs'
    means."""
    frames = inputs.table()
    runs = inputs.valid(frames.runs)
    unlike = (
        unlike_benchmarks(inputs.own) if inputs.config.kind in PAIRED else unlike_cells(inputs.own)
    )
    tables, lacking = heldout_tables(frames, runs, unlike)
    return tables, [f"{entry} on {slug}" for entry, slug in lacking]
