"""Records of every version ever written are read as they were when they were made, by every
verb."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from evopolicy.analysis import find_runs, load_frames
from evopolicy.cli.main import main
from evopolicy.kernel.run.stream import load_transcripts
from evopolicy.kernel.session.journal import read_journal
from evopolicy.kernel.session.record import load_run
from tests.records.make import OUTPUT, REGRADE, SWEEP, numbers
from tests.records.sets import SETS, told

KILLED = "runs/cartpole/cma_es/s2-"
pytestmark = pytest.mark.parametrize("kept", SETS, ids=lambda path: path.name)


@pytest.fixture
def place(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the set's output folder, in the folder that commands are typed in."""
    shutil.copytree(kept / OUTPUT, tmp_path / OUTPUT, symlinks=True)
    monkeypatch.chdir(tmp_path)
    yield Path(OUTPUT)


def test_every_run_comes_to_what_it_came_to_when_it_was_made(kept: Path, place: Path) -> None:
    """A new field without a default, or an event that is read differently, is noticed here."""
    assert json.loads(json.dumps(numbers(place))) == told(kept)


def test_everything_that_lies_beside_the_journal_is_read(kept: Path, place: Path) -> None:
    found = find_runs(place, place / "regrades" / REGRADE)
    frames = load_frames(found)
    assert frames.gaps.empty, frames.gaps.to_string()
    assert len(frames.runs) == len(told(kept)) == 7
    assert {"training", "validation", "assessment"} == set(frames.episodes["split"])
    assert (frames.programs["files"] > 0).all()
    (talked,) = [run for run in found if run.record.agent.name == "chat" and run.valid]
    (transcript,) = load_transcripts(talked.folder)
    assert (
        transcript.completed
        and sum(step.source == "agent" for step in transcript.steps) == talked.state.turns
    )


def test_a_table_is_made_of_them(
    kept: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", f"sweep={SWEEP}", f"output={place}"]) == 0
    runs = [cell.run for cell in find_runs(place / "sweeps" / SWEEP).cells]
    made = [told(kept)[run]["heldout"][0] for run in runs]
    assert len(made) == 2 and f" {sum(made) / 2:.0f} ± " in capsys.readouterr().out


def test_a_report_is_made_of_each(
    kept: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, values in told(kept).items():
        assert main(["report", f"source={place / folder}", "to=report.html"]) == 0, (
            capsys.readouterr().err
        )
        page = Path("report.html").read_text()
        assert (
            values["entry"] in page
            and "cannot be read" not in page
            and "not there any more" not in page
        )


def test_tracking_is_rebuilt_from_them(
    kept: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    assert main(["track", f"source={place}", f"output={place}"]) == 0, capsys.readouterr()
    client = MlflowClient(f"sqlite:///{(place / 'mlflow.db').resolve()}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "evopolicy"]
    runs = client.search_runs([experiment.experiment_id], "tags.kind = 'cell'")
    finished = {
        key: value
        for key, value in told(kept).items()
        if value["finished"] and key.startswith("runs/")
    }
    logged = {run.info.run_name: run for run in runs}
    for value in finished.values():
        run = logged[f"{value['entry']} · cartpole · s{value['seed']}"]
        assert run.data.metrics["heldout/score"] == value["heldout"][0]


def test_what_a_killed_host_left_is_finished(
    kept: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the code of now: what was spent stays spent, and what was measured is not measured
    again."""
    (folder,) = [place / folder for folder in told(kept) if folder.startswith(KILLED)]
    before = load_run(folder).state.submissions
    began = load_run(folder).record.versions
    here = {"python": platform.python_version(), "evopolicy": metadata.version("evopolicy")}
    code, said = main(["resume", f"source={folder}", *WORDS]), capsys.readouterr()
    if any(began[name] != version for name, version in here.items()):
        assert code and "would mix Episodes of both" in said.err
        return
    assert code == 0, said
    assert "going on with the agent" in said.out
    assert main(["resume", f"source={folder}", *WORDS]) == 0
    assert "going on with" not in capsys.readouterr().out, "it is finished, nothing is started"
    run = load_run(folder)
    assert run.valid and run.state.submissions[: len(before)] == before
    assert [event["n"] for event in read_journal(folder)] == list(
        range(len(list(read_journal(folder))))
    )


def test_they_are_graded_again(kept: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And by the same settings, a regrade of before is the regrade that is asked for."""
    again = ("regrade", f"sweep={SWEEP}", f"output={place}", "execution.workers=1")
    assert main([*again, "pool.assessment=6", f"name={REGRADE}"]) == 0, capsys.readouterr()
    assert json.loads(json.dumps(numbers(place))) == told(kept)
    assert main([*again, "selection=last", "splits=assessment", "name=other"]) == 0, (
        capsys.readouterr()
    )
    assert len(find_runs(place / "regrades" / "other")) == 2


WORDS = ("trust=true",)
"""What a resume of records that were not made here has to be told."""
