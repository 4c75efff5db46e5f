"""`evopolicy status`: what is running, read from the records, from any terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from evopolicy.cli.options import output_of, pairs, sweep_of
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.received import is_inside
from evopolicy.kernel.run.owner import is_owned
from evopolicy.kernel.run.sweep import SWEEP, Sweep, read_sweep, run_of
from evopolicy.kernel.shown import clean
from evopolicy.sweeps.board import Board, CellState
from evopolicy.sweeps.display import render, summary_line
from evopolicy.sweeps.live import LIVE, Live, read_live
from evopolicy.sweeps.text import number


def status(words: Sequence[str]) -> int:
    """`sweep=NAME`: that sweep; without: every Run that is going on, and the sweeps there are."""
    options = pairs("status", words)
    output = output_of(options)
    if "sweep" in options:
        _show(_sweep_board(output, read_sweep(sweep_of(output, options["sweep"]))))
        return 0
    board = Board(running_cells(output))
    sweeps = sorted(output.glob(f"sweeps/*/{SWEEP}"))
    going_on = {path for path in sweeps if is_owned(path.parent)}
    if board.cells:
        _show(board)
    elif going_on:
        print("no Run is going on at this moment; a sweep's command is between two of them")
    else:
        print("nothing is running")
    code = 0
    for path in sweeps:
        try:
            sweep = _sweep_board(output, read_sweep(path.parent))
        except RecordError as error:
            print(clean(str(error), 500), file=sys.stderr)
            code = 1
            continue
        print(
            f"sweep {clean(sweep.name)}: {_counts(sweep)}"
            + (", its command is at work" if path in going_on else "")
        )
    return code


def _show(board: Board) -> None:
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(render(board))
        return
    for cell in board.cells:
        live = cell.live
        where = f", {live.phase} {live.episodes_done}/{live.episodes_total}" if live else ""
        best = (
            f", best score {number(live.best_score)}"
            if live
            else f", held-out {number(cell.score)}"
        )
        why = (
            f": {clean(cell.error)}" if cell.error else f"; {cell.held_up}" if cell.held_up else ""
        )
        print(f"{clean(cell.title)}: {cell.status}{where}{best}{why}")
    print(_counts(board))


def _counts(board: Board) -> str:
    return summary_line(board).partition(f", {0}s so far")[0]


def running_cells(output: Path) -> list[CellState]:
    """Every Run under `output` that a command works on."""
    found = []
    for path in sorted(output.glob(f"runs/*/*/*/{LIVE}")):
        live = read_live(path.parent) if is_inside(output, path.parent) else None
        if live and is_owned(path.parent):
            found.append(_running(path.parent, live))
    return found


def _running(folder: Path, live: Live) -> CellState:
    started = time.monotonic() - (time.time() - live.started)
    cell = CellState(live.entry, live.benchmark, live.seed, folder, "running", started=started)
    cell.look(live)
    return cell


def _sweep_board(output: Path, sweep: Sweep) -> Board:
    """The sweep as its files say; a cell counts as running only while a command works on its
    Run."""
    cells = []
    for cell in sweep.cells:
        try:
            folder = run_of(output, cell)
        except RecordError as error:
            cells.append(
                CellState(cell.entry, cell.benchmark, cell.seed, output, "failed", str(error))
            )
            continue
        live = read_live(folder)
        if live and is_owned(folder):
            cells.append(_running(folder, live))
            continue
        stale = cell.status == "running"
        state = CellState(
            cell.entry,
            cell.benchmark,
            cell.seed,
            folder,
            "pending" if stale else cell.status,
            cell.error,
        )
        state.score = (
            _score(folder, cell.result_key) if cell.status in ("finished", "reused") else None
        )
        cells.append(state)
    return Board(cells, sweep.name)


def _score(folder: Path, result_key: str) -> float | None:
    from evopolicy.kernel.run.agreement import heldout_contradiction
    from evopolicy.kernel.session.record import load_run

    try:
        run = load_run(folder)
        measured = run.under(result_key).result.assessment
        return measured.mean if measured and not heldout_contradiction(run, result_key) else None
    except RecordError:
        return None
