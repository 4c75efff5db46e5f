"""Verbs that read records: table, status, track, ui, resume; and evaluate, which reads none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evopolicy.cli.main import main
from evopolicy.kernel.run.owner import Ownership
from evopolicy.sweeps.live import LIVE, Live


def live(pid: int, **changes: Any) -> bytes:
    now = time.time()
    found = Live("session", 3, 8, 1, 12.5, now - 60, now, pid, "cma_es", "cartpole", 0)
    return msgspec.json.encode(replace(found, **changes))


def test_a_table_is_printed_from_a_sweep_or_from_any_runs(
    make_sweep: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sweep("quick")
    assert main(["table", "sweep=quick", f"output={tmp_path}"]) == 0
    by_name = capsys.readouterr().out
    assert by_name.index("cma_es") < by_name.index("baseline")
    assert main(["table", f"source={tmp_path / 'runs'}"]) == 0
    assert capsys.readouterr().out.splitlines()[:6] == by_name.splitlines()[:6]


def test_a_sweeps_table_keeps_its_own_rule_when_a_later_one_shares_its_runs(
    records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = records.write_run(tmp_path, heldout=(190.0, 210.0))
    records.write_cells(tmp_path, "first", [records.cell_of(tmp_path, folder)])
    records.follow_rule(folder, "another", heldout=(10.0, 30.0))
    records.write_cells(tmp_path, "second", [records.cell_of(tmp_path, folder)])
    for name, shown, other in (("first", "200", "20"), ("second", "20", "200")):
        assert main(["table", f"sweep={name}", f"output={tmp_path}"]) == 0
        row = next(line for line in capsys.readouterr().out.splitlines() if " cma_es " in line)
        assert f" {shown} ±" in row, row
        assert f" {other} ±" not in row
        assert main(["status", f"sweep={name}", f"output={tmp_path}"]) == 0
        assert f"held-out {float(shown):.4g}\n" in capsys.readouterr().out


def test_an_unknown_sweep_gets_the_near_name(
    make_sweep: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sweep("quick")
    for verb in ("table", "status", "resume", "ui"):
        assert main([verb, "sweep=quikc", f"output={tmp_path}"]) == 2
        assert "Did you mean 'quick'?" in capsys.readouterr().err


def test_runs_of_other_isolation_are_compared_only_when_asked(
    records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records.write_run(tmp_path, records.a_record("cma_es"))
    records.write_run(tmp_path, records.a_record("random", isolation="none"))
    assert main(["table", f"source={tmp_path}"]) == 2
    assert "isolation" in capsys.readouterr().err
    assert main(["table", f"source={tmp_path}", "allow= isolation, pool"]) == 0


@pytest.fixture
def owned() -> Iterator[Callable[[Path], Ownership]]:
    owners: list[Ownership] = []

    def own(folder: Path) -> Ownership:
        owners.append(Ownership(folder))
        return owners[-1]

    yield own
    for owner in owners:
        owner.close()


def test_status_tells_running_cells_from_those_whose_process_is_gone(
    records: Any,
    tmp_path: Path,
    owned: Callable[[Path], Ownership],
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [
        records.write_run(tmp_path, records.a_record(seed=seed), until="opened")
        for seed in range(3)
    ]
    (runs[0] / LIVE).write_bytes(live(os.getpid()))
    owned(runs[0])
    # Its number was given to another process after it was killed: this one, which works on another
    # Run.
    (runs[1] / LIVE).write_bytes(live(os.getpid(), seed=1))
    cells = [records.cell_of(tmp_path, run, "running") for run in runs[:2]]
    records.write_cells(
        tmp_path, "night", [*cells, records.cell_of(tmp_path, runs[2], "failed", "a\x1b[2Jb")]
    )
    assert main(["status", "sweep=night", f"output={tmp_path}"]) == 0
    first, second, third, total = capsys.readouterr().out.splitlines()
    assert "running, session 3/8, best score 12.5" in first
    assert "pending" in second
    assert "failed" in third and "\x1b" not in third
    assert total == "1 of 3 cells done, 1 failed, 1 running, 1 waiting"
    assert main(["status", f"output={tmp_path}"]) == 0
    everywhere = capsys.readouterr().out
    assert everywhere.count("running, session") == 1
    assert "sweep night: 1 of 3 cells done" in everywhere


def test_status_of_a_quiet_folder_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", f"output={tmp_path}"]) == 0
    assert capsys.readouterr().out == "nothing is running\n"


def test_a_sweep_between_two_of_its_runs_is_not_told_as_nothing(
    make_sweep: Callable[..., Any],
    tmp_path: Path,
    owned: Callable[[Path], Ownership],
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_sweep("quick")
    assert main(["status", f"output={tmp_path}"]) == 0
    assert "nothing is running" in capsys.readouterr().out
    owned(tmp_path / "sweeps" / "quick")
    assert main(["status", f"output={tmp_path}"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "no Run is going on at this moment; a sweep's command is between two of them"
    assert second.startswith("sweep quick: ") and second.endswith(", its command is at work")


def test_a_corrupt_sweep_is_named(
    make_sweep: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sweep("quick")
    (tmp_path / "sweeps" / "quick" / "sweep.json").write_text("{")
    for verb in ("table", "status", "resume"):
        assert main([verb, "sweep=quick", f"output={tmp_path}"]) == 2
        assert "sweep.json" in capsys.readouterr().err


def test_resume_needs_the_jobs_of_its_sweep(
    make_sweep: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sweep("quick")
    assert main(["resume", "sweep=quick", f"output={tmp_path}"]) == 2
    assert "type the sweep's own command again" in capsys.readouterr().err


def test_track_and_ui_use_the_store_of_the_sweep_unless_another_is_named(
    make_sweep: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evopolicy.tracking import follow, ui

    make_sweep("quick", tracking={"uri": "http://store", "experiment": "mine", "artifacts": "full"})
    seen: list[Any] = []
    monkeypatch.setattr(follow, "track", lambda *given: seen.append(given) or follow.Report(4))
    monkeypatch.setattr(ui, "run_ui", lambda *given, **_: seen.append(given))
    sweep = tmp_path / "sweeps" / "quick"
    assert main(["track", f"source={sweep}"]) == 0
    assert (
        main(
            [
                "track",
                f"source={sweep}",
                "tracking.uri=sqlite:///x.db",
                "tracking.artifacts=standard",
            ]
        )
        == 0
    )
    assert main(["track", f"source={next((tmp_path / 'runs').glob('*/*/*'))}"]) == 0
    assert main(["ui", f"output={tmp_path}"]) == 0
    outputs = [given[1] for given in seen[:3]]
    assert outputs == [tmp_path] * 3
    stores = [given[2] for given in seen[:3]] + [seen[3][1]]
    assert [store.uri for store in stores] == ["http://store", "sqlite:///x.db", "", "http://store"]
    assert [store.artifacts for store in stores] == ["full", "standard", "standard", "full"]


@pytest.mark.slow
def test_evaluate_measures_a_program_and_shows_how_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.py").write_text(
        "def make_policy(context):\n    raise ValueError('not \\x1b[2J today')\n"
    )
    arguments = ["evaluate", "program=.", "benchmark=cartpole", "split=assessment", "episodes=3"]
    assert main(arguments) == 1  # it fails wherever it is tried: a mistake to mend
    said = capsys.readouterr().out
    assert (
        "3 Episodes of assessment" in said
        and "3 of 3 Episodes: 3 exception" in said
        and "today" in said
    )
    assert "\x1b" not in said
    assert not list(tmp_path.glob("outputs/*"))


def test_table_names_a_record_it_cannot_read_and_says_so_by_its_exit_code(
    tmp_path: Path, make_sweep: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A rank over the others without a word would be a wrong number."""
    make_sweep("quick", seeds=1)
    next(iter((tmp_path / "runs" / "cartpole").rglob("record.json"))).write_text('{"bro')
    assert main(["table", f"source={tmp_path / 'runs'}"]) == 1
    assert "left out of the table" in capsys.readouterr().err
