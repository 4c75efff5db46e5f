"""`live.json`: small, whole at any moment, and gone when the Run is."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from evopolicy.cli.live import LIVE, Live, LiveFile, is_alive, read_live
from evopolicy.kernel.ports import Progress

AT = Progress("session", 3, 8, 1, -12.5)


def test_progress_is_written_with_the_cells_names_and_removed_at_the_end(tmp_path: Path) -> None:
    live = LiveFile(tmp_path, "cma_es", "cartpole", 4)
    live.on_progress(AT)
    found = read_live(tmp_path)
    assert found is not None
    assert (found.phase, found.episodes_done, found.episodes_total, found.best_score) == ("session", 3, 8, -12.5)
    assert (found.entry, found.benchmark, found.seed, found.pid) == ("cma_es", "cartpole", 4, os.getpid())
    assert is_alive(found)
    live.remove()
    assert read_live(tmp_path) is None
    live.remove()


def test_many_reports_in_a_moment_are_one_write_but_a_new_phase_is_written_at_once(tmp_path: Path) -> None:
    live = LiveFile(tmp_path, "cma_es", "cartpole", 0)
    for done in range(1_000):
        live.on_progress(replace(AT, episodes_done=done, episodes_total=1_000))
    written = json.loads((tmp_path / LIVE).read_text())["episodes_done"]
    assert written < 999
    live.on_progress(replace(AT, phase="validation", episodes_done=0))
    found = read_live(tmp_path)
    assert found is not None and found.phase == "validation"


def test_a_spoiled_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / LIVE).write_text('{"phase": 3}')
    assert read_live(tmp_path) is None


def test_a_process_that_is_gone_is_not_alive() -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    assert not is_alive(Live("session", 0, 1, 0, None, 0.0, 0.0, gone, "a", "b", 0))
