"""A sweep asked for from Python is the one that the same words of a command line ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import evopolicy
from evopolicy.cli.main import main
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.run.sweep import read_sweep
from evopolicy.sweeps.keywords import plan_keywords
from evopolicy.sweeps.plan import Command


@pytest.fixture
def by_command(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Command, str]]:
    """What `--dry-run` was asked to list."""
    planned: list[tuple[Command, str]] = []
    monkeypatch.setattr("evopolicy.cli.hydra.launch.print_plan", lambda *plan: planned.append(plan))
    return planned


CASES: list[tuple[list[str], dict[str, Any], dict[str, Any]]] = [
    (
        ["agent=random,baseline", "benchmark=cartpole", "protocol=smoke", "seed=0,1"],
        {
            "agent": ["random", "baseline"],
            "benchmark": "cartpole",
            "protocol": "smoke",
            "seed": range(2),
        },
        {},
    ),
    (
        [
            *("agent=cma_es", "agent.sigma=0.3,0.5", "benchmark=pendulum", "feedback=score,full"),
            *("budget.episodes=8", "tracking.enabled=false", "execution.workers=null"),
        ],
        {
            "agent": [{"name": "cma_es", "sigma": 0.3}, {"name": "cma_es", "sigma": 0.5}],
            "benchmark": "pendulum",
            "feedback": ["score", "full"],
            "budget": {"episodes": 8},
            "tracking": {"enabled": False},
            "execution": {"workers": None},
        },
        {},
    ),
    (
        [
            "suite=classic",
            "agent=random",
            "protocol=smoke",
            "sweep=night",
            "launcher.cells=1",
            "tracking=off",
        ],
        {"agent": "random", "protocol": "smoke", "tracking": "off"},
        {"name": "night", "launcher": {"cells": 1}, "suite": "classic"},
    ),
]


@pytest.mark.parametrize(("words", "settings", "whole"), CASES)
def test_the_same_words_make_the_same_cells_keys_entries_and_name(
    words: list[str],
    settings: dict[str, Any],
    whole: dict[str, Any],
    by_command: list[tuple[Command, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--dry-run", "-m", *words]) == 0
    ((expected, name),) = by_command
    planned, named = plan_keywords(settings, **{"name": None, "launcher": {}, **whole})
    assert named == name
    assert [(c.plan, c.config, c.title) for c in planned.cells] == [
        (c.plan, c.config, c.title) for c in expected.cells
    ]
    assert (planned.output, planned.suite) == (expected.output, expected.suite)
    assert planned.options.launcher == expected.options.launcher
    told = [{word for word in cell.overrides if word != "dry_run=True"} for cell in expected.cells]
    assert [set(cell.overrides) for cell in planned.cells] == told


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"seed": []}, "seed: the list is empty"),
        ({"seed": [0, 0]}, r"cells 1 \(.*seed=0\) and 2 \(.*seed=0\) are the same Run"),
        (
            {"agent": ["random", "randmo"]},
            r"cell 2 \(.*agent=randmo.*\): agent: 'randmo' is unknown. Did you mean",
        ),
        ({"suite": "clasic"}, "suite: 'clasic' is unknown. Did you mean 'classic'"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(
    settings: dict[str, Any], sentence: str
) -> None:
    asked = {"agent": "random", "benchmark": "cartpole", "protocol": "smoke", **settings}
    suite = asked.pop("suite", None)
    with pytest.raises(ConfigError, match=sentence):
        plan_keywords(asked, None, {}, suite)


def test_benchmarks_or_a_suite_are_needed_and_not_both() -> None:
    cases: list[dict[str, Any]] = [{}, {"benchmark": "cartpole", "suite": "classic"}]
    for both in cases:
        with pytest.raises(ConfigError, match="name Benchmarks or a suite of them, and not both"):
            evopolicy.sweep("random", **both)


@pytest.mark.slow
def test_a_sweep_from_python_is_gone_on_with_by_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cells run once, whoever asks for them again."""
    monkeypatch.chdir(tmp_path)
    asked: dict[str, Any] = {
        "benchmark": "cartpole",
        "protocol": "smoke",
        "tracking": "off",
        "name": "night",
    }
    first = evopolicy.sweep(["random", "baseline"], **asked)
    assert [cell.status for cell in first.cells] == ["finished", "finished"]
    assert [run.record.entry for run in first.runs] == ["random", "baseline"] and all(
        run.valid for run in first.runs
    )
    journals = [(run.folder / "journal.jsonl").read_bytes() for run in first.runs]

    words = [
        "agent=random,baseline",
        "benchmark=cartpole",
        "protocol=smoke",
        "tracking=off",
        "sweep=night",
    ]
    assert main(["-m", *words]) == 0
    by_command = read_sweep(first.folder)
    assert [(c.status, c.run, c.result_key) for c in by_command.cells] == [
        ("reused", c.run, c.result_key) for c in first.cells
    ]
    assert evopolicy.sweep(["random", "baseline"], **asked).cells == by_command.cells
    assert [(run.folder / "journal.jsonl").read_bytes() for run in first.runs] == journals
