"""`evopolicy figure`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis.figures.config import KINDS
from evopolicy.cli.commands.figure import figure
from evopolicy.cli.hydra.groups import group_options
from evopolicy.kernel.errors import ConfigError, RecordError


def test_alone_it_lists_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert figure([]) == 0
    names = [*KINDS, *group_options("figure")]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        f"name={name}" for name in names
    ]


def test_the_published_figure_needs_no_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "demand.svg"

    assert figure(["name=demand", f"to={target}", "dark=true"]) == 0
    assert "GPT-5.5" in target.read_text()
    assert capsys.readouterr().out.strip() == str(target)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["name=rnk"], "Did you mean 'rank'"),
        (["name=rank"], "figure: name what to read"),
        (["name=rank", "sweep=x", "run=y"], "run: it is for timeline"),
        (["name=study/agent_capabilty"], "Did you mean 'study/agent_capability'"),
        (["name=study/agent_capability", "axis=tokens"], "axis: it is for curves"),
        (
            ["name=curves", "source=x", "axis=token"],
            "axis: there is no 'token'. Did you mean 'tokens'",
        ),
        (["name=nowhere.yaml"], "nowhere.yaml cannot be read"),
        (["name=demand", "dark=maybe"], "dark: true or false"),
        (["name=demand", "to=a.gif"], "ends in no format"),
        (["name=demand", "to=/dev/null/a.svg"], "to: '/dev/null/a.svg' cannot be written"),
        (["name=study/agent_capability", "source=x", "kind=rank"], "no option 'kind'"),
        (["nme=rank"], "Did you mean 'name'"),
        (["name=rank", "source=x", "axis=units"], "it is for curves"),
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


def test_a_figure_has_a_config_that_the_command_line_changes(records: Any, tmp_path: Path) -> None:
    records.write_run(tmp_path, records.a_record("ada"))
    mine = tmp_path / "mine.yaml"
    mine.write_text("kind: curves\naxis: submissions\ndark: true\n")
    drawn = {}
    for name, words in {"mine": [], "light": ["dark=false"], "units": ["axis=units"]}.items():
        drawn[name] = tmp_path / f"{name}.svg"
        assert figure([f"name={mine}", f"source={tmp_path}", f"to={drawn[name]}", *words]) == 0
    assert "Submissions" in drawn["mine"].read_text()
    assert len({path.read_text() for path in drawn.values()}) == 3


def test_a_record_that_cannot_be_read_is_named_and_told_by_the_exit_code(
    records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records.write_run(tmp_path, records.a_record("ada"))
    (records.write_run(tmp_path, records.a_record("bob")) / "record.json").write_text("{")
    target = tmp_path / "curves.svg"
    assert figure(["name=curves", f"source={tmp_path}", f"to={target}", "allow= pool, budget"]) == 1
    assert "left out of the figure: " in capsys.readouterr().err
    assert "ada" in target.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("axis: units", "kind: a figure needs it"),
        ("kind: curve", "Did you mean 'curves'"),
        ("kind: curves\ndark: 3", "dark: true or false is needed, found '3'"),
        ("kind: curves\nalow: []", "Did you mean 'allow'"),
        ("kind: curves\nallow: 3", "allow: "),
        ("- curves", "has no keys"),
    ],
)
def test_a_config_that_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        figure([f"name={tmp_path / 'a.yaml'}", "source=x"])
