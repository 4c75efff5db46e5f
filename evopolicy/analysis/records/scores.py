"""Cells with their held-out scores: what every table starts from, and the check that they may be
compared."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from evopolicy.analysis.records.conditions import (
    AXES,
    CONDITIONS,
    IDENTITY,
    OF_A_BENCHMARK,
    check_allowed,
    is_allowed,
    run_axes,
    run_conditions,
    run_settings,
)
from evopolicy.analysis.records.copies import equal_levels, equal_seeds, trajectory_of
from evopolicy.analysis.records.load import Found, Unreadable, cell_of
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.ports.transcript import usage_numbers
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.record import Run

_TOLD = 3
"""Differences within an entry that a message names."""
_VALUE = 32
"""Characters of a setting's value in it."""

Status = Literal["done", "pending", "running", "unfinished", "failed", "invalid", "unreadable"]
OPEN: frozenset[Status] = frozenset({"pending", "running", "unfinished"})
"""Statuses of a cell that may still become done by itself or by running the sweep again."""


@runtime_checkable
class Scored(Protocol):
    """What has turned Runs into cells already: frames."""

    def scores(self) -> list[CellScore]: ...


Source: TypeAlias = Found | Scored | Iterable[Run]
"""What can be compared: the Runs of `find_runs`, frames, or any loaded Runs."""


