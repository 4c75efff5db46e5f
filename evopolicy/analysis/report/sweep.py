"""The report of several Runs: their comparison, and an outline of each that its numbers link to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.report.conditions import conditions
from evopolicy.analysis.report.gather import IN_SWEEP
from evopolicy.analysis.report.page import document, entry, figure
from evopolicy.analysis.report.run import heldout, overview, selection, timeline, usage, validity
from evopolicy.analysis.report.shape import Limits, RunPart, SweepPart
from evopolicy.analysis.report.submission import diff
from evopolicy.analysis.tables.estimates import estimate_notes, estimated
from evopolicy.analysis.tables.footnotes import EPISODE_MARK
from evopolicy.analysis.tables.rank_columns import heldout_cells
from evopolicy.analysis.tables.ranks import EntryRank
from evopolicy.kernel.ports.transcript import TOKENS
from evopolicy.present.markup import Child, Html, bar, fold, join, line, table, tag
from evopolicy.present.numbers import (
    NONE,
    dollars,
    duration,
    mean_and_error,
    minus,
    plain,
    plural,
    rank_score,
    typeset,
)
from evopolicy.present.table import ESTIMATE_MARK, Cell

_ERRORS = ("± ", f"{EPISODE_MARK} ")
"""How the notes on standard errors begin, which belong below the held-out scores."""


class _Places:
    """Where the Runs are in the page."""

    def __init__(self, part: SweepPart, limits: Limits) -> None:
        self.shown = part.runs[: limits.runs]
        self._by_run = {id(run): f"run-{place}" for place, run in enumerate(self.shown, start=1)}
        self._by_cell: dict[tuple[str, str, int], str] = {}
        for run in self.shown:
            self._by_cell.setdefault(
                (run.entry, run.run.record.benchmark.slug, run.run.record.seed), self.anchor(run)
            )
        ranked = [row.entry for row in part.table.entries] if part.table else []
        self.entries = list(dict.fromkeys([*ranked, *(cell.entry for cell in part.cells)]))
        self.benchmarks = list(dict.fromkeys(cell.benchmark for cell in part.cells))

    def of(self, cell: CellScore) -> str | None:
        """The anchor of the Run that fills `cell`, where it has a section."""
        return self._by_cell.get((cell.entry, cell.benchmark, cell.seed))

    def anchor(self, run: RunPart) -> str:
        return self._by_run[id(run)]

    def group(self, entry: str) -> str:
        return f"entry-{self.entries.index(entry) + 1}" if entry in self.entries else "runs"


def render_sweep(part: SweepPart, limits: Limits = IN_SWEEP) -> str:
    """The page of several Runs: HTML that opens from disk and needs nothing else."""
    places = _Places(part, limits)
    done = sum(cell.status == "done" for cell in part.cells)
    lost = len(part.runs) - len(places.shown)
    entries = "1 entry" if len(places.entries) == 1 else f"{len(places.entries)} entries"
    words = f"{done} of {plural(len(part.cells), 'cell')} done: {entries} on "
    words += f"{plural(len(places.benchmarks), 'Benchmark')}."
    missing = (
        f"{plural(lost, 'Run')} without a section: a report shows {limits.runs}." if lost else ""
    )
    groups = [(name, [run for run in places.shown if run.entry == name]) for name in places.entries]
    listed = [
        entry(places.group(name), line(name, 40), str(len(runs))) for name, runs in groups if runs
    ]
    contents = [
        entry("ranks", "Ranks"), entry("scores", "Held-out"),
        *([entry("figures", "Figures")] if part.figures else []), entry("runs", "Runs", below=listed),
    ]  # fmt: skip
    drawn = tag("div", *map(figure, part.figures), class_="figures")
    return document(
        part.title,
        contents,
        tag("header", tag("h1", line(part.title)), tag("p", words, class_="lead"), conditions(part)),
        tag("section", tag("h2", "Ranks"), _ranks(part, places), id="ranks"),
        tag("section", tag("h2", "Held-out scores"), _scores(part, places), _absent(part), id="scores"),
        tag("section", tag("h2", "Figures"), drawn, id="figures") if part.figures else None,
        tag(
            "section", tag("h2", "Runs"),
            tag("p", "An outline of each. Feedback, replays and transcripts are in a Run's own report: "
                "evopolicy report source=RUN.", class_="lead"),
            *[_group(name, runs, places, limits) for name, runs in groups if runs],
            tag("p", missing, class_="cut") if missing else None,
            id="runs",
        ),
        tag("footer", tag("p", "Made by evopolicy from the records of its Runs.")),
    )  # fmt: skip


# --- ranks ----------------------------------------------------------------------------------------


def _ranks(part: SweepPart, places: _Places) -> Html:
    if part.table is None:
        return tag("p", f"No ranks: {line(part.refusal, 1_000)}.")
    header = [
        "entry",
        "place",
        "rank score",
        "wins",
        "top 2",
        "cells",
        "failed",
        "Policy failures",
        "tokens",
        "cost",
        "time",
    ]
    used = {
        entry: [run.usage for run in part.runs if run.entry == entry] for entry in places.entries
    }
    usage = {entry: pd.concat(found) for entry, found in used.items() if found}
    rows = [_rank_row(row, places, usage.get(row.entry)) for row in part.table.entries]
    for name in part.table.categories:
        header.append(f"rank score, {line(name, 40)}")
        for row, cells in zip(part.table.entries, rows, strict=True):
            cells.append(rank_score(part.table.category_scores.get((row.entry, name))))
    said = [note for note in part.table.notes if not note.startswith(_ERRORS)]
    said += estimate_notes(pd.concat(usage.values()), _USED) if usage else []
    notes = [tag("li", line(note, 600)) for note in said]
    return join(
        table("Entries by rank score", header, rows),
        tag("ul", *notes, class_="notes") if notes else None,
    )


_USED = (*TOKENS, "cost_usd")


def _rank_row(row: EntryRank, places: _Places, used: pd.DataFrame | None) -> list[Child]:
    tokens = sum(row.usage.get(key, 0) for key in TOKENS)
    cost = row.usage.get("cost_usd")
    flags = {key: used is not None and estimated(used, key).any() for key in _USED}
    about = ESTIMATE_MARK if any(flags[key] for key in TOKENS) else ""
    guessed = ESTIMATE_MARK if flags["cost_usd"] else ""
    unknown = "unknown" if tokens else "–"
    spent = unknown if cost is None else guessed + dollars(cost)
    score = join(
        tag("a", rank_score(row.rank_score), href=f"#{places.group(row.entry)}"),
        bar(row.rank_score or 0.0),
    )
    return [
        tag("a", line(row.entry, 80), href=f"#{places.group(row.entry)}"),
        "–" if row.place is None else str(row.place),
        *((score, row.wins, row.top2) if row.rank_score is not None else (NONE, NONE, NONE)),
        f"{row.cells_done} of {row.cells_total}", row.failures,
        f"{row.policy_failures} of {row.episodes}", f"{about}{typeset(tokens)}" if tokens else "–",
        spent, duration(row.wall_seconds),
    ]  # fmt: skip


# --- held-out scores ------------------------------------------------------------------------------


def _scores(part: SweepPart, places: _Places) -> Html:
    """A row a Benchmark, a column an entry; every seed's score links to its Run."""
    by_place: dict[tuple[str, str], list[CellScore]] = {}
    for cell in part.cells:
        by_place.setdefault((cell.entry, cell.benchmark), []).append(cell)
    known = heldout_cells(part.table) if part.table else {}
    rows = [
        [line(benchmark, 60), *[_score(by_place.get((name, benchmark), []), known.get((name, benchmark)), places)
                                for name in places.entries]]
        for benchmark in places.benchmarks
    ]  # fmt: skip
    header = ["Benchmark", *[line(name, 40) for name in places.entries]]
    made = table("Held-out means, each Run's below them", header, rows)
    said = [note for note in part.table.notes if note.startswith(_ERRORS)] if part.table else []
    return join(
        made,
        tag("p", line(" ".join(["The best on a Benchmark is bold.", *said]), 600), class_="soft"),
    )


