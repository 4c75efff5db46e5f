"""`evopolicy figure`."""

from __future__ import annotations

from pathlib import Path

import pytest

from evopolicy.cli.figure import NAMES, figure
from evopolicy.kernel.errors import ConfigError


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
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        figure(words)
