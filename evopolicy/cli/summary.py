"""What is printed when a command's cells have ended: the rank table, failures, and where to look next."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from evopolicy.cli.board import Board
from evopolicy.cli.text import clean, number, plural
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.record import Run
from evopolicy.kernel.sweep import sweep_folder

_LISTED = 20


def print_sweep(board: Board, output: Path, at: str, *, tracked: bool) -> None:
    """The rank table of the sweep, its failures and the next commands. `at` is the override that names the output."""
    print()
    try:
        print_table(sweep_folder(output, board.name))
    except RecordError as error:
        print(f"No rank table: {error}")
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


def print_table(*sources: Path, allow: Sequence[str] = ()) -> bool:
    """The rank table of every Run in `sources`, and below it what they reproduce of the paper's random row.

    False where a record in them cannot be read, each named on stderr.
    Raises RecordError where there is nothing to read or what there is cannot be compared.
    """
    from evopolicy.analysis import find_runs, random_row, rank_table, render_random_row, render_rich, render_text

    found = find_runs(*sources)
    table = rank_table(found, allow=allow)
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(render_rich(table))
    else:
        print(render_text(table, max(shutil.get_terminal_size((120, 24)).columns, 80)), end="")
    if reproduced := render_random_row(random_row(found)):
        print(f"\n{reproduced}", end="")
    for unreadable in found.unreadable:
        print(f"left out of the table: {clean(unreadable.reason)}", file=sys.stderr)
    return not found.unreadable


def print_run(run: Run, at: str, *, tracked: bool) -> None:
    """The result of a single Run."""
    measured, state = run.result.assessment, run.state
    selected = run.result.selected_submission
    program = "the initial Program" if selected is None else f"Submission {selected}"
    print(f"\n{clean(run.record.entry)} on {run.record.benchmark.slug}, seed {run.record.seed}")
    if measured:
        error = "" if measured.standard_error is None else f" ± {number(measured.standard_error)}"
        print(f"  held-out score  {number(measured.mean)}{error} over {plural(measured.episodes, 'Episode')}")
    print(f"  selected        {program} of {len(state.submissions)}")
    if not run.valid:
        print(f"  NOT VALID       {', '.join(run.result.reasons)}")
    print(f"  record          {run.folder}")
    if tracked:
        print(f"\nIn MLflow: evopolicy ui{at}")