@dataclass(frozen=True)
class CellScore:
    """One cell of a comparison: a Run, or the place of one."""

    entry: str
    benchmark: str
    """Slug."""
    seed: int
    status: Status
    mean: float | None = None
    """Mean score on Assessment; None unless `status` is 'done'."""
    standard_error: float | None = None
    """Over its held-out Episodes."""
    episodes: int = 0
    """Held-out Episodes."""
    failed: int = 0
    """Held-out Episodes in which the Policy failed."""
    reason: str = ""
    """Why it is not done, or what is to be known of it."""
    benchmark_id: str = ""
    """`family/Name-vN`."""
    wall_seconds: float = 0.0
    """Thinking, evaluating, Validation and Assessment."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Tokens, requests and cost the provider reported, as in `kernel.transcript.Usage`."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """By the names in CONDITIONS, in words."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """As `conditions.run_settings`; {} where they are not known."""
    axes: Mapping[str, str] = field(default_factory=dict)
    result_key: str = ""
    """As `RunRecord.result_key`; '' for the place of a Run."""
    parent: str = ""
    """Result key of the Run that this one grades again; '' for a Run of its own."""
    key: str = ""
    """As `RunRecord.key`."""
    trajectory: str = ""
    """As `copies.trajectory_of`."""
    selected: str = ""
    """Digest of the Program that was measured; '' where it is not known."""

    @property
    def name(self) -> str:
        return f"{self.entry} on {self.benchmark}, seed {self.seed}"


def wall_seconds(run: Run) -> float:
    """Seconds the Run took: thinking, evaluating, Validation and Assessment."""
    state = run.state
    return (
        state.thinking_seconds
        + state.waiting_seconds
        + state.evaluating_seconds
        + sum(run.result.wall_seconds.values())
    )


def run_status(run: Run, cell: Cell | None = None) -> tuple[Status, str]:
    """Where `run` stands and why; `cell` is its place in a sweep, whose word counts only while the
    Run has no end."""
    result = run.result
    if not run.finished:
        if cell and cell.status == "failed":
            return "failed", cell.error or "failed"
        if cell and cell.status == "running":
            return "running", "still running"
        ended = f" (the agent ended: {run.state.agent_ended})" if run.state.agent_ended else ""
        fault = f": {run.state.fault}" if run.state.fault else ""
        return "unfinished", f"has no held-out result yet{ended}{fault}"
    if not run.valid:
        return "invalid", run.state.explained(result.reasons) or "marked invalid"
    if result.assessment is None:
        return "invalid", "ended without Assessment"
    noted = [*result.reasons, *(["open_network"] if run.record.agent_network == "open" else [])]
    return "done", ", ".join(noted)


def run_score(run: Run, cell: Cell | None = None) -> CellScore:
    """The cell `run` fills. In a sweep the entry's name is the sweep's own: a reused Run may be of
    another sweep."""
    status, reason = run_status(run, cell)
    measured = run.result.assessment if status == "done" else None
    record = run.record
    return CellScore(
        entry=cell.entry if cell else record.entry,
        benchmark=record.benchmark.slug,
        seed=record.seed,
        status=status,
        mean=measured.mean if measured else None,
        standard_error=measured.standard_error if measured else None,
        episodes=measured.episodes if measured else 0,
        failed=measured.failed if measured else 0,
        reason=reason,
        benchmark_id=record.benchmark.id,
        wall_seconds=wall_seconds(run),
        usage=usage_numbers(run.state.usage),
        conditions=run_conditions(record),
        settings=run_settings(record),
        axes=run_axes(record, cell),
        result_key=record.result_key,
        parent=record.parent,
        key=record.key,
        trajectory=trajectory_of(submission.program for submission in run.state.submissions),
        selected=run.result.selected or "",
    )


def absent_score(cell: Cell, unreadable: Unreadable | None = None) -> CellScore:
    """A planned cell without a Run that can be read."""
    if unreadable:
        return CellScore(
            cell.entry, cell.benchmark, cell.seed, "unreadable", reason=unreadable.reason
        )
    if cell.status == "failed":
        return CellScore(
            cell.entry, cell.benchmark, cell.seed, "failed", reason=cell.error or "failed"
        )
    if cell.status in ("finished", "reused"):
        reason = f"its folder {cell.run} is missing"
        return CellScore(cell.entry, cell.benchmark, cell.seed, "unreadable", reason=reason)
    status: Status = "running" if cell.status == "running" else "pending"
    return CellScore(
        cell.entry,
        cell.benchmark,
        cell.seed,
        status,
        reason="not started" if status == "pending" else "",
    )


def absent_scores(
    runs: Iterable[Run], cells: Sequence[Cell], broken: Sequence[Unreadable]
) -> list[CellScore]:
    """The planned cells that none of `runs` fills."""
    filled = {(cell.run, cell.result_key) for run in runs if (cell := planned_cell(run, cells))}
    reasons = {cell.run: item for item in broken if (cell := cell_of(item.folder, cells))}
    absent = [cell for cell in cells if (cell.run, cell.result_key) not in filled]
    return [absent_score(cell, reasons.get(cell.run)) for cell in absent]


def planned_cell(run: Run, cells: Sequence[Cell]) -> Cell | None:
    """The cell of `cells` that `run`, with the result it is loaded with, fills; None where it is
    none of them."""
    return cell_of(run.folder, cells, run.record.result_key)


def cell_scores(source: Source, planned: Sequence[Cell] = ()) -> list[CellScore]:
    """Every cell of `source`, in the order planned where it is a sweep, else by Benchmark, entry
    and seed.

    `planned` are the cells of a sweep whose Runs `source` holds, where it is no Found of that
    sweep."""
    if isinstance(source, Scored):
        return source.scores()
    runs = list(source)
    cells = tuple(planned) or (source.cells if isinstance(source, Found) else ())
    broken = source.unreadable if isinstance(source, Found) else ()
    scores = [run_score(run, planned_cell(run, cells)) for run in runs]
    scores.extend(absent_scores(runs, cells, broken))
    return in_order(scores, cells)


def in_order(scores: list[CellScore], cells: Sequence[Cell] = ()) -> list[CellScore]:
    """As planned in `cells`; what is not planned comes after it, by Benchmark, entry and seed."""
    places = {(cell.benchmark, cell.entry, cell.seed): i for i, cell in enumerate(cells)}

    def place(score: CellScore) -> tuple[int, str, str, int]:
        key = (score.benchmark, score.entry, score.seed)
        return places.get(key, len(cells)), *key

    return sorted(scores, key=place)


# --- may they be compared? ------------------------------------------------------------------------


def check_comparable(
    source: Source | Sequence[CellScore], allow: Collection[str] = ()
) -> list[str]:
    """Refuse a comparison whose done cells differ in what would make it unfair.

    The Runs of one entry have the same identity but for their seeds: agent with model and options,
    prompt, Feedback, limits, versions. Isolation levels may not differ at all; Benchmark
    parameters, pools, budgets, selection rules and versions not within one Benchmark; and a cell
    (entry, Benchmark, seed) has one Run. A difference that was swept, and so is part of the
    entries' names, is let in. `allow` holds the names in CONDITIONS, and the settings or groups of
    IDENTITY, that are let in too; for each that does differ one sentence is returned, and
    `mixed_names` says what the entries are to be called.

    Raises RecordError naming the cells on each side, ConfigError for an unknown name in `allow`.
    """
    check_allowed(allow)
    scores = [score for score in _scores(source) if score.status == "done"]
    notes: list[str] = []
    for entry, differing in _unlike_entries(scores).items():
        refused = [key for key in differing if not is_allowed(key, allow)]
        words = [
            f"{key} {_sides(values)}"
            for key, values in differing.items()
            if key in refused or not refused
        ]
        said = "; ".join(words[:_TOLD]) + (
            f"; and {len(words) - _TOLD} more" if len(words) > _TOLD else ""
        )
        if refused:
            raise RecordError(
                f"entry '{entry}' mixes Runs that differ in {said}; compare them apart, give each "
                f"an agent.label of its own, or allow={','.join(refused)}"
            )
        notes.append(f"Entry '{entry}' mixes Runs that differ in {said}.")
    for name in CONDITIONS:
        problem = _problem(scores, name, allow)
        if problem and name not in allow:
            raise RecordError(
                f"the comparison mixes {problem}; compare them apart, or allow '{name}'"
            )
        if problem:
            notes.append(f"Mixes {problem}.")
    return [*notes, *equal_levels(scores), *equal_seeds(scores)]


def _problem(scores: Sequence[CellScore], name: str, allow: Collection[str]) -> str:
    """Words for the first group of cells whose condition `name` differs, '' for none."""
    if name == "duplicates":
        return _duplicates(scores)
    return _mixed_versions(scores, allow) if name == "versions" else _mixed(scores, name)


def mixed_names(source: Source | Sequence[CellScore]) -> dict[str, str]:
    """By entry whose Runs are unlike, what it is to be called: no table shows them as of one
    kind."""
    scores = [score for score in _scores(source) if score.status == "done"]
    return {
        entry: " ".join(
            [
                entry,
                *(f"{key}={'|'.join(_value(v) for v in values)}" for key, values in found.items()),
            ]
        )
        for entry, found in _unlike_entries(scores).items()
    }


Sides: TypeAlias = dict[tuple[bool, str], list[CellScore]]
"""The cells that have each value of a setting, by `_text` of it: lists and mappings are no keys."""


def _text(value: Any) -> tuple[bool, str]:
    """Equal of equal values: whether it is text, and that, or its JSON."""
    return (True, value) if isinstance(value, str) else (False, json.dumps(value, sort_keys=True))


def _unlike_entries(scores: Sequence[CellScore]) -> dict[str, dict[str, Sides]]:
    """By entry the settings in which its Runs differ though they may not."""
    found: dict[str, dict[str, Sides]] = {}
    for (entry, key, _), sides in _by_setting(scores).items():
        if len(sides) > 1:
            found.setdefault(entry, {}).setdefault(key, sides)
    return found


def _by_setting(scores: Sequence[CellScore]) -> dict[tuple[str, str, str], Sides]:
    """By entry, setting of IDENTITY and, where it goes with the Benchmark, Benchmark."""
    groups: dict[tuple[str, str, str], Sides] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        for key, value in score.settings.items():
            if key.partition(".")[0] in IDENTITY:
                place = score.benchmark if key.startswith(OF_A_BENCHMARK) else ""
                groups[score.entry, key, place][_text(value)].append(score)
    return groups


def _mixed_versions(scores: Sequence[CellScore], allow: Collection[str]) -> str:
    """Of what all were measured with: a package that only some entries have is theirs. One let in
    by itself is not said again."""
    groups: dict[tuple[str, str], Sides] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        for key, value in score.settings.items():
            if key.startswith("versions.") and key not in allow:
                groups[score.benchmark, key.partition(".")[2]][_text(value)].append(score)
    for (benchmark, package), sides in groups.items():
        if len(sides) > 1:
            return f"{CONDITIONS['versions']} on {benchmark}: {package} {_sides(sides)}"
    return ""


def _sides(values: Sides) -> str:
    """`0.05 for a on x, seed 0; 0.75 for a on x, seed 1`, in parentheses."""
    return f"({'; '.join(f'{_value(value)} for {name_cells(cells, 1)}' for value, cells in values.items())})"


def _value(text: tuple[bool, str]) -> str:
    """A setting's value, short enough for a sentence."""
    brief = _brief(text[1])
    return brief if len(brief) <= _VALUE else f"{brief[: _VALUE - 1]}…"


