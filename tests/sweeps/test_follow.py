"""The command's side of tracking: what it says while it waits, and what when it waited in vain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from evopolicy.sweeps import follow
from evopolicy.sweeps.follow import Follower


class Tracker:
    """In place of a process: its exit code as each wait finds it."""

    pid = 0

    def __init__(self, *codes: int | None) -> None:
        self.codes = list(codes)

    def __call__(self, _: Sequence[str], __: Path) -> Tracker:
        return self

    def wait(self, _: float) -> int | None:
        return self.codes.pop(0)

    def write(self, _: bytes) -> None: ...

    def close_input(self) -> None: ...

    def close(self) -> None: ...


def finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: Tracker, uri: str = "") -> str:
    monkeypatch.setattr(follow, "Child", tracker)
    monkeypatch.setattr(follow, "kill_tree", lambda _: None)
    tracking = {"uri": uri, "experiment": "evopolicy", "artifacts": "standard"}
    return Follower(tmp_path, tracking, tmp_path / "tracker.log", run=str(tmp_path / "run")).finish(
        60.0
    )


def test_a_wait_for_the_tracking_database_says_what_is_finished_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish(tmp_path, monkeypatch, Tracker(None, 0)) == ""
    assert (
        capsys.readouterr().out.strip()
        == f"Finishing the tracking database, {tmp_path / 'mlflow.db'} ..."
    )
    finish(tmp_path, monkeypatch, Tracker(None, 0), "https://me:secret@store.example/x")
    said = capsys.readouterr().out
    assert "store.example" in said and "secret" not in said


def test_a_tracker_that_is_done_already_is_not_spoken_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish(tmp_path, monkeypatch, Tracker(0)) == ""
    assert capsys.readouterr().out == ""


def test_a_tracker_that_does_not_catch_up_is_named_with_the_command_that_logs_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = finish(tmp_path, monkeypatch, Tracker(None, None))
    assert (
        "did not catch up in time" in said and f"evopolicy track source={tmp_path / 'run'}" in said
    )
