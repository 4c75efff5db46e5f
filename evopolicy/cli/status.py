"""`evopolicy status`: what is running, read from the records, from any terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from evopolicy.cli.board import Board, CellState
from evopolicy.cli.display import render, summary_line
from evopolicy.cli.live import LIVE, Live, is_alive, read_live
from evopolicy.cli.options import output_of, pairs, sweep_of
from evopolicy.cli.text import clean, number
from evopolicy.kernel.sweep import SWEEP, Sweep, read_sweep


def status(words: Sequence[str]) -> int:
    """`sweep=NAME`: that sweep; without: every Run that is going on, and the sweeps there are."""
    options = pairs("status", words)
    output = output_of(options)
    if "sweep" in options:
        _show(_sweep_board(output, read_sweep(sweep_of(output, options["sweep"]))))
        return 0
    board = Board(running_cells(output))
    if board.cells:
        _show(board)
    else:
        print("nothing is running")
    for path in sorted(output.glob(f"sweeps/*/{SWEEP}")):
        sweep = _sweep_board(output, read_sweep(path.parent))
        print(f"sweep {sweep.name}: {_counts(sweep)}")
    return 0


def _show(board: Board) -> None:
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(render(board))
        return
    for cell in board.cells:
        live = cell.live
        where = f", {live.phase} {live.episodes_done}/{live.episodes_total}" if live else ""
        best = f", best score {number(live.best_score)}" if live else f", held-out {number(cell.score)}"
        print(f"{clean(cell.title)}: {cell.status}{where}{best}" + (f": {clean(cell.error)}" if cell.error else ""))
    print(_counts(board))


def _counts(board: Board) -> str:
    return summary_line(board).partition(f", {0}s so far")[0]


def running_cells(output: Path) -> list[CellState]:
    """Every Run under `output` whose process lives."""
    found = []
    for path in sorted(output.glob(f"runs/*/*/*/{LIVE}")):
        live = read_live(path.parent)
        if live and is_alive(live):
            found.append(_running(path.parent, live))
    return found


def _running(folder: Path, live: Live) -> CellState:
    started = time.monotonic() - (time.time() - live.started)
    return CellState(live.entry, live.benchmark, live.seed, folder, "running", live=live, started=started)


def _sweep_board(output: Path, sweep: Sweep) -> Board:
    """The sweep as its files say; a cell counts as running only while its process lives."""
    cells = []
    for cell in sweep.cells:
        folder = output / cell.run
        live = read_live(folder)
        if live and is_alive(live):
            cells.append(_running(folder, live))
            continue
        stale = cell.status == "running"
        state = CellState(
            cell.entry, cell.benchmark, cell.seed, folder, "pending" if stale else cell.status, cell.error
        )
        state.score = _score(folder, cell.result_key) if cell.status in ("finished", "reused") else None
        cells.append(state)
    return Board(cells, sweep.name)


def _score(folder: Path, result_key: str) -> float | None:
    from evopolicy.kernel.errors import RecordError
    from evopolicy.kernel.record import load_run

    try:
        measured = load_run(folder).under(result_key).result.assessment
    except RecordError:
        return None
    return measured.mean if measured else None
