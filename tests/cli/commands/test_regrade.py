"""`evopolicy regrade`: what it may set anew, what it refuses, and that a name is one way of
grading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import evopolicy
from evopolicy.cli.main import main
from evopolicy.kernel.session.record import Run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name what"),
        (["source=x", "budget.episodes=3"], "no option 'budget.episodes'"),
        (["source=x", "pool.assessment"], "write key=value"),
        (
            ["source=x", "splits=training"],
            "unknown split 'training'; choose from validation, assessment",
        ),
        (["source=x", "pool.training=3"], "pool.training is what the agent had"),
        (["source=x", "selection=last,trainin_mean"], "Did you mean 'training_mean'"),
        (["source=x", "selection=last", "selection.rule=last"], "one way"),
        (["source=x", "selection='last,trainin_mean'"], "Did you mean 'training_mean'"),
        (["source='y z'"], "y z"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_sentence(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    assert main(["regrade", *words]) != 0
    assert said in capsys.readouterr().err


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Agents of the Runs that were graded again, which takes no Benchmark here: each is as it
    was."""
    seen: list[str] = []

    def again(run: Run, *_: Any, root: Path, output: Path, **__: Any) -> Run:
        seen.append(run.record.agent.label)
        (root / run.folder.relative_to(output / "runs")).parent.mkdir(parents=True)
        (root / run.folder.relative_to(output / "runs")).symlink_to(run.folder)
        return run

    monkeypatch.setattr("evopolicy.cli.commands.regrade._again", again)
    monkeypatch.setattr("evopolicy.cli.commands.regrade.print_table_or_why", lambda *_: 0)
    return seen


def test_a_run_that_is_skipped_is_named_with_why(
    graded: list[str], records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records.write_run(tmp_path, records.a_record("ada"))
    records.write_run(tmp_path, records.a_record("bob"), until="submission 2")
    records.write_run(tmp_path, records.a_record("cy", parent="ef" * 32))
    words = [
        "regrade",
        f"source={tmp_path}",
        f"output={tmp_path}",
        "splits= assessment, validation",
    ]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert graded == ["ada"] and "1 Run regraded" in out
    assert out.startswith("1 Run to grade, at most "), "what it may take is told before it is spent"
    begun, again = err.splitlines()
    assert begun.startswith("left out of the regrade: bob on cartpole, seed 0: has not handed off")
    assert again.startswith("left out of the regrade: cy on cartpole, seed 0: is a regrade itself")


def test_a_record_that_cannot_be_read_is_named_after_the_others_were_graded(
    graded: list[str], records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records.write_run(tmp_path, records.a_record("ada"))
    (records.write_run(tmp_path, records.a_record("bob")) / "record.json").write_text("{")
    assert main(["regrade", f"source={tmp_path}", f"output={tmp_path}"]) == 1
    out, err = capsys.readouterr()
    assert graded == ["ada"] and "1 Run regraded" in out
    assert err.count("left out of the regrade: ") == 1 and "bob" in err


@pytest.mark.slow
def test_a_name_is_one_way_of_grading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    evopolicy.run(
        "baseline",
        "cartpole",
        protocol="smoke",
        output="outputs",
        execution="landlock",
        tracking="off",
    )
    words = [
        "regrade",
        "source=outputs",
        "name=more",
        "execution.isolation=landlock",
        "pool.assessment=10",
    ]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert "1 Run regraded" in first and "evopolicy table source=outputs/regrades/more" in first
    assert main(words) == 0, "the same again is found done"
    assert main([*words[:-1], "pool.assessment=12"]) == 2
    assert "choose another name" in capsys.readouterr().err
    assert main(["table", "source=outputs/regrades/more"]) == 0