def _scores(source: Source | Sequence[CellScore]) -> list[CellScore]:
    if isinstance(source, list | tuple) and all(isinstance(item, CellScore) for item in source):
        return list(source)
    return cell_scores(source)  # type: ignore[arg-type]  # a sequence of Runs by now


def _mixed(scores: Sequence[CellScore], name: str) -> str:
    """Words for the first group of cells whose condition `name` differs, '' for none."""
    groups: dict[tuple[str, ...], dict[str, list[CellScore]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for score in scores:
        if name in score.conditions:
            swept = [
                f"{k}={v}" for k, v in sorted(score.axes.items()) if k.split(".")[0] in AXES[name]
            ]
            place = "" if name == "isolation" else score.benchmark
            groups[(place, *swept)][score.conditions[name]].append(score)
    for (place, *_), values in groups.items():
        if len(values) > 1:
            where = f" on {place}" if place else ""
            sides = "; ".join(
                f"'{_brief(value)}' for {name_cells(cells, 2)}" for value, cells in values.items()
            )
            return f"{CONDITIONS[name]}{where}: {sides}"
    return ""


def _duplicates(scores: Sequence[CellScore]) -> str:
    cells: dict[tuple[str, str, int], list[CellScore]] = defaultdict(list)
    for score in scores:
        cells[score.entry, score.benchmark, score.seed].append(score)
    for found in cells.values():
        if len(found) > 1:
            return (
                f"{CONDITIONS['duplicates']}: {len(found)} Runs of {found[0].name}{_kinship(found)}"
            )
    return ""


def _kinship(found: Sequence[CellScore]) -> str:
    """Which of several Runs of one cell grade others again, in words; '' for none."""
    regrades = [score for score in found if score.parent]
    keys = {score.result_key for score in found}
    if any(score.parent in keys for score in regrades):
        return (
            ", one a regrade of the other"
            if len(found) == 2
            else f", {len(regrades)} of them regrades of another"
        )
    if not regrades:
        return ""
    parents = {score.parent for score in found}
    if len(parents) == 1:
        return ", all of them regrades of one Run"
    return f", {len(regrades)} of them regrades of a Run that is not among them"


def _brief(value: str) -> str:
    return value[:12] if len(value) == 64 and " " not in value else value


def name_cells(cells: Sequence[CellScore], most: int) -> str:
    """`a on x, seed 0; b on y, seed 1 and 3 more`."""
    more = f" and {len(cells) - most} more" if len(cells) > most else ""
    return "; ".join(cell.name for cell in cells[:most]) + more


def name_missing(gone: Sequence[CellScore], never: Sequence[str], most: int) -> str:
    """`name_cells` of those without a result, then as many of those that were `never` run, by
    name."""
    more = f" and {len(never) - most} more" if len(never) > most else ""
    return "; ".join(
        ([name_cells(gone, most)] if gone else [])
        + (["; ".join(never[:most]) + more] if never else [])
    )
