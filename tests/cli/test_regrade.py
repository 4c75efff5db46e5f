"""`evopolicy regrade`: what it may set anew, what it refuses, and that a name is one way of grading."""

from __future__ import annotations

from pathlib import Path

import pytest

import evopolicy
from evopolicy.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name what"),
        (["source=x", "budget.episodes=3"], "no option 'budget.episodes'"),
        (["source=x", "pool.assessment"], "write key=value"),
        (["source=x", "splits=training"], "no private split"),
        (["source=x", "selection=last", "selection.rule=last"], "one way"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_sentence(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    assert main(["regrade", *words]) != 0
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_name_is_one_way_of_grading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    evopolicy.run("baseline", "cartpole", protocol="smoke", output="outputs", execution="landlock", tracking="off")
    words = ["regrade", "source=outputs", "name=more", "pool.assessment=10"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert "1 Run regraded" in first and "evopolicy table source=outputs/regrades/more" in first
    assert main(words) == 0, "the same again is found done"
    assert main([*words[:-1], "pool.assessment=12"]) == 2
    assert "choose another name" in capsys.readouterr().err
    assert main(["table", "source=outputs/regrades/more"]) == 0
