"""Hydra's launcher contract, with cells that are not run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus

from evopolicy.cli import compose, launch
from evopolicy.cli.board import Board, CellState
from evopolicy.cli.main import main
from evopolicy.cli.plan import Command
from evopolicy.kernel.sweep import Cell

CELLS = ["agent=random", "benchmark=cartpole", "protocol=smoke", "tracking=off"]


class NoTracker:
    def finish(self, _: float) -> str:
        return ""


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What was run and what Hydra got, `failing` names the seeds of cells that fail."""
    seen: dict[str, Any] = {"commands": [], "returns": []}
    monkeypatch.chdir(tmp_path)

    def run_sweep(command: Command, name: str, earlier: Sequence[Cell] = ()) -> tuple[Board, NoTracker]:
        seen["commands"].append((command, name, earlier))
        cells = [CellState(c.plan.entry, c.plan.benchmark, c.plan.seed, c.plan.folder) for c in command.cells]
        for cell in cells:
            cell.status = "failed" if cell.seed in seen.get("failing", ()) else "finished"
            cell.score = float(cell.seed)
        return Board(cells, name), NoTracker()

    original = launch.launch_sweep

    def spy(*arguments: Any) -> Any:
        returned = original(*arguments)
        seen["returns"].append(returned)
        return returned

    monkeypatch.setattr(launch, "run_sweep", run_sweep)
    monkeypatch.setattr(launch, "print_sweep", lambda *_, **__: None)
    monkeypatch.setattr(launch, "_earlier", lambda *arguments: ("before",) * arguments[-1])
    monkeypatch.setattr(launch, "launch_sweep", spy)
    return seen


def test_there_is_one_return_a_cell_in_order_with_its_overrides_and_score(launched: dict[str, Any]) -> None:
    assert main([*CELLS, "seed=0,1,2"]) == 0
    (returns,) = launched["returns"]
    assert all(isinstance(job, JobReturn) and job.status is JobStatus.COMPLETED for job in returns)
    assert [job.return_value for job in returns] == [0.0, 1.0, 2.0]
    assert [job.overrides[-1] for job in returns] == ["seed=0", "seed=1", "seed=2"]
    assert [job.cfg.seed for job in returns] == [0, 1, 2]


def test_a_failed_cell_is_a_failed_return_that_raises_nothing_and_the_exit_code_tells(launched: dict[str, Any]) -> None:
    launched["failing"] = (1,)
    assert main([*CELLS, "seed=0,1,2"]) == 1
    (returns,) = launched["returns"]
    assert [job.status is JobStatus.FAILED for job in returns] == [False, True, False]
    assert math.isnan(returns[1].return_value)


def test_batches_of_a_sweeper_belong_to_one_sweep(launched: dict[str, Any]) -> None:
    assert main([*CELLS, "seed=0,1,2", "hydra.sweeper.max_batch_size=2", "sweep=batched"]) == 0
    assert [(len(c.cells), name, len(earlier)) for c, name, earlier in launched["commands"]] == [
        (2, "batched", 0),
        (1, "batched", 2),
    ]


def test_swept_settings_become_axes_of_their_cells(launched: dict[str, Any]) -> None:
    assert main([*CELLS, "budget.episodes=4,8", "seed=0,1"]) == 0
    ((command, _, _),) = launched["commands"]
    assert {cell.plan.entry for cell in command.cells} == {"random budget.episodes=4", "random budget.episodes=8"}
    assert len({cell.plan.folder for cell in command.cells}) == 4


def test_the_default_name_is_the_same_for_the_same_cells_however_they_are_run(launched: dict[str, Any]) -> None:
    assert main([*CELLS, "seed=0,1"]) == 0
    assert main([CELLS[1], CELLS[0], *CELLS[2:], "seed=1,0", "launcher.cells=1"]) == 0
    assert main([*CELLS, "seed=0,2"]) == 0
    first, second, third = (name for _, name, _ in launched["commands"])
    assert first == second != third


def test_lists_ranges_globs_and_suites_make_a_sweep_without_a_flag(launched: dict[str, Any]) -> None:
    assert main(["agent=random", "suite=classic", "protocol=smoke", "tracking=off"]) == 0
    assert main([*CELLS, "seed=range(0,3)"]) == 0
    assert main(["agent=glob(ran*)", *CELLS[1:]]) == 0
    assert [len(command.cells) for command, _, _ in launched["commands"]] == [5, 3, 1]
    assert launched["commands"][0][0].suite == "classic"


def test_a_dry_run_lists_the_cells_and_runs_nothing(
    launched: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--dry-run", *CELLS, "seed=0,1"]) == 0
    said = capsys.readouterr().out
    assert "2 cells" in said and "random on cartpole, seed 1" in said
    assert "16 Episode units" in said and "guessed" in said
    assert launched["commands"] == []
    assert not list(tmp_path.glob("outputs/*"))


def test_cells_that_differ_in_the_seed_alone_are_composed_once(
    launched: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    composed: list[Any] = []
    original = compose.plain
    monkeypatch.setattr(compose, "plain", lambda config: composed.append(config) or original(config))
    assert main([*CELLS, "seed=0,1,2,3"]) == 0
    assert len(composed) == 1
    ((command, _, _),) = launched["commands"]
    assert [cell.config.seed for cell in command.cells] == [0, 1, 2, 3]
    assert main([*CELLS, "seed=0,1", "output=out/${seed}"]) == 2, "the output differs with the seed, and may not"
