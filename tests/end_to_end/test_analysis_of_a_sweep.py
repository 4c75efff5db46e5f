"""One sweep of the offline agents and its regrade, read by every table, figure, notebook and the
report."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest
from nbclient import NotebookClient
from PIL import Image

from evopolicy.analysis import find_runs, load_frames
from evopolicy.analysis.figures.config import KINDS as FIGURES
from evopolicy.cli.main import main
from evopolicy.presets import conf_folder
from tests.end_to_end.offline_sweep import (
    AGENTS,
    BENCHMARKS,
    NAME,
    SEEDS,
    one_engine_a_benchmark,
    sweep_offline_agents,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("analysis_of_a_sweep")]

TABLES = sorted(
    path.relative_to(conf_folder() / "table").with_suffix("").as_posix()
    for path in (conf_folder() / "table").rglob("*.yaml")
)
NOTEBOOKS = sorted((conf_folder().parent / "notebooks").glob("*.ipynb"))
RULES = ("validation_mean", "last")
TITLES = {
    "cartpole": "CartPole-v1",
    "pendulum": "Pendulum-v1",
    "acrobot": "Acrobot-v1",
    "frozen_lake": "FrozenLake-v1",
}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder with the sweep, and every Program of it graded again under two rules."""
    folder = tmp_path_factory.mktemp("offline")
    sweep_offline_agents(folder)
    with one_engine_a_benchmark():
        words = [
            "regrade",
            f"sweep={NAME}",
            f"output={folder}",
            "name=rules",
            f"selection={','.join(RULES)}",
        ]
        assert main(words) == 0
    return folder


def means(output: Path) -> dict[tuple[str, str], float]:
    """Mean over seeds of the held-out means, by entry and Benchmark."""
    runs = find_runs(output / "sweeps" / NAME)
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        assert run.result.assessment is not None
        found.setdefault((run.record.entry, run.record.benchmark.slug), []).append(
            run.result.assessment.mean
        )
    return {key: sum(values) / len(values) for key, values in found.items()}


def table(name: str, output: Path, capsys: Capture, *words: str) -> list[dict[str, str]]:
    """The rows of a table of the sweep, as its CSV has them."""
    if not any(word.startswith("source=") for word in words):
        words = (*words, f"sweep={NAME}", f"output={output}")
    capsys.readouterr()
    code = main(["table", f"name={name}", "format=csv", "missing=exclude", *words])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return list(csv.DictReader(io.StringIO(printed.out)))


# --- the sweep and its regrade --------------------------------------------------------------------


def test_every_cell_is_a_full_valid_run(output: Path) -> None:
    frames = load_frames(find_runs(output / "sweeps" / NAME))
    cells = {(row.entry, row.benchmark, row.seed) for row in frames.runs.itertuples()}
    assert cells == {
        (agent, name, seed) for agent in AGENTS for name in BENCHMARKS for seed in SEEDS
    }
    assert frames.runs["valid"].all()
    assert set(frames.episodes["split"]) == {"training", "validation", "assessment"}
    assert frames.gaps.empty


def test_a_regrade_by_several_rules_names_them_and_selects_by_each(output: Path) -> None:
    runs = find_runs(output / "regrades" / "rules")
    assert {run.record.entry for run in runs} == {
        f"{agent} selection={rule}" for agent in AGENTS for rule in RULES
    }
    assert len(runs) == len(AGENTS) * len(BENCHMARKS) * len(SEEDS) * len(RULES)
    before = {run.record.result_key: run for run in find_runs(output / "sweeps" / NAME)}
    for run in runs:
        parent = before[run.record.parent]
        assert [s.program for s in run.state.submissions] == [
            s.program for s in parent.state.submissions
        ]
        if run.record.selection.rule == "last":
            assert run.result.selected_submission == run.state.published[-1].id
        else:
            assert run.result.assessment == parent.result.assessment


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_agents_or_the_runs_they_made(
    name: str, output: Path, capsys: Capture
) -> None:
    rows = table(name, output, capsys)
    told = {value for row in rows for value in row.values()} | set(rows[0])
    assert set(AGENTS) <= told, f"{name} lacks an agent"
    assert any(value not in ("", None) for row in rows for value in list(row.values())[1:-1])


@pytest.mark.parametrize("form", ["terminal", "latex", "html", "markdown"])
def test_a_table_is_drawn_in_every_format(form: str, output: Path, capsys: Capture) -> None:
    words = [f"sweep={NAME}", f"output={output}", f"format={form}"]
    assert main(["table", "name=study/agent_capability", *words]) == 0
    drawn = capsys.readouterr().out
    place = [re.search(agent.replace("_", r"(\\|\\_)?_?"), drawn) for agent in AGENTS]
    assert all(place), drawn


