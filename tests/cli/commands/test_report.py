"""`evopolicy report`: which page it makes of what, where it lies, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.cli.main import main

Capture = pytest.CaptureFixture[str]


def test_a_runs_page_lies_in_its_folder(make_run: Callable[..., Any], capsys: Capture) -> None:
    run = make_run()
    assert main(["report", f"source={run.folder}"]) == 0
    target = run.folder / "report.html"
    assert "<title>cma_es on cartpole, seed 0</title>" in target.read_text(encoding="utf-8")
    assert capsys.readouterr().out.startswith(f"{target} (")
    assert [path.name for path in run.folder.iterdir() if path.name.startswith("tmp")] == []


def test_a_sweeps_page_lies_in_its_folder_or_where_it_is_asked_for(
    make_sweep: Callable[..., Any], tmp_path: Path
) -> None:
    make_sweep("quick")
    assert main(["report", "sweep=quick", f"output={tmp_path}"]) == 0
    text = (tmp_path / "sweeps" / "quick" / "report.html").read_text(encoding="utf-8")
    assert "<title>Sweep quick</title>" in text
    assert (
        main(["report", "sweep=quick", f"output={tmp_path}", f"to={tmp_path / 'here.html'}"]) == 0
    )
    assert (tmp_path / "here.html").read_text(encoding="utf-8") == text
    assert main(["report", "sweep=quick", f"output={tmp_path}", f"to={tmp_path}"]) == 0
    assert (tmp_path / "report.html").is_file()
    new = tmp_path / "new" / "here.html"
    assert main(["report", "sweep=quick", f"output={tmp_path}", f"to={new}", "log=False"]) == 0
    assert new.read_text(encoding="utf-8") == text


def test_any_folder_of_runs_is_compared(make_sweep: Callable[..., Any], tmp_path: Path) -> None:
    make_sweep("quick", seeds=1)
    assert main(["report", f"source={tmp_path / 'runs'}"]) == 0
    text = (tmp_path / "runs" / "report.html").read_text(encoding="utf-8")
    assert "<title>Runs of runs</title>" in text
    assert "4 of 4 cells done" in text


def test_a_record_that_cannot_be_read_is_named_and_told_by_the_exit_code(
    make_sweep: Callable[..., Any], tmp_path: Path, capsys: Capture
) -> None:
    make_sweep("quick", seeds=1)
    next((tmp_path / "runs" / "cartpole").rglob("record.json")).write_text('{"bro')
    assert main(["report", "sweep=quick", f"output={tmp_path}", "allow=pool, budget"]) == 1
    out, err = capsys.readouterr()
    assert "report.html (" in out
    assert err.count("left out of the report: ") == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "name what to read"),
        (["sorce=x"], "Did you mean 'source'"),
        (["source=nowhere"], "nowhere is not a folder"),
        (["source=.", "to=page.txt"], "an .html file or a folder is needed"),
        (["source=.", "to=/dev/null/page.html"], "to: '/dev/null/page.html' cannot be written"),
        (["source=.", "log=perhaps"], "log: true or false"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", *words]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_several_runs_are_of_no_one_mlflow_run(
    make_sweep: Callable[..., Any], tmp_path: Path, capsys: Capture
) -> None:
    make_sweep("quick")
    assert main(["report", f"source={tmp_path / 'runs'}", "log=true"]) == 2
    assert "name a Run or one sweep" in capsys.readouterr().err


def test_the_file_there_is_stays_where_the_new_one_cannot_be_made(
    make_run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "page.html"
    target.write_text("old")
    run = make_run()

    def fails(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    assert main(["report", f"source={run.folder}", f"to={target}"]) == 2
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["page.html"]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.xdist_group("mlflow")
def test_log_true_puts_the_page_into_mlflow(
    make_run: Callable[..., Any], tmp_path: Path, capsys: Capture
) -> None:
    run = make_run()
    assert main(["report", f"source={run.folder}", "log=true"]) == 2
    assert "log it first" in capsys.readouterr().err
    assert main(["track", f"source={run.folder}"]) == 0
    assert main(["report", f"source={run.folder}", "log=true"]) == 0
    assert "In MLflow: report.html of the run" in capsys.readouterr().out
    (logged,) = (tmp_path / "mlartifacts").rglob("report.html")
    assert logged.read_bytes() == (run.folder / "report.html").read_bytes()
