"""`live.json`: small, whole at any moment, and gone when the Run is."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.ports.protocols import Progress
from evopolicy.sweeps.live import LIVE, LiveFile, read_live

AT = Progress("session", 3, 8, 1, -12.5)


def test_progress_is_written_with_the_cells_names_and_removed_at_the_end(tmp_path: Path) -> None:
    live = LiveFile(tmp_path, "cma_es", "cartpole", 4, 64)
    live.on_progress(AT)
    found = read_live(tmp_path)
    assert found is not None
    assert (found.phase, found.episodes_done, found.episodes_total, found.best_score) == (
        "session",
        3,
        64,
        -12.5,
    )
    assert (found.entry, found.benchmark, found.seed, found.pid) == (
        "cma_es",
        "cartpole",
        4,
        os.getpid(),
    )
    live.remove()
    assert read_live(tmp_path) is None
    live.remove()


def test_many_reports_in_a_moment_are_one_write_but_a_new_phase_is_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "evopolicy.sweeps.live._SECONDS", 3600.0
    )  # a moment, however slow the machine is
    live = LiveFile(tmp_path, "cma_es", "cartpole", 0, 64)
    for done in range(1_000):
        live.on_progress(replace(AT, episodes_done=done, episodes_total=1_000))
    assert json.loads((tmp_path / LIVE).read_text())["episodes_done"] == 0
    live.on_progress(replace(AT, phase="validation", episodes_done=0))
    found = read_live(tmp_path)
    assert found is not None and found.phase == "validation"


def test_the_session_counts_units_of_the_whole_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evopolicy.sweeps.live._SECONDS", 0.0)
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
