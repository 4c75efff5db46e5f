"""`evopolicy table name=...`: tables from configs, with a person's own rows, printed and
written."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.cli.main import main
from evopolicy.present.formats import FORMATS
from evopolicy.presets import conf_folder

Capture = pytest.CaptureFixture[str]


def acrobot(
    records: Any, output: Path, agent: str, mean: float, seeds: int = 3, **changes: Any
) -> None:
    """Runs of `agent` on acrobot, and a sweep of them under its name."""
    cells = []
    for seed in range(seeds):
        record = records.a_record(agent, "acrobot", seed)
        identity = replace(record.benchmark, id="classic_control/Acrobot-v1")
        folder = records.write_run(
            output, replace(record, benchmark=identity, **changes), heldout=(mean - 1, mean + 1)
        )
        cells.append(records.cell_of(output, folder))
    records.write_cells(output, agent, cells)


def test_a_name_alone_prints_the_published_table(capsys: Capture) -> None:
    assert main(["table", "name=paper/core16"]) == 0
    out = capsys.readouterr().out
    scores = [
        line.split("‡")[1].split()[0].strip("*")
        for line in out.splitlines()
        if " ‡ " in line and "." in line
    ][:5]
    assert scores == ["0.891", "0.750", "0.531", "0.359", "0.109"]
    assert "N = 5" in out


def test_own_runs_stand_among_the_published_rows(
    records: Any, tmp_path: Path, capsys: Capture
) -> None:
    acrobot(records, tmp_path, "cma_es", -80.0)
    words = ["table", "name=paper/core16", "sweep=cma_es", f"output={tmp_path}"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "15 cells have no valid result (cma_es on " in said and " and 11 more); run them" in said
    assert main([*words, "missing=exclude"]) == 0
    out = capsys.readouterr().out
    assert out.index("cma_es") < out.index("GPT-5.5 ‡")
    assert "N = 6" in out
    assert (
        main(["table", "name=paper/core16", f"source={tmp_path / 'runs'}", "benchmarks=acrobot"])
        == 0
    )
    assert capsys.readouterr().out.index("cma_es") < out.index("GPT-5.5 ‡")


FORM_STARTS = (
    *((".csv", "place,entry,"), (".md", "**rank table**"), (".html", "<!doctype html>")),
    *((".tex", "% \\usepackage"), (".txt", "")),
)


def test_a_sweeps_rank_table_is_written_in_the_format_of_the_files_ending(
    records: Any, tmp_path: Path, capsys: Capture
) -> None:
    acrobot(records, tmp_path, "cma_es", -80.0)
    words = ["table", "sweep=cma_es", f"output={tmp_path}"]
    for ending, starts in FORM_STARTS:
        target = tmp_path / "written" / f"table{ending}"
        assert main([*words, f"to={target}"]) == 0
        assert capsys.readouterr().out == f"Written: {target}\n"
        text = target.read_text()
        assert text.lower().startswith(starts) and "acrobot" in text
    assert main([*words, "format=csv"]) == 0
    assert capsys.readouterr().out == (tmp_path / "written" / "table.csv").read_text()


def test_several_sweeps_stand_in_one_table(records: Any, tmp_path: Path, capsys: Capture) -> None:
    acrobot(records, tmp_path, "cma_es", -80.0)
    acrobot(records, tmp_path, "random", -500.0)
    words = [
        "table",
        "name=paper/core16",
        "sweep=cma_es,random",
        f"output={tmp_path}",
        "benchmarks=acrobot",
    ]
    assert main([*words, "published=false"]) == 0
    out = capsys.readouterr().out
    assert "Entries the ranks are among: cma_es, random." in out
    assert "‡" not in out


def test_mixed_conditions_are_refused_unless_allowed(
    records: Any, tmp_path: Path, capsys: Capture
) -> None:
    acrobot(records, tmp_path, "cma_es", -80.0)
    acrobot(records, tmp_path, "random", -500.0, isolation="none")
    words = ["table", "name=paper/heldout", f"source={tmp_path}", "benchmarks=acrobot"]
    assert main(words) == 2
    assert "mixes isolation levels" in capsys.readouterr().err
    assert main([*words, "allow=isolation"]) == 0
    assert "Mixes isolation levels" in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_is_written_to_a_file_in_any_format(
    form: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "table.out"
    assert main(["table", "name=paper/core16", f"format={form}", f"to={file}"]) == 0
    assert capsys.readouterr().out == f"Written: {file}\n"
    assert "GPT-5.5" in file.read_text()
    begins = {
        "csv": "entry,",
        "latex": "% \\usepackage",
        "html": "<!doctype html>",
        "markdown": "**Core16",
    }
    assert file.read_text().startswith(begins.get(form, "Core16: rank score"))


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.csv", "entry,"),
        ("a.TEX", "% \\usepackage"),
        ("a.html", "<!doctype html>"),
        ("a.md", "**Core16"),
        ("a.txt", "Core16: rank score"),
        ("a", "Core16: rank score"),
    ],
)
def test_the_ending_chooses_the_format_where_none_is_named(
    name: str, begins: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "new" / name
    assert main(["table", "name=paper/core16", f"to={file}"]) == 0
    assert capsys.readouterr().out == f"Written: {file}\n"
    assert file.read_text().startswith(begins)
    assert main(["table", "name=paper/core16", f"to={file}", "format=csv"]) == 0
    assert file.read_text().startswith("entry,")


def test_a_csv_is_a_csv_and_its_notes_go_elsewhere(capsys: Capture) -> None:
    assert main(["table", "name=paper/core16", "format=csv"]) == 0
    out, err = capsys.readouterr()
    assert [float(row["rank_score"]) for row in csv.DictReader(io.StringIO(out))][:2] == [
        0.890625,
        0.75,
    ]
    assert "one Run a cell" in err


def test_a_persons_own_yaml_is_a_table(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: Two agents\nkind: rank\npublished: true\ncolumns: [wins]\nentries: [GPT-5.5, "
        "MiniMax-M3]\n"
    )
    assert main(["table", f"name={file}"]) == 0
    assert capsys.readouterr().out.startswith("Two agents\n")
    file.write_text("- no\n- keys\n")
    assert main(["table", f"name={file}"]) == 2
    assert "has no keys" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["name=paper/core61"], "there is no table 'paper/core61'. Did you mean 'paper/core16'?"),
        (["name=nowhere.yaml"], "nowhere.yaml cannot be read as YAML"),
        (
            ["name=paper/core16", "misssing=worst"],
            "there is no option 'misssing'. Did you mean 'missing'?",
        ),
        (
            ["name=paper/core16", "missing=wurst"],
            "missing: there is no 'wurst'. Did you mean 'worst'?",
        ),
        (["name=paper/core16", "columns=[wins, rank]"], "columns: there is no 'rank'."),
        (
            ["name=paper/core16", "to=/dev/null/all.txt"],
            "to: '/dev/null/all.txt' cannot be written",
        ),
        (["name=paper/efficiency"], "no published rows are shown; name Runs"),
        (["sweep=x", "digits=2"], "'digits' is an option of named tables"),
        (
            ["sweep=x", "format=cvs"],
            "format: 'cvs' is unknown; choose one of csv, latex, html, markdown, terminal. Did "
            "you mean 'csv'",
        ),
        ([], "sweep=NAME"),
    ],
)
def test_what_cannot_be_made_is_told_in_a_sentence(
    words: list[str], message: str, capsys: Capture
) -> None:
    assert main(["table", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_record_that_cannot_be_read_is_named_and_told_by_the_exit_code(
    records: Any, tmp_path: Path, capsys: Capture
) -> None:
    acrobot(records, tmp_path, "cma_es", -80.0)
    broken = next((tmp_path / "runs").glob("*/*/s1-*"))
    (broken / "record.json").write_text("{")
    assert (
        main(
            [
                "table",
                "name=paper/core16",
                f"source={tmp_path}",
                "benchmarks=acrobot",
                "missing=exclude",
            ]
        )
        == 1
    )
    assert "left out of the table" in capsys.readouterr().err


def test_a_verb_written_as_a_key_is_told(capsys: Capture) -> None:
    assert main(["table=paper/core16", "agent=random", "benchmark=cartpole"]) == 2
    assert "table: is a verb, not a key; write evopolicy table" in capsys.readouterr().err


def test_every_table_of_the_issue_ships() -> None:
    names = {path.stem for path in (conf_folder() / "table" / "paper").glob("*.yaml")}
    assert names >= {"core16", "rank", "heldout", "edits", "code", "efficiency", "selection"}


def test_a_text_that_looks_like_a_number_stays_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "name=paper/core16", "title=2026"]) == 0
    assert "2026" in capsys.readouterr().out
