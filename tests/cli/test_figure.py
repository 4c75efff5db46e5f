"""`evopolicy figure`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evopolicy.cli.figure import NAMES, figure
from evopolicy.kernel.errors import ConfigError, RecordError


def test_alone_it_lists_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert figure([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [f"name={name}" for name in NAMES]


def test_the_published_figure_needs_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "new" / "demand.svg"

    assert figure(["name=demand", f"to={target}", "dark=true"]) == 0
    assert "GPT-5.5" in target.read_text()
    assert capsys.readouterr().out.strip() == str(target)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["name=rnk"], "Did you mean 'rank'"),
        (["name=rank"], "figure: name what to read"),
        (["name=rank", "sweep=x", "run=y"], "run: it is for name=timeline"),
        (["name=demand", "dark=maybe"], "dark: true or false"),
        (["name=demand", "to=a.gif"], "ends in no format"),
        (["nme=rank"], "Did you mean 'name'"),
        (["name=rank", "source=x", "axis=units"], "it is for name=curves"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        figure(words)


def test_edits_are_of_valid_runs_that_may_be_compared(records: Any, tmp_path: Path) -> None:
    records.write_run(tmp_path, records.a_record("ada"))
    records.write_run(tmp_path, records.a_record("bob"), valid=False)
    words = ["name=edits", f"source={tmp_path}", f"to={tmp_path / 'edits.svg'}"]

    assert figure(words) == 0
    drawn = (tmp_path / "edits.svg").read_text()
    assert "Left out: 1 of 2 Runs, without a valid held-out result." in drawn
    records.write_run(tmp_path, records.a_record("cy", isolation="none"))
    with pytest.raises(RecordError, match="mixes isolation levels"):
        figure(words)
    assert figure([*words, "allow=isolation"]) == 0
