"""`--dry-run`: the cells, what each may spend, what would be reused, and how long it may take."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evopolicy.cli.plan import Command, PlannedCell
from evopolicy.cli.sweep import shares
from evopolicy.cli.text import clean, duration, plural
from evopolicy.kernel.errors import EvoPolicyError
from evopolicy.kernel.record import RECORD, Run, load_run

_SECONDS_PER_EPISODE = 0.1
_SECONDS_PER_CELL = 3.0
_LISTED = 200


@dataclass(frozen=True)
class Estimate:
    seconds: float
    measured: bool
    """From Runs of the same Benchmark that lie in the output folder; else a guess for small tasks."""


def print_plan(command: Command, name: str) -> None:
    """List the cells of `command`; nothing is run and nothing is spent."""
    new = [cell for cell in command.cells if not cell.finished]
    title = f"sweep {name}: " if name else ""
    print(f"{title}{plural(len(command.cells), 'cell')}, {len(command.cells) - len(new)} finished and reused")
    print(_rows(command.cells))
    units = sum(cell.plan.units for cell in new)
    private = sum(cell.plan.validation_units + cell.plan.assessment_units for cell in new)
    spent = f"{plural(units, 'Episode unit')}, at most {plural(private, 'private Episode')}"
    print(f"\nto run: {plural(len(new), 'cell')}, {spent}")
    if new:
        _print_estimate(command, new)


def _print_estimate(command: Command, new: Sequence[PlannedCell]) -> None:
    estimates = [estimate(cell, command.output) for cell in new]
    share = shares(command)
    at_once = min(share.cells, len(new))
    # A guess is for one core; a measured Run had its own share of cores, as this one will.
    seconds = sum(e.seconds if e.measured else e.seconds / max(1, share.cores // at_once) for e in estimates) / at_once
    measured = sum(e.measured for e in estimates)
    basis = f"{measured} from earlier Runs, the others guessed" if measured else "guessed: nothing like it has run here"
    print(
        f"about {duration(seconds)} with {plural(at_once, 'cell')} at once on {plural(share.cores, 'core')} ({basis})"
    )


def _rows(cells: Sequence[PlannedCell]) -> str:
    rows = [("cell", "units", "Validation", "Assessment", "state")]
    for cell in cells[:_LISTED]:
        plan = cell.plan
        begun = (plan.folder / RECORD).exists()
        state = "finished, reused" if cell.finished else "begun, goes on" if begun else "new"
        at_most = f"<={plan.validation_units}" if plan.validation_units else "0"
        rows.append((clean(cell.title, 90), str(plan.units), at_most, str(plan.assessment_units), state))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = []
    for row in rows:
        left, *numbers, state = (
            text.ljust(w) if i in (0, 4) else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([left, *numbers, state]).rstrip())
    if len(cells) > _LISTED:
        lines.append(f"and {len(cells) - _LISTED} more")
    return "\n".join(lines)


def estimate(cell: PlannedCell, output: Path) -> Estimate:
    """Wall seconds of `cell`: by finished Runs of the same Benchmark, those of the same agent first."""
    runs = _finished(output / "runs" / cell.plan.benchmark)
    same = [
        run
        for run in runs
        if run.record.agent.label == str(cell.config.agent.get("label") or cell.config.agent["name"])
    ]
    times = [_seconds_per_unit(run) for run in same or runs]
    if times:
        return Estimate(_SECONDS_PER_CELL + statistics.median(times) * cell.plan.units, True)
    return Estimate(_SECONDS_PER_CELL + _SECONDS_PER_EPISODE * cell.episodes, False)


def _finished(folder: Path, most: int = 20) -> list[Run]:
    found: list[Run] = []
    for record in sorted(folder.glob(f"*/*/{RECORD}"))[: 5 * most]:
        try:
            run = load_run(record.parent)
        except (EvoPolicyError, OSError):
            continue
        if run.finished:
            found.append(run)
    return found[:most]


def _seconds_per_unit(run: Run) -> float:
    """Everything the Run took, by Episode unit it could spend."""
    state = run.state
    spent = (
        state.thinking_seconds
        + state.waiting_seconds
        + state.evaluating_seconds
        + sum(run.result.wall_seconds.values())
    )
    return spent / max(run.record.budget.episodes, 1)
