"""A command's cells before the first one starts: what is shared among them, and what counts as
finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from evopolicy.kernel.secrecy.pool_secret import POOL_SECRET
from evopolicy.presets import load_config
from evopolicy.sweeps.plan import Command, PlannedCell, is_finished, plan_command, say_again

PROVIDED = {"name": "chat", "model": "own", "base_url": "http://127.0.0.1:9/v1"}


def planned(output: Path, *agents: Any) -> Command:
    def compose(words: Sequence[str]) -> dict[str, Any]:
        agent = agents[int(words[0].partition("=")[2])]
        config = load_config("smoke", agent=agent, benchmark="cartpole", output=str(output))
        launcher = {"cells": None, "retries": 1, "tracker_seconds": 1.0}
        return {
            **msgspec.to_builtins(config),
            "sweep": None,
            "dry_run": False,
            "launcher": launcher,
        }

    return plan_command([[f"agent={n}"] for n in range(len(agents))], compose, lambda _: None)


def test_the_agents_of_a_sweep_meet_the_same_episodes_where_one_of_them_has_a_provider(
    tmp_path: Path,
) -> None:
    offline = planned(tmp_path, "baseline", "random")
    assert {cell.config.secret.generated for cell in offline.cells} == {False}
    assert not (tmp_path / POOL_SECRET).exists()
    mixed = planned(tmp_path, "baseline", PROVIDED)
    assert {cell.config.secret.generated for cell in mixed.cells} == {True}
    assert len({cell.config.secret.read(tmp_path) for cell in mixed.cells}) == 1
    assert mixed.cells[0].plan.folder != offline.cells[0].plan.folder, "other Episodes, another Run"
    again = planned(tmp_path, "baseline", PROVIDED)
    assert [cell.plan.folder for cell in again.cells] == [cell.plan.folder for cell in mixed.cells]


@pytest.mark.parametrize(
    ("made", "finished"),
    [
        ({}, True),
        ({"valid": False}, False),
        ({"until": "assessed"}, False),
        ({"until": "opened"}, False),
    ],
    ids=str,
)
def test_a_run_is_finished_once_it_ended_and_counts(
    records: Any, tmp_path: Path, made: dict[str, Any], finished: bool
) -> None:
    folder = records.write_run(tmp_path, **made)
    record = records.a_record()
    assert is_finished(folder, record.result_key) == finished
    assert not is_finished(folder, "another rule")
    assert not is_finished(tmp_path / "none", record.result_key)


def test_a_run_that_does_not_count_is_told_before_it_is_made_and_paid_for_again(
    records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, record = records.write_run(tmp_path, valid=False), records.a_record()
    plan: Any = SimpleNamespace(
        folder=folder, result_key=record.result_key, entry="e", benchmark="cartpole", seed=0
    )
    config: Any = None
    say_again(
        [
            PlannedCell((), config, plan, finished=False),
            PlannedCell((), config, plan, finished=True),
        ]
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert "is run again, its Run is kept in invalid/ (" in line
