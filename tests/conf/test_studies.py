"""Each of the seven studies has its sweep, its table, its figure and its paragraph; each can be
planned as it is."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

from evopolicy.agents.cma_es.script import make_plan
from evopolicy.agents.scripted.budget import BudgetLeft, window
from evopolicy.analysis.figures.config import figure_config
from evopolicy.analysis.tables.config import table_config
from evopolicy.cli.main import main
from evopolicy.presets import conf_folder, option

STUDIES = {
    "agent_capability": 36,
    "improvement_efficiency": 27,
    "feedback_value": 24,
    "evolution_dynamics": 18,
    "selection_validity": 9,
    "policy_system_design": 36,
    "scaling": 48,
}
"""With the number of their cells."""
SCALED = ("budget.submissions", "budget.episodes", "pool.training")
Capture = pytest.CaptureFixture[str]


def test_every_study_has_a_sweep_a_table_a_figure_and_its_commands() -> None:
    folders = [conf_folder() / group / "study" for group in ("experiment", "table", "figure")]
    assert [{path.stem for path in folder.glob("*.yaml")} for folder in folders] == [
        set(STUDIES)
    ] * 3
    text = (conf_folder().parent / "docs" / "studies.md").read_text()
    for name in STUDIES:
        assert f"evopolicy -m experiment=study/{name}" in text
        assert f"evopolicy table name=study/{name} " in text
        assert f"evopolicy figure name=study/{name} " in text
        table_config(option("table", f"study/{name}"))
        figure_config(option("figure", f"study/{name}"))


@pytest.mark.parametrize(("name", "cells"), STUDIES.items())
def test_a_study_is_planned_as_it_stands(
    name: str, cells: int, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["--dry-run", f"experiment=study/{name}", f"output={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert f"sweep study-{name.replace('_', '-')}: {cells} cells" in printed


def test_a_study_takes_any_list_of_agents(tmp_path: Path, capsys: Capture) -> None:
    words = ["experiment=study/scaling", "agent=random,baseline", "benchmark=cartpole", "seed=0"]
    assert main(["--dry-run", *words, f"output={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert "16 cells" in printed
    assert (
        "baseline budget.episodes=64 budget.submissions=32 pool.training=128 on cartpole, seed 0"
        in printed
    )


def test_cma_es_searches_in_another_way_at_every_level_of_scaling() -> None:
    params = option("experiment", "study/scaling")["hydra"]["sweeper"]["params"]
    levels = [[int(word) for word in str(params[key]).split(",")] for key in SCALED]
    programs = conf_folder().parent / "benchmarks"
    for benchmark in params["benchmark"].split(","):
        (file,) = programs.glob(f"*/programs/{benchmark}/parametric/params.json")
        searches = set()
        for submissions, units, pool in itertools.product(*levels):
            budget = BudgetLeft(units, submissions, pool, pool, exhaust=False)
            plan = make_plan(len(json.loads(file.read_text())), budget, None, None)
            windows = [
                window(turn * plan.episodes, plan.episodes, pool)
                for turn in range(plan.generations)
            ]
            searches.add((plan.population, *windows))
        assert len(searches) == math.prod(map(len, levels)), f"two levels are one on {benchmark}"