def test_held_out_scores_are_those_of_the_records(output: Path, capsys: Capture) -> None:
    known = means(output)
    rows = table("study/feedback_value", output, capsys)
    for row in rows:
        for benchmark in BENCHMARKS:
            assert float(row[benchmark]) == pytest.approx(known[row["entry"], benchmark])


def test_rank_scores_are_those_of_the_means(output: Path, capsys: Capture) -> None:
    known = means(output)
    rows = {row["entry"]: row for row in table("study/agent_capability", output, capsys)}
    for agent in AGENTS:
        ranks = []
        for name in BENCHMARKS:
            others = [known[other, name] for other in AGENTS if other != agent]
            ranks.append(1 + sum(value > known[agent, name] for value in others))
        score = sum(1 - (rank - 1) / (len(AGENTS) - 1) for rank in ranks) / len(ranks)
        assert float(rows[agent]["rank_score"]) == pytest.approx(score)
        assert rows[agent]["wins"] == str(ranks.count(1))


def test_the_published_rows_stand_beside_the_runs_on_the_papers_benchmarks(
    output: Path, capsys: Capture
) -> None:
    (row,) = [
        r
        for r in table("paper/heldout", output, capsys, "benchmarks=acrobot")
        if r["benchmark"] == "acrobot"
    ]
    known = means(output)
    assert float(row["cma_es"]) == pytest.approx(known["cma_es", "acrobot"])
    assert "GPT-5.5" in " ".join(row)


def test_new_parameters_are_counted_as_edits_where_that_is_asked_for(
    output: Path, capsys: Capture
) -> None:
    def total(rows: list[dict[str, str]], column: str) -> int:
        return sum(int(row[column]) for row in rows if row["entry"] == "cma_es")

    asked = table("study/evolution_dynamics", output, capsys)
    paper = table("study/evolution_dynamics", output, capsys, "data_edits=false")
    changes = len(BENCHMARKS) * len(SEEDS) * 3
    assert (
        sum(total(asked, kind) for kind in ("parametric_edits", "retests", "rollbacks")) == changes
    )
    assert total(asked, "parametric_edits") > 0
    assert (total(paper, "parametric_edits"), total(paper, "retests")) == (0, changes)


def test_the_selection_table_compares_rules_on_the_same_runs(output: Path, capsys: Capture) -> None:
    rows = table(
        "study/selection_validity", output, capsys, f"source={output / 'regrades' / 'rules'}"
    )
    assert len(rows) == len(AGENTS) * len(BENCHMARKS) * len(RULES)
    by_cell: dict[tuple[str, str], dict[str, Mapping[str, str]]] = {}
    for row in rows:
        agent, _, rule = row["entry"].partition(" selection=")
        by_cell.setdefault((agent, row["benchmark"]), {})[rule] = row
        assert float(row["regret"]) == pytest.approx(float(row["best"]) - float(row["selected"]))
        assert float(row["regret"]) >= 0
    for cell in by_cell.values():
        assert cell["last"]["best"] == cell["validation_mean"]["best"]


def test_without_a_regrade_the_best_in_hindsight_is_not_known(
    output: Path, capsys: Capture
) -> None:
    rows = table("study/selection_validity", output, capsys)
    assert {row["best"] for row in rows if row["entry"] == "cma_es"} == {""}


# --- figures --------------------------------------------------------------------------------------


def figure(name: str, target: Path, output: Path, *words: str) -> str:
    """The text of a figure of the sweep, written as SVG."""
    given = (
        []
        if any(word.startswith("source=") for word in words)
        else [f"sweep={NAME}", f"output={output}"]
    )
    assert main(["figure", f"name={name}", f"to={target}", *given, *words]) == 0
    root = ElementTree.parse(target).getroot()
    return " ".join(" ".join(root.itertext()).split())


DRAWN = {
    "curves": (),
    "timeline": ("data_edits=true",),
    "rank": (),
    "profile": (),
    "splits": (),
    "edits": ("data_edits=true",),
    "demand": (),
    "difference": (),
}


def test_every_figure_is_met_here() -> None:
    assert set(FIGURES) == {*DRAWN, "usage"}


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_names_its_agents_and_says_of_how_many_runs_it_is(
    name: str, output: Path, tmp_path: Path
) -> None:
    words = list(DRAWN[name])
    if name == "timeline":
        run = next(r for r in find_runs(output / "sweeps" / NAME) if r.record.entry == "cma_es")
        words.append(f"source={run.folder}")
    text = figure(name, tmp_path / f"{name}.svg", output, *words)
    expected = ["cma_es"] if name in ("timeline", "edits") else AGENTS
    assert [agent for agent in expected if agent not in text] == []
    assert re.search(r"\d", text)


