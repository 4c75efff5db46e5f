"""The rank table: entries by their rank score, with what it rests on. `render` turns it into
text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from evopolicy.analysis.paper.published import gymnasium_id, slugs_of
from evopolicy.analysis.records.scores import (
    OPEN,
    CellScore,
    Source,
    cell_scores,
    check_comparable,
    mixed_names,
    name_missing,
)
from evopolicy.analysis.stats import rank
from evopolicy.analysis.stats.rank import Missing
from evopolicy.analysis.tables import footnotes
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.record import Run

ErrorOver = Literal["", "seeds", "episodes"]


@dataclass(frozen=True)
class TableCell:
    """One entry on one Benchmark."""

    mean: float | None
    """Mean over the seeds that are done; None where none is."""
    standard_error: float | None
    error_over: ErrorOver
    """'seeds' from two seeds on; 'episodes' (of the one Run) where one is done; '' without a
    standard error."""
    done: int
    """Seeds with a valid held-out result."""
    planned: int
    """Seeds that were planned or begun."""
    open: bool
    """Whether a seed is still to come."""
    rank: int | None = None
    """None where the Benchmark does not count."""
    rank_score: float | None = None

    @property
    def complete(self) -> bool:
        return 0 < self.planned == self.done


@dataclass(frozen=True)
class EntryRank:
    """An entry over all its cells."""

    entry: str
    place: int | None
    """By rank score, from 1; ties share the best place. None without a rank score."""
    rank_score: float | None
    """None until at least one Benchmark is complete for all entries."""
    wins: int
    """Benchmarks with rank 1; a tie counts for each."""
    top2: int
    """Benchmarks with rank 1 or 2."""
    benchmarks: int
    """Benchmarks the rank score is a mean over."""
    cells_done: int
    """Cells with a valid held-out result."""
    cells_total: int
    failures: int
    """Cells that failed, ended invalid or cannot be read."""
    policy_failures: int
    """Held-out Episodes in which the Policy failed, over the cells that are done."""
    episodes: int
    """Held-out Episodes, over the cells that are done."""
    wall_seconds: float
    """Thinking, evaluating, Validation and Assessment, summed over every cell that has begun."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Tokens, requests and cost the provider reported, summed likewise; no key for what no cell
    reports."""
    heldout: Mapping[str, float] = field(default_factory=dict)
    """Held-out mean by Benchmark, over the seeds that are done."""


@dataclass(frozen=True)
class RankTable:
    """What every rendering shows."""

    entries: tuple[EntryRank, ...]
    """Best first; those without a rank score last."""
    benchmarks: tuple[str, ...]
    ranked: tuple[str, ...]
    """Those that count."""
    cells: Mapping[tuple[str, str], TableCell]
    """By entry and Benchmark."""
    categories: tuple[str, ...] = ()
    category_scores: Mapping[tuple[str, str], float | None] = field(default_factory=dict)
    """Mean rank score by entry and category."""
    notes: tuple[str, ...] = ()
    """What has to be known to read it: what counts, what is left out and why, what ± means."""


def rank_table(
    source: Source,
    *,
    missing: Missing = "exclude",
    allow: Collection[str] = (),
    groups: Mapping[str, str] | None = None,
    extra: Sequence[CellScore] = (),
    notes: Sequence[str] = (),
) -> RankTable:
    """Rank the entries of `source` (a Found, Frames or Runs) by the mean of their rank scores.

    An entry is complete on a Benchmark when each of its planned seeds has a valid held-out result.
    `missing` says what happens where one is not: 'exclude' ranks over the Benchmarks complete for
    all entries, leaves out an entry that has nothing and expects nothing, and says so; 'worst'
    ranks it last there; 'refuse' raises RecordError naming the cells. Conditions that differ are
    refused unless named in `allow` (see `check_comparable`). `groups` names the category of each
    Benchmark by slug or Gymnasium id. `extra` adds cells that are no Runs (published ones), `notes`
    footnotes."""
    scores = _join_extra(cell_scores(source), extra)
    mixes = check_comparable(scores, allow)
    names = mixed_names(scores)
    scores = [replace(score, entry=names.get(score.entry, score.entry)) for score in scores]
    table = _table(scores, missing, groups or {})
    return replace(table, notes=(*table.notes, *mixes, *notes))


def entry_ranks(runs: Iterable[Run], planned: Sequence[Cell] = ()) -> dict[str, EntryRank]:
    """What is known of each entry while a sweep runs or after it, by entry; best first.

    `planned` are the sweep's cells (a Found brings its own); they say how many cells are still to
    come. Never refuses: missing cells are excluded as `rank_table` does it, and whether the Runs
    may be compared is left to the tables."""
    return {row.entry: row for row in _table(cell_scores(runs, planned), "exclude", {}).entries}


def _join_extra(scores: list[CellScore], extra: Sequence[CellScore]) -> list[CellScore]:
    """Extra cells under the slug of the Benchmark that has the same Gymnasium id among `scores`."""
    slugs = slugs_of((score.benchmark, score.benchmark_id) for score in scores)
    found = ((cell, slugs.get(gymnasium_id(cell.benchmark_id), cell.benchmark)) for cell in extra)
    return scores + [replace(cell, benchmark=slug) for cell, slug in found]


@dataclass(frozen=True, eq=False)
class _Sheet:
    """The cells laid out as a sheet of N entries by B Benchmarks."""

    entries: tuple[str, ...]
    benchmarks: tuple[str, ...]
    pairs: Mapping[tuple[str, str], tuple[CellScore, ...]]
    """A seed that is done twice stays twice; one that is done and also left otherwise is done."""
    seeds: rank.Floats
    """(N, B, S) held-out means, NaN where there is none."""

    def row(self, entry: str) -> list[CellScore]:
        return [score for benchmark in self.benchmarks for score in self.pairs[entry, benchmark]]


def _lay_out(scores: Sequence[CellScore]) -> _Sheet:
    entries = tuple(dict.fromkeys(score.entry for score in scores))
    benchmarks = tuple(dict.fromkeys(score.benchmark for score in scores))
    grouped: dict[tuple[str, str], list[CellScore]] = {
        (e, b): [] for e in entries for b in benchmarks
    }
    done = {(s.entry, s.benchmark, s.seed) for s in scores if s.status == "done"}
    for score in scores:
        if score.status == "done" or (score.entry, score.benchmark, score.seed) not in done:
            grouped[score.entry, score.benchmark].append(score)
    most = max((len(found) for found in grouped.values()), default=0)
    seeds = np.full((len(entries), len(benchmarks), most), np.nan)
    for i, entry in enumerate(entries):
        for j, benchmark in enumerate(benchmarks):
            for k, score in enumerate(grouped[entry, benchmark]):
                seeds[i, j, k] = np.nan if score.mean is None else score.mean
    return _Sheet(entries, benchmarks, {key: tuple(found) for key, found in grouped.items()}, seeds)


def _table(scores: Sequence[CellScore], missing: Missing, groups: Mapping[str, str]) -> RankTable:
    sheet = _lay_out(scores)
    cells = _cells(sheet)
    if missing == "refuse":
        _refuse_missing(sheet, cells)
    absent = _absent(sheet, cells) if missing == "exclude" else ()
    ranking, ranked_entries = _rank(sheet, cells, missing, absent)
    for i, entry in enumerate(ranked_entries):
        for j, benchmark in enumerate(sheet.benchmarks):
            if ranking.included[j]:
                cells[entry, benchmark] = replace(
                    cells[entry, benchmark],
                    rank=int(ranking.ranks[i, j]),
                    rank_score=float(ranking.scores[i, j]),
                )
    entries = _entries(sheet, cells, ranking, ranked_entries)
    ranked = tuple(
        b for b, counts in zip(sheet.benchmarks, ranking.included, strict=True) if counts
    )
    categories, category_scores = _categories(scores, sheet, ranking, ranked_entries, groups)
    table = RankTable(entries, sheet.benchmarks, ranked, cells, categories, category_scores)
    return replace(table, notes=tuple(footnotes.write(table, sheet.pairs, missing, absent)))


def _cells(sheet: _Sheet) -> dict[tuple[str, str], TableCell]:
    means, errors = rank.average_seeds(sheet.seeds), rank.seed_errors(sheet.seeds)
    return {
        (entry, benchmark): _cell(
            sheet.pairs[entry, benchmark], float(means[i, j]), float(errors[i, j])
        )
        for i, entry in enumerate(sheet.entries)
        for j, benchmark in enumerate(sheet.benchmarks)
    }


def _cell(found: Sequence[CellScore], mean: float, error: float) -> TableCell:
    done = [score for score in found if score.status == "done"]
    open_ = any(score.status in OPEN for score in found)
    over: ErrorOver = "seeds" if len(done) > 1 else ""
    deviation = error if over else None
    if len(done) == 1 and done[0].standard_error is not None:
        over, deviation = "episodes", done[0].standard_error
    return TableCell(
        None if math.isnan(mean) else mean, deviation, over, len(done), len(found), open_
    )


def _refuse_missing(sheet: _Sheet, cells: Mapping[tuple[str, str], TableCell]) -> None:
    gone = [score for found in sheet.pairs.values() for score in found if score.status != "done"]
    never = [
        f"{entry} on {benchmark}" for (entry, benchmark), cell in cells.items() if cell.planned == 0
    ]
    if gone or never:
        words = name_missing(gone, never, 4)
        raise RecordError(
            f"rank table: {len(gone) + len(never)} cells have no valid result ({words}); run "
            "them, or set missing to 'exclude' or 'worst'"
        )


def _absent(sheet: _Sheet, cells: Mapping[tuple[str, str], TableCell]) -> tuple[str, ...]:
    """Entries with nothing done and nothing to come: they would keep every Benchmark from being
    complete."""
    return tuple(
        entry
        for entry in sheet.entries
        if not any(cells[entry, b].done or cells[entry, b].open for b in sheet.benchmarks)
    )


def _rank(
    sheet: _Sheet,
    cells: Mapping[tuple[str, str], TableCell],
    missing: Missing,
    absent: Collection[str],
) -> tuple[rank.Ranking, tuple[str, ...]]:
    entries = tuple(entry for entry in sheet.entries if entry not in absent)
    means = np.full((len(entries), len(sheet.benchmarks)), np.nan)
    for i, entry in enumerate(entries):
        for j, benchmark in enumerate(sheet.benchmarks):
            cell = cells[entry, benchmark]
            if cell.complete and cell.mean is not None:
                means[i, j] = cell.mean
    chosen = [sheet.entries.index(entry) for entry in entries]
    return rank.rank_entries(means, missing, rank.score_sizes(sheet.seeds)[chosen]), entries


def _entries(
    sheet: _Sheet,
    cells: Mapping[tuple[str, str], TableCell],
    ranking: rank.Ranking,
    ranked: Sequence[str],
) -> tuple[EntryRank, ...]:
    known = ranking.included.any()
    scores = (
        {entry: float(ranking.rank_score[i]) for i, entry in enumerate(ranked)} if known else {}
    )
    rows = []
    for entry in sheet.entries:
        score = scores.get(entry)
        i = ranked.index(entry) if score is not None else None
        rows.append(
            replace(
                _totals(entry, sheet, cells),
                place=None
                if score is None
                else 1 + sum(other > score for other in scores.values()),
                rank_score=score,
                wins=0 if i is None else int(ranking.wins[i]),
                top2=0 if i is None else int(ranking.top2[i]),
                benchmarks=0 if i is None else int(ranking.included.sum()),
            )
        )
    return tuple(
        sorted(
            rows,
            key=lambda row: (row.place is None, row.place or 0, -row.wins, -row.top2, row.entry),
        )
    )


def _totals(entry: str, sheet: _Sheet, cells: Mapping[tuple[str, str], TableCell]) -> EntryRank:
    row = sheet.row(entry)
    done = [score for score in row if score.status == "done"]
    usage: dict[str, float] = {}
    for score in row:
        for key, value in score.usage.items():
            usage[key] = usage.get(key, 0) + value
    if any(score.usage.get("output_tokens") and "cost_usd" not in score.usage for score in row):
        usage.pop("cost_usd", None)  # a sum without what is not known is none
    means = {benchmark: cells[entry, benchmark].mean for benchmark in sheet.benchmarks}
    return EntryRank(
        entry=entry,
        place=None,
        rank_score=None,
        wins=0,
        top2=0,
        benchmarks=0,
        cells_done=len(done),
        cells_total=len(row),
        failures=sum(score.status in ("failed", "invalid", "unreadable") for score in row),
        policy_failures=sum(score.failed for score in done),
        episodes=sum(score.episodes for score in done),
        wall_seconds=math.fsum(score.wall_seconds for score in row),
        usage=usage,
        heldout={benchmark: mean for benchmark, mean in means.items() if mean is not None},
    )


def _categories(
    scores: Sequence[CellScore],
    sheet: _Sheet,
    ranking: rank.Ranking,
    entries: Sequence[str],
    groups: Mapping[str, str],
) -> tuple[tuple[str, ...], dict[tuple[str, str], float | None]]:
    if not groups:
        return (), {}
    ids = {
        score.benchmark: gymnasium_id(score.benchmark_id) for score in scores if score.benchmark_id
    }
    names = [groups.get(b) or groups.get(ids.get(b, "")) or "other" for b in sheet.benchmarks]
    means = rank.category_means(ranking, names)
    return tuple(means), {
        (entry, name): None if math.isnan(values[i]) else float(values[i])
        for name, values in means.items()
        for i, entry in enumerate(entries)
    }
