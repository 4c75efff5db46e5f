"""`--dry-run`: the cells, what each may spend, what would be reused, and what it may take in time
and money."""

from __future__ import annotations

import glob
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from evopolicy.cells import is_provided
from evopolicy.kernel.errors import EvoPolicyError
from evopolicy.kernel.session.record import RECORD, Run, load_run
from evopolicy.kernel.shown import clean
from evopolicy.present.numbers import dollars, plural
from evopolicy.sweeps.plan import Command, PlannedCell, spoiled
from evopolicy.sweeps.sweep import shares, tell_weaker
from evopolicy.sweeps.text import duration

SECONDS = Path(__file__).with_name("seconds.json")
"""CPU seconds of an Episode that lasts as long as it may, by Benchmark:
`scripts/measure_seconds.py` makes it."""
_OTHER_SECONDS = 1.0
"""Of an Episode nobody has measured."""
_SECONDS_PER_EPISODE = 0.01
"""What the engine adds."""
_SECONDS_PER_CELL = 3.0
_LISTED = 200


Basis = Literal["earlier Runs here", "measured seconds of its Benchmark", "a guess"]
_HERE: Basis = "earlier Runs here"
_SHIPPED: Basis = "measured seconds of its Benchmark"
_GUESS: Basis = "a guess"


@dataclass(frozen=True)
class Estimate:
    """Of one cell, in seconds."""

    episodes: float
    """Of the Host: Episodes and what a cell costs beside them."""
    basis: Basis
    thinking: float = 0.0
    """Of an agent that is asked through a provider."""


def print_plan(command: Command, name: str) -> None:
    """List the cells of `command`; nothing is run and nothing is spent."""
    new = [cell for cell in command.cells if not cell.finished]
    title = f"sweep {name}: " if name else ""
    print(
        f"{title}{plural(len(command.cells), 'cell')}, {len(command.cells) - len(new)} finished "
        "and reused"
    )
    print(_rows(command.cells))
    units = sum(cell.plan.units for cell in new)
    private = sum(cell.plan.validation_units + cell.plan.assessment_units for cell in new)
    spent = f"{plural(units, 'Episode unit')}, at most {plural(private, 'private Episode')}"
    print(f"\nto run: {plural(len(new), 'cell')}, {spent}")
    if new:
        _print_estimate(command, new)
    tell_weaker(command.cells)


