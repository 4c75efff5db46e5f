"""What is printed when a command's cells have ended: the rank table, failures, and where to look
next."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicy.cli.sources import tell_unreadable
from evopolicy.cli.target import write_target
from evopolicy.cli.text import show, text_width
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.run.attempt import is_unexplained
from evopolicy.kernel.run.sweep import sweep_folder
from evopolicy.kernel.session.failures import REASON_TEXTS
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.kernel.session.state import RunState, add_usage
from evopolicy.kernel.shown import clean
from evopolicy.present import numbers
from evopolicy.present.numbers import dollars, plural
from evopolicy.sweeps.board import Board
from evopolicy.sweeps.text import duration

if TYPE_CHECKING:
    from evopolicy.present.formats import Format
    from evopolicy.present.table import Table

_LISTED = 20


def print_sweep(board: Board, output: Path, at: str, *, tracked: bool) -> None:
    """The rank table of the sweep, its failures and the next commands. `at` is the override that
    names the output."""
    print()
    print_table_or_why(sweep_folder(output, board.name))
    if used := usage_line(_states(board)):
        print(f"\nAll agents together: {used}")
    failed = [cell for cell in board.cells if cell.status == "failed"]
    if failed:
        print(f"\n{plural(len(failed), 'cell')} of {len(board.cells)} failed:")
        for cell in failed[:_LISTED]:
            print(f"  {clean(cell.title)}: {clean(cell.error)}")
        if len(failed) > _LISTED:
            print(f"  and {len(failed) - _LISTED} more")
        print("The same command runs these again and reuses the others.")
    print()
    if tracked:
        print(f"In MLflow:  evopolicy ui sweep={board.name}{at}")
    print(f"This table: evopolicy table sweep={board.name}{at}")


def _states(board: Board) -> Iterator[RunState]:
    """Of the cells that have a record."""
    for cell in board.cells:
        with contextlib.suppress(RecordError):
            yield load_run(cell.folder).state


def print_table(
    *sources: Path, allow: Sequence[str] = (), form: Format = "terminal", target: Path | None = None
) -> int:
    """The rank table of every Run in `sources`, and below it what they reproduce of the paper's
    random row.

    In another format, or where it goes into the file `target`, it is the table alone. Returns the
    exit code: 1 where a record in them cannot be read, each named on standard error. Raises
    RecordError where there is nothing to read or what there is cannot be compared."""
    from evopolicy.analysis import find_runs, present_ranks, random_row, random_table, rank_table

    found = find_runs(*sources)
    write_table(
        present_ranks(rank_table(found, allow=allow), "" if form == "terminal" else "Rank table"),
        form,
        target,
    )
    if target is None and form == "terminal" and (row := random_row(found)):
        print()
        write_table(random_table(row), form, None)
    return tell_unreadable(found, "the table")


def write_table(table: Table, form: Format, target: Path | None) -> None:
    """Print `table`, or write it to `target`; notes of a CSV, which has no place for them, go to
    standard error."""
    from evopolicy.present import formats, text

    if target is None and form == "terminal":
        show(lambda: text.render_rich(table), lambda columns: text.render_text(table, columns))
        return
    written = formats.render(table, form, text_width())
    if form == "csv":
        for note in table.notes:
            print(clean(note, 2_000), file=sys.stderr)
    if target is None:
        print(written, end="")
        return
    write_target(target, written)
    print(f"Written: {target}")


def print_table_or_why(source: Path) -> int:
    """The rank table of what has just been measured in `source`, or why there is none; the exit
    code.

    0 where the Runs cannot be compared: they were made all the same.
    """
    try:
        return print_table(source)
    except RecordError as error:
        print(f"No rank table: {error}")
        return 0


def agent_lines(run: Run) -> Iterator[tuple[str, str]]:
    """What the agent did and used, by name; only what is known."""
    state = run.state
    if state.agent_ended:
        counts = [
            plural(n, word)
            for n, word in ((state.turns, "turn"), (state.tool_calls, "tool call"))
            if n
        ]
        if requests := state.usage.get("requests"):
            counts.append(plural(requests, "request"))
        if state.agent_attempts > 1:
            counts.append(plural(state.agent_attempts, "attempt"))
        yield "agent", ", ".join([state.agent_ended, *counts])
        waiting = (
            f", waiting for its provider {duration(state.waiting_seconds)}"
            if state.waiting_seconds >= 1
            else ""
        )
        thinking, evaluating = duration(state.thinking_seconds), duration(state.evaluating_seconds)
        yield "time", f"thinking {thinking}, evaluating {evaluating}{waiting}"
    if state.agent_error:
        yield "its last error", clean(state.agent_error)
    if tokens := tokens_text(state.usage):
        yield "tokens", tokens
    if state.usage.get("cost_usd") is not None:
        yield "cost", cost_text(state.usage) + _price_date(run)
    elif tokens_text(state.usage):
        model = clean(run.record.agent.model or "its model")
        yield "cost", f"unknown: prices= has no price of {model}; give it in agent.price"
    if is_unexplained(state.unexplained_tokens, state.usage):
        yield "UNEXPLAINED", f"{state.unexplained_tokens:,} tokens its stream does not tell of"


_KINDS = {
    "input_tokens": "input", "cached_tokens": "cached", "cache_write_tokens": "written to caches",
    "output_tokens": "output",
}  # fmt: skip


def tokens_text(usage: Mapping[str, Any]) -> str:
    """`1,000 input, 5,000 cached, 1,200 output (300 reasoning)`; `≈` before an estimate; '' where
    nobody says."""
    parts = [f"{usage[kind]:,} {word}" for kind, word in _KINDS.items() if usage.get(kind)]
    reasoning = usage.get("reasoning_tokens")
    about = "≈ " if parts and usage.get("tokens_are_estimate") else ""
    return about + ", ".join(parts) + (f" ({reasoning:,} reasoning)" if parts and reasoning else "")


def cost_text(usage: Mapping[str, Any]) -> str:
    """US dollars; `≈` where it is, or has in it, an estimate."""
    return ("≈ " if usage.get("cost_is_estimate") else "") + dollars(usage["cost_usd"])


def _price_date(run: Run) -> str:
    """From which day the prices of an estimate are."""
    prices = run.record.config.get("prices")
    day = prices.get("as_of") if isinstance(prices, Mapping) else None
    if not run.state.usage.get("cost_is_estimate"):
        return ""
    if run.record.config.get("agent", {}).get("price"):
        return " (an estimate by agent.price)"
    return (
        f" (an estimate by prices of {clean(str(day))}{_age(str(day), run.record.created)})"
        if day
        else " (an estimate)"
    )


def _age(day: str, ran: float) -> str:
    """How old a list of prices of `day` was when a Run was made at `ran`, from two months on."""
    try:
        days = (date.fromtimestamp(ran) - date.fromisoformat(day[:10])).days
    except (ValueError, OverflowError, OSError):
        return ""
    return f", {days // 30} months old then" if days >= 60 else ""


def usage_line(states: Iterable[RunState]) -> str:
    """What the agents of several Runs used together, in one line; '' where no provider says."""
    total: dict[str, Any] = {}
    silent = told = unpriced = 0
    for state in states:
        total = add_usage(total, state.usage)
        known = bool(tokens_text(state.usage)) or state.usage.get("cost_usd") is not None
        told, silent = told + known, silent + (not known)
        unpriced += bool(tokens_text(state.usage)) and state.usage.get("cost_usd") is None
    if not told:
        return ""
    parts = [tokens_text(total) and f"{tokens_text(total)} tokens"]
    if total.get("cost_usd") is not None:
        parts.append(
            cost_text(total)
            + (f" and the unknown cost of {plural(unpriced, 'cell')}" if unpriced else "")
        )
    elif unpriced:
        parts.append("cost unknown")
    note = (
        f" ({plural(silent, 'cell')} of {told + silent} not counted: neither the provider nor "
        "prices= tell)"
        if silent
        else ""
    )
    return ", ".join(part for part in parts if part) + note


def print_run(run: Run, at: str, *, tracked: bool) -> None:
    """The result of a single Run."""
    measured, state = run.result.assessment, run.state
    selected = run.result.selected_submission
    program = "the initial Program" if selected is None else f"Submission {selected}"
    print(f"\n{clean(run.record.entry)} on {run.record.benchmark.slug}, seed {run.record.seed}")
    if measured:
        mean, error = numbers.mean_and_error(measured.mean, measured.standard_error)
        spread = "" if measured.standard_error is None else f" ± {error}"
        print(f"  held-out score  {mean}{spread} over {plural(measured.episodes, 'Episode')}")
    print(f"  selected        {program} of {len(state.submissions)}")
    for name, value in agent_lines(run):
        print(f"  {name:<15} {value}")
    if not run.valid:
        words = "; ".join(
            REASON_TEXTS[reason] for reason in run.result.reasons if reason in REASON_TEXTS
        )
        print(
            "  NOT VALID       "
            f"{clean(run.state.explained(run.result.reasons))}{f': {words}' if words else ''}"
        )
        again = ", and pays for its agent again" if tokens_text(state.usage) else ""
        print(
            f"  next            the same command runs it again{again}; this one is kept in invalid/"
        )
    print(f"  record          {run.folder}")
    if tracked:
        print(f"\nIn MLflow: evopolicy ui{at}")