def test_a_figure_is_a_picture_too(output: Path, tmp_path: Path) -> None:
    file = tmp_path / "rank.png"
    assert (
        main(
            ["figure", "name=rank", "dark=true", f"to={file}", f"sweep={NAME}", f"output={output}"]
        )
        == 0
    )
    with Image.open(file) as picture:
        assert min(picture.size) > 100
        assert len(picture.convert("RGB").getcolors(1 << 20) or ()) > 3


def test_a_figure_of_what_agents_used_says_that_offline_agents_use_nothing(
    output: Path, tmp_path: Path, capsys: Capture
) -> None:
    words = [f"sweep={NAME}", f"output={output}", f"to={tmp_path / 'usage.svg'}"]
    assert main(["figure", "name=usage", *words]) == 2
    assert "offline agents use none" in capsys.readouterr().err
    assert not (tmp_path / "usage.svg").exists()


def test_the_splits_of_a_regrade_show_every_rule(output: Path, tmp_path: Path) -> None:
    source = f"source={output / 'regrades' / 'rules'}"
    text = figure("splits", tmp_path / "splits.svg", output, source)
    assert "cma_es selection=last" in text


# --- the report -----------------------------------------------------------------------------------


def test_the_report_of_the_sweep_has_every_run_and_asks_for_nothing(
    output: Path, tmp_path: Path
) -> None:
    page = tmp_path / "sweep.html"
    assert main(["report", f"sweep={NAME}", f"output={output}", f"to={page}"]) == 0
    html = page.read_text()
    assert [name for name in (*AGENTS, *BENCHMARKS) if name not in html] == []
    for key, mean in means(output).items():
        written = [
            f"{mean:{form}}".replace("-", "\N{MINUS SIGN}") for form in (".4g", ".3g", ".2f", ".3f")
        ]
        assert any(text in html for text in written), key
    assert not re.search(r'(src|href)="(https?:)?//', html)


def test_the_report_of_one_run_has_its_submissions_and_diffs(output: Path, tmp_path: Path) -> None:
    run = next(r for r in find_runs(output / "sweeps" / NAME) if r.record.entry == "cma_es")
    page = tmp_path / "run.html"
    assert main(["report", f"source={run.folder}", f"to={page}"]) == 0
    html = page.read_text()
    assert [s.id for s in run.state.submissions if f"Submission {s.id}" not in html] == []
    assert "params.json" in html


# --- notebooks ------------------------------------------------------------------------------------

PARAMETERS = {
    "01_compare_agents": "sources = ['{output}/sweeps/offline']",
    "02_reproduce_core16": "sources = []",
    "03_read_one_run": "source = '{output}/sweeps/offline'\nnumber = 8",
}
SHOWN = {
    "01_compare_agents": (*AGENTS, "rank score", "P(higher)", *TITLES.values()),
    "02_reproduce_core16": ("GPT-5.5", "0.891", "0.750", "0.531", "0.359", "0.109"),
    "03_read_one_run": ("cma_es", "cartpole", "params.json", "policy.py", "make_policy"),
}


def notebook_of(path: Path) -> Any:
    read: Any = nbformat.read
    return read(path, 4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_defines_nothing(path: Path) -> None:
    cells = [cell for cell in notebook_of(path).cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count] == []
    assert [
        cell.source
        for cell in cells
        if re.search(r"^\s*(def|class|async def) |lambda", cell.source, re.M)
    ] == []
    assert len([cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_on_the_sweep(path: Path, output: Path) -> None:
    notebook = notebook_of(path)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source = PARAMETERS[path.stem].format(output=output)
    # A kernel has a minute to start, if nothing is said, and what a cell shows four seconds: later
    # it is lost.
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook, timeout=600, startup_timeout=600, iopub_timeout=600, resources=resources
    ).execute()
    shown = " ".join(_texts(notebook)).replace("\\_", "_").replace("\\.", ".")
    assert [text for text in SHOWN[path.stem] if text not in shown] == []
    pictures = [data for data in _data(notebook) if "image/svg+xml" in data]
    assert pictures, "a notebook draws"


def _data(notebook: Any) -> list[dict[str, str]]:
    return [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]


def _texts(notebook: Any) -> list[str]:
    return [str(text) for data in _data(notebook) for text in data.values()]