def _score(cells: Sequence[CellScore], known: Cell | None, places: _Places) -> Child:
    """What the rank table has of them, or where there is none their mean; and each Run's own."""
    if not cells:
        return "–"
    means = [cell.mean for cell in cells if cell.mean is not None]
    cell = known or Cell(text=plain(math.fsum(means) / len(means)) if means else NONE)
    text = minus(cell.whole)
    links = [join(_seed(cell, places), " ") for cell in sorted(cells, key=lambda one: one.seed)]
    return join(tag("strong", text) if cell.best else text, tag("small", *links))


def _seed(cell: CellScore, places: _Places) -> Html:
    anchor, words = places.of(cell), typeset(cell.mean) if cell.mean is not None else cell.status
    if anchor is None:
        return join(words)
    return tag("a", words, href=f"#{anchor}", aria_label=f"{line(cell.name, 120)}: {words}")


def _absent(part: SweepPart) -> Html | None:
    """Cells that are not done, and why."""
    cells = [cell for cell in part.cells if cell.status != "done"]
    items = [
        tag("li", f"{line(cell.name, 160)}: {cell.status}. {line(cell.reason, 300)}")
        for cell in cells[:100]
    ]
    items += [
        tag("li", f"{line(str(one.folder), 160)}: {line(one.reason, 300)}")
        for one in part.unreadable[:20]
    ]
    if not items:
        return None
    lost = len(cells) - 100
    more = tag("p", f"{plural(lost, 'cell')} left out", class_="cut") if lost > 0 else None
    return fold(
        plural(len(cells), "cell") + " not done",
        tag("ul", *items, class_="notes"),
        more,
        open_=len(items) <= 10,
    )


# --- the Runs -------------------------------------------------------------------------------------


def _group(name: str, runs: Sequence[RunPart], places: _Places, limits: Limits) -> Html:
    return tag(
        "section",
        tag("h3", line(name, 80)),
        *[_run(run, places, limits) for run in runs],
        id=places.group(name),
    )


def _run(part: RunPart, places: _Places, limits: Limits) -> Html:
    record, measured = part.run.record, part.run.result.assessment
    words, changes, lines = diff(
        part.final, limits.diff_lines, "From the initial Program to the selected one"
    )
    changed = join(
        "The selected Program", tag("span", f" against the initial one: {words}", class_="soft")
    )
    head = join(
        tag("h4", f"{record.benchmark.slug}, seed {record.seed} "),
        validity(part),
        tag(
            "span",
            minus(mean_and_error(measured.mean, measured.standard_error)[0]) if measured else "–",
            class_="score",
        ),
    )
    body = tag(
        "div",
        timeline(part),
        overview(part, limit=100),
        fold("Candidates and selection", selection(part)),
        fold("Held-out Episodes", *heldout(part)),
        fold("Usage, cost and time", usage(part)),
        fold(changed, changes) if lines or part.final.left_out else None,
        tag("p", "Its folder: ", tag("code", part.run.folder.as_posix()), class_="soft"),
        id=places.anchor(part),
    )
    return tag(
        "article",
        fold(head, body),
        class_="submission outline",
        aria_label=f"{part.entry} on {record.benchmark.slug}",
    )
