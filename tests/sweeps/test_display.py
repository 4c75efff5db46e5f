"""What a person sees while cells run, on a terminal and without one."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from evopolicy.kernel.run.waiting import Waiting
from evopolicy.sweeps import display
from evopolicy.sweeps.board import Board, CellState
from evopolicy.sweeps.display import render, summary_line
from evopolicy.sweeps.live import Live

HOSTILE = "\x1b[2J[red]x[/red]"


def live(phase: str = "session", entry: str = "cma_es") -> Live:
    return Live(phase, 3, 8, 2, 41.5, 0.0, 0.0, 1, entry, "cartpole", 0)


def board(*statuses: str, entry: str = "cma_es") -> Board:
    cells = [
        CellState(entry, "cartpole", seed, Path(f"run{seed}"), status)
        for seed, status in enumerate(statuses)
    ]
    for cell in cells:
        if cell.status == "running":
            cell.live = live(entry=entry)
        if cell.status == "failed":
            cell.error = f"the reason {HOSTILE}"
    return Board(cells, "night")


def shown(what: Board, width: int = 140) -> str:
    screen = io.StringIO()
    Console(file=screen, width=width, force_terminal=True, color_system=None).print(render(what))
    return screen.getvalue()


def test_the_table_shows_phase_episodes_submissions_and_best_score_of_running_cells() -> None:
    text = shown(board("running", "pending"))
    for part in (
        "cma_es on cartpole, seed 0",
        "session",
        "3/8",
        "41.5",
        "sweep night",
        "1 running",
        "1 waiting",
    ):
        assert part in text
    assert "seed 1" not in text


@pytest.mark.parametrize("width", [80, 100, 120])
def test_what_tells_rows_apart_is_whole_on_a_narrow_terminal(width: int) -> None:
    """It was 'cma... / on / pen... / seed / 4' at 80 columns, and nothing at all beside a failed
    cell."""
    entry = "claude_code feedback=full"
    text = shown(board("running", "failed", "finished", entry=entry), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    names = "".join(
        line[1:].partition("│")[0].strip() + " " for line in lines if line.startswith("│")
    )
    for seed in range(3):
        assert f"{entry} on cartpole, seed {seed}" in names
    assert "failed: the reason" in text


def test_what_holds_a_run_up_is_shown_while_it_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    what = board("running")
    what.cells[0].waiting = Waiting(
        f"its provider does not answer (429){HOSTILE}", time.time() - 200
    )
    text = shown(what, 100)
    assert "seed 0: its provider does not answer (429)" in text and "for 3m" in " ".join(
        text.split()
    )
    assert "\x1b[2J" not in text
    with display.show(what) as lines:
        for _ in range(3):
            lines.update()
        what.cells[0].waiting = None
        lines.update()
    assert capsys.readouterr().out.count("does not answer") == 1
    what.cells[0].status = "finished"
    assert "answer" not in shown(what)


def test_a_large_sweep_fits_a_screen() -> None:
    assert len(shown(board(*["finished"] * 500, "running", *["pending"] * 500)).splitlines()) < 20


def test_text_of_an_agent_is_shown_as_it_is_and_moves_nothing() -> None:
    text = shown(board("running", "failed", entry=HOSTILE))
    assert "\x1b[2J" not in text
    assert "[red]x[/red]" in text


def test_plain_lines_come_once_for_each_phase_and_each_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    what = board("running", "pending", entry=HOSTILE)
    with display.show(what) as lines:
        for _ in range(5):
            lines.update()
        what.cells[0].live = live("validation")
        lines.update()
        what.cells[0].status, what.cells[0].score = "finished", 99.0
        what.cells[1].status, what.cells[1].error = "failed", "the reason\nin two lines"
        for _ in range(3):
            lines.update()
    out = capsys.readouterr().out
    said = out.splitlines()
    assert len(said) == 4
    assert "session, best score so far 41.5" in said[0] and "validation" in said[1]
    assert said[2].startswith("[2/2]") and "held-out 99" in said[2]
    assert ": FAILED: the reason" in said[3], "one that never started has no time"
    assert "the reason in two lines" in said[3]
    assert "\x1b" not in out


def test_why_a_single_run_failed_is_left_to_the_end_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    what = board("failed")
    what.name, what.cells[0].error = "", "the reason"
    with display.show(what) as lines:
        lines.update()
    out = capsys.readouterr().out
    assert "FAILED" in out and "the reason" not in out


def test_plain_lines_of_a_large_sweep_are_one_for_a_cell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    what = board(*["running"] * 100)
    with display.show(what) as lines:
        lines.update()
        for cell in what.cells:
            cell.status = "finished"
        lines.update()
    assert len(capsys.readouterr().out.splitlines()) == 100


def test_the_summary_line_counts_and_guesses_only_from_cells_that_ended() -> None:
    what = board("finished", "reused", "failed", "running", "pending")
    assert summary_line(what).startswith(
        "3 of 5 cells done, 1 reused, 1 failed, 1 running, 1 waiting"
    )
    assert "to go" not in summary_line(what)
    for cell, (started, ended) in zip(
        what.cells, ((0.0, 10.0), (None, None), (0.0, 30.0)), strict=False
    ):
        cell.started, cell.ended = started, ended
    assert what.seconds_left == pytest.approx(40.0, abs=1.0)