def _print_estimate(command: Command, new: Sequence[PlannedCell]) -> None:
    estimates = [estimate(cell, command.output) for cell in new]
    share = shares(command)
    at_once = min(share.cells, len(new))
    workers = max(1, share.cores // at_once)
    # What was measured apart is for one core; a Run had its own share of cores, as this one will.
    seconds = (
        sum(e.episodes if e.basis == _HERE else e.episodes / workers for e in estimates) / at_once
    )
    counts = {
        basis: sum(e.basis == basis for e in estimates) for basis in (_HERE, _SHIPPED, _GUESS)
    }
    told = [f"{plural(count, 'cell')} by {basis}" for basis, count in counts.items() if count]
    longest = "about" if counts[_HERE] == len(new) else "at most about"
    print(
        f"{longest} {duration(seconds)} with {plural(at_once, 'cell')} at once on "
        f"{plural(share.cores, 'core')} ({', '.join(told)})"
    )
    thinking = sum(e.thinking for e in estimates) / at_once
    if not thinking:
        return
    for line in dict.fromkeys(_agent_line(cell, command.output) for cell in new if _is_asked(cell)):
        print(line)
    print(f"in all, with their agents' thinking: {duration(seconds + thinking)}")


def _is_asked(cell: PlannedCell) -> bool:
    return is_provided(cell.config.agent)


def _label(cell: PlannedCell) -> str:
    return str(cell.config.agent.get("label") or cell.config.agent["name"])


def _agent_line(cell: PlannedCell, output: Path) -> str:
    """What a cell of its agent may think and cost."""
    limits, runs = cell.config.session.limits, _of_agent(cell, output)
    if runs:
        known = [cost for run in runs if (cost := run.state.usage.get("cost_usd")) is not None]
        cost = dollars(statistics.median(known)) if known else "a cost that is not known"
        spent = statistics.median(run.state.thinking_seconds for run in runs)
        since = f"by {plural(len(runs), 'earlier Run')} of it here"
        return (
            f"{clean(_label(cell))}: about {duration(spent)} of thinking and {cost} a cell "
            f"({since})"
        )
    time = "any time" if limits.wall_seconds is None else f"at most {duration(limits.wall_seconds)}"
    cost = "any cost" if limits.cost_usd is None else f"at most {dollars(limits.cost_usd)}"
    return (
        f"{clean(_label(cell))}: {time} of thinking and {cost} a cell "
        "(session.limits.wall_seconds and .cost_usd)"
    )


def _rows(cells: Sequence[PlannedCell]) -> str:
    rows = [("cell", "units", "Validation", "Assessment", "state")]
    for cell in cells[:_LISTED]:
        plan = cell.plan
        begun = (plan.folder / RECORD).exists()
        going = (
            "not valid, run again"
            if begun and spoiled(cell)
            else "begun, goes on"
            if begun
            else "new"
        )
        state = "finished, reused" if cell.finished else going
        at_most = f"<={plan.validation_units}" if plan.validation_units else "0"
        rows.append(
            (clean(cell.title, 90), str(plan.units), at_most, str(plan.assessment_units), state)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = []
    for row in rows:
        left, *numbers, state = (
            text.ljust(w) if i in (0, 4) else text.rjust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([left, *numbers, state]).rstrip())
    if len(cells) > _LISTED:
        lines.append(f"and {len(cells) - _LISTED} more")
    return "\n".join(lines)


def estimate(cell: PlannedCell, output: Path) -> Estimate:
    """Of `cell`: by finished Runs of the same Benchmark, those of the same agent first, else by
    what ships."""
    runs = _finished(output / "runs" / cell.plan.benchmark, f"*/*/{RECORD}")
    same = [run for run in runs if run.record.agent.label == _label(cell)]
    asked = _is_asked(cell)
    thinking = 0.0
    if asked:
        before = [run.state.thinking_seconds for run in _of_agent(cell, output)]
        thinking = (
            statistics.median(before) if before else cell.config.session.limits.wall_seconds or 0.0
        )
    times = [_seconds_per_unit(run, with_agent=not asked and bool(same)) for run in same or runs]
    if times:
        return Estimate(
            _SECONDS_PER_CELL + statistics.median(times) * cell.plan.units, _HERE, thinking
        )
    shipped = shipped_seconds().get(str(cell.config.benchmark.get("name")))
    each = _SECONDS_PER_EPISODE + (_OTHER_SECONDS if shipped is None else shipped)
    basis = _GUESS if shipped is None else _SHIPPED
    return Estimate(_SECONDS_PER_CELL + each * cell.episodes, basis, thinking)


@cache
def shipped_seconds() -> dict[str, float]:
    """What `SECONDS` says, by the Benchmark's name."""
    found: dict[str, float] = json.loads(SECONDS.read_text("utf-8"))
    return found


def _of_agent(cell: PlannedCell, output: Path) -> list[Run]:
    """Finished Runs of its agent, on any Benchmark."""
    found = _finished(output / "runs", f"*/{glob.escape(cell.plan.folder.parent.name)}/*/{RECORD}")
    return [run for run in found if run.record.agent.label == _label(cell)]


def _finished(folder: Path, pattern: str, most: int = 20) -> list[Run]:
    found: list[Run] = []
    for record in sorted(folder.glob(pattern))[: 5 * most]:
        try:
            run = load_run(record.parent)
        except (EvoPolicyError, OSError):
            continue
        if run.finished:
            found.append(run)
    return found[:most]


def _seconds_per_unit(run: Run, *, with_agent: bool) -> float:
    """What the Run took, by Episode unit it could spend; with what its agent took itself, or
    without."""
    state = run.state
    spent = state.evaluating_seconds + sum(run.result.wall_seconds.values())
    return (spent + state.thinking_seconds * with_agent) / max(run.record.budget.episodes, 1)
