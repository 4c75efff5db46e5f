"""`live.json`: small, whole at any moment, and gone when the Run is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.cli.live import LIVE, Live, LiveFile, is_alive, read_live
from evopolicy.cli.processes import birth
from evopolicy.kernel.ports import Progress

AT = Progress("session", 3, 8, 1, -12.5)


def test_progress_is_written_with_the_cells_names_and_removed_at_the_end(tmp_path: Path) -> None:
    live = LiveFile(tmp_path, "cma_es", "cartpole", 4, 64)
    live.on_progress(AT)
    found = read_live(tmp_path)
    assert found is not None
    assert (found.phase, found.episodes_done, found.episodes_total, found.best_score) == ("session", 3, 64, -12.5)
    assert (found.entry, found.benchmark, found.seed, found.pid) == ("cma_es", "cartpole", 4, os.getpid())
    assert is_alive(found)
    live.remove()
    assert read_live(tmp_path) is None
    live.remove()


def test_many_reports_in_a_moment_are_one_write_but_a_new_phase_is_written_at_once(tmp_path: Path) -> None:
    live = LiveFile(tmp_path, "cma_es", "cartpole", 0, 64)
    for done in range(1_000):
        live.on_progress(replace(AT, episodes_done=done, episodes_total=1_000))
    written = json.loads((tmp_path / LIVE).read_text())["episodes_done"]
    assert written < 999
    live.on_progress(replace(AT, phase="validation", episodes_done=0))
    found = read_live(tmp_path)
    assert found is not None and found.phase == "validation"


def test_the_session_counts_units_of_the_whole_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evopolicy.cli.live._SECONDS", 0.0)
    live = LiveFile(tmp_path, "cma_es", "cartpole", 0, 64)

    def done() -> tuple[str, int, int, float | None]:
        found = read_live(tmp_path)
        assert found is not None
        return found.phase, found.episodes_done, found.episodes_total, found.best_score

    live.on_event({"event": "agent_started", "attempt": 1})
    assert done() == ("session", 0, 64, None), "an agent that thinks first is shown as well"
    for number, score in ((1, 5.0), (2, 3.0)):
        live.on_event({"event": "reserved", "submission": number, "units": 8})
        live.on_progress(Progress("session", 4, 8, number, None if number == 1 else 5.0))
        assert done()[1] == 8 * (number - 1) + 4
        live.on_event({"event": "published", "submission": number, "score": score})
    assert done() == ("session", 16, 64, 5.0)
    live.on_progress(Progress("validation", 2, 16, 2, 5.0))
    assert done() == ("validation", 2, 16, 5.0)


def test_a_run_that_goes_on_counts_what_was_spent_before(records: Any, tmp_path: Path) -> None:
    folder = records.write_run(tmp_path, until="submission 2")
    live = LiveFile(folder, "cma_es", "cartpole", 0, 64)
    live.on_event({"event": "resumed", "result": "x"})
    found = read_live(folder)
    assert found is not None
    assert (found.episodes_done, found.submissions, found.best_score) == (16, 2, 200.0)


def test_a_spoiled_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / LIVE).write_text('{"phase": 3}')
    assert read_live(tmp_path) is None


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only /proc says when a process was started")


@LINUX
def test_another_process_with_the_number_of_a_dead_one_is_not_the_run(tmp_path: Path) -> None:
    LiveFile(tmp_path, "cma_es", "cartpole", 4, 64).on_progress(AT)
    found = read_live(tmp_path)
    assert found is not None and is_alive(found)
    boot, _, started = found.process.partition(" ")
    assert not is_alive(replace(found, process=f"{boot} {int(started) - 1}")), "its number was given out again"
    assert not is_alive(replace(found, process=f"another-boot {started}")), "the machine was started again"
    assert not is_alive(replace(found, pid=1)), "that one lives, but wrote nothing"
    assert is_alive(replace(found, process="")), "written where the system does not say"


@LINUX
def test_a_process_that_ended_and_waits_to_be_reaped_is_not_alive() -> None:
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    live = Live("session", 0, 1, 0, None, 0.0, 0.0, gone.pid, "a", "b", 0, birth(gone.pid))
    assert is_alive(live)
    assert gone.stdin is not None
    gone.stdin.close()
    while birth(gone.pid):
        time.sleep(0.01)
    assert not is_alive(live)
    gone.wait()


def test_a_process_that_is_gone_is_not_alive() -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    assert not is_alive(Live("session", 0, 1, 0, None, 0.0, 0.0, gone, "a", "b", 0))
