"""Hydra's launcher contract, with cells that are not run."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig, OmegaConf

from evopolicy.cli.hydra import compose, launch, schema
from evopolicy.cli.hydra.groups import group_options
from evopolicy.cli.main import main
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.run.sweep import Cell, read_sweep
from evopolicy.sweeps.board import Board, CellState
from evopolicy.sweeps.dry_run import estimate, shipped_seconds
from evopolicy.sweeps.plan import Command, PlannedCell

CELLS = ["agent=random", "benchmark=cartpole", "protocol=smoke", "tracking=off"]


class NoTracker:
    def finish(self, _: float) -> str:
        return ""


def _recorded(seen: dict[str, Any]) -> Iterator[Any]:
    """The cells of the sweep as its record would have them."""
    command, _, earlier = seen["commands"][-1]
    yield from earlier
    yield from (SimpleNamespace(run=cell.run) for cell in command.cells)


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What was run and what Hydra got, `failing` names the seeds of cells that fail."""
    seen: dict[str, Any] = {"commands": [], "returns": []}
    monkeypatch.chdir(tmp_path)

    def run_sweep(
        command: Command, name: str, earlier: Sequence[Cell] = ()
    ) -> tuple[Board, NoTracker]:
        seen["commands"].append((command, name, earlier))
        cells = [
            CellState(c.plan.entry, c.plan.benchmark, c.plan.seed, c.plan.folder)
            for c in command.cells
        ]
        for cell in cells:
            cell.status = "failed" if cell.seed in seen.get("failing", ()) else "finished"
            cell.score = float(cell.seed)
        return Board(cells, name), NoTracker()

    original = launch.CommandLine.launch

    def spy(*arguments: Any, **options: Any) -> Any:
        returned = original(*arguments, **options)
        seen["returns"].append(returned)
        return returned

    monkeypatch.setattr(launch, "run_sweep", run_sweep)
    monkeypatch.setattr(launch, "print_sweep", lambda board, *_, **__: seen.update(board=board))
    monkeypatch.setattr(
        launch, "read_sweep", lambda _: SimpleNamespace(cells=tuple(_recorded(seen)))
    )
    monkeypatch.setattr(launch.CommandLine, "launch", spy)
    return seen


def test_there_is_one_return_a_cell_in_order_with_its_overrides_and_score(
    launched: dict[str, Any],
) -> None:
    assert main([*CELLS, "seed=0,1,2"]) == 0
    (returns,) = launched["returns"]
    assert all(isinstance(job, JobReturn) and job.status is JobStatus.COMPLETED for job in returns)
    assert [job.return_value for job in returns] == [0.0, 1.0, 2.0]
    assert [job.overrides[-1] for job in returns] == ["seed=0", "seed=1", "seed=2"]
    assert [job.cfg.seed for job in returns] == [0, 1, 2]


def test_a_failed_cell_is_a_failed_return_that_raises_nothing_and_the_exit_code_tells(
    launched: dict[str, Any],
) -> None:
    launched["failing"] = (1,)
    assert main([*CELLS, "seed=0,1,2"]) == 1
    (returns,) = launched["returns"]
    assert [job.status is JobStatus.FAILED for job in returns] == [False, True, False]
    assert math.isnan(returns[1].return_value)


def test_our_sweeper_has_all_cells_planned_and_run_as_one_whatever_its_batches(
    launched: dict[str, Any],
) -> None:
    """The second batch had a name of its own, and met a folder without a sweep."""
    assert main([*CELLS, "seed=0,1,2", "hydra.sweeper.max_batch_size=2"]) == 0
    ((command, _, earlier),) = launched["commands"]
    assert (len(command.cells), len(earlier)) == (3, 0)


def test_batches_of_a_sweeper_that_chooses_by_scores_are_one_sweep(
    launched: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One name, a setting that is to vary in every entry, a cell asked for twice run once, one
    table of all."""

    def sweep(self: Any, arguments: list[str]) -> None:
        assert any("interval" in word for word in arguments)
        cell = ["agent=cma_es", *CELLS[1:]]
        for number, sigmas in enumerate([(0.1,), (0.2, 0.2), (0.1, 0.3)]):
            self.launcher.launch([[*cell, f"agent.sigma={sigma}"] for sigma in sigmas], 2 * number)

    Plugins.instance()  # imports its plugins anew
    plugin = import_module("hydra_plugins.evopolicy_launcher.sweeper")
    monkeypatch.setattr(plugin.EvoPolicySweeper, "sweep", sweep)
    launched["failing"] = ()
    assert main(["agent=cma_es", *CELLS[1:], "agent.sigma=interval(0.1,0.5)"]) == 0
    sizes = [(len(command.cells), len(earlier)) for command, _, earlier in launched["commands"]]
    assert sizes == [(1, 0), (1, 1), (2, 1)], (
        "0.1 comes back in the third, and is no cell of before"
    )
    assert len({name for _, name, _ in launched["commands"]}) == 1
    assert [len(returns) for returns in launched["returns"]] == [1, 2, 2]
    entries = sorted(cell.entry for cell in launched["board"].cells)
    assert entries == [f"cma_es agent.sigma=0.{n}" for n in (1, 2, 3)]


def test_cells_of_another_launcher_are_planned_named_and_told_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    met: list[DictConfig] = []

    def single(config: DictConfig, _: Sequence[str]) -> None:
        met.append(config)
        raise ConfigError("nothing is run here")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch, "launch_single", single)
    assert main([*CELLS, "budget.episodes=4,8", "hydra/launcher=basic", "sweep=there"]) == 1
    assert [dict(config.axes) for config in met] == [
        {"budget.episodes": "4"},
        {"budget.episodes": "8"},
    ]
    assert [config.secret.generated for config in met] == [False, False]
    cells = read_sweep(tmp_path / "outputs" / "sweeps" / "there").cells
    assert [(cell.entry, cell.status, cell.error) for cell in cells] == [
        (f"random budget.episodes={n}", "failed", "nothing is run here") for n in (4, 8)
    ]
    assert "2 cells of 2 failed" in capsys.readouterr().out


def test_the_schema_can_be_handed_to_another_process() -> None:
    """Classes made at run time lost what marks a field without a default, in
    `hydra/launcher=joblib`."""
    schema.store()
    node = ConfigStore.instance().load(f"{schema.SCHEMA}.yaml").node
    again = OmegaConf.merge(pickle.loads(pickle.dumps(node)), {"budget": {"submissions": 1}})
    assert OmegaConf.get_type(again) is OmegaConf.get_type(node)
    assert OmegaConf.is_missing(again.budget, "episodes")


def test_swept_settings_become_axes_of_their_cells(launched: dict[str, Any]) -> None:
    assert main([*CELLS, "budget.episodes=4,8", "seed=0,1"]) == 0
    ((command, _, _),) = launched["commands"]
    assert {cell.plan.entry for cell in command.cells} == {
        "random budget.episodes=4",
        "random budget.episodes=8",
    }
    assert len({cell.plan.folder for cell in command.cells}) == 4


def test_the_default_name_is_the_same_for_the_same_cells_however_they_are_run(
    launched: dict[str, Any],
) -> None:
    assert main([*CELLS, "seed=0,1"]) == 0
    assert main([CELLS[1], CELLS[0], *CELLS[2:], "seed=1,0", "launcher.cells=1"]) == 0
    assert main([*CELLS, "seed=0,2"]) == 0
    first, second, third = (name for _, name, _ in launched["commands"])
    assert first == second != third


def test_lists_ranges_globs_and_suites_make_a_sweep_without_a_flag(
    launched: dict[str, Any],
) -> None:
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
    assert (
        "16 Episode units" in said
        and "at most about" in said
        and "2 cells by measured seconds of its Benchmark" in said
    )
    assert launched["commands"] == []
    assert not list(tmp_path.glob("outputs/*"))


def test_what_a_cell_may_take_is_told_by_its_benchmark_and_by_what_its_agent_may_think(
    launched: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every task took 0.1 s an Episode, and every agent's thinking nothing."""
    longest: dict[str, float] = {}
    for benchmark in ("cartpole", "car_racing"):
        (cell,) = _planned(launched, "agent=random", f"benchmark={benchmark}", *CELLS[2:])
        longest[benchmark] = estimate(cell, Path("outputs")).episodes
    assert longest["car_racing"] > 20 * longest["cartpole"]
    monkeypatch.setattr("evopolicy.sweeps.dry_run.is_provided", lambda _: True)
    assert (
        main(["--dry-run", *CELLS, "session.limits.wall_seconds=600", "session.limits.cost_usd=2"])
        == 0
    )
    said = capsys.readouterr().out
    assert (
        "random: at most 10m00s of thinking and at most $2.00 a cell (session.limits.wall_seconds"
        in said
    )
    assert "in all, with their agents' thinking: 10m" in said


def _planned(launched: dict[str, Any], *words: str) -> tuple[PlannedCell, ...]:
    assert main(["-m", *words]) == 0
    planned: tuple[PlannedCell, ...] = launched["commands"][-1][0].cells
    return planned


def test_every_benchmark_that_ships_has_its_measured_seconds() -> None:
    """`python scripts/measure_seconds.py NAME` measures a new one."""
    assert {"gymnasium", "minigrid"} == set(group_options("benchmark")) - shipped_seconds().keys()


def test_cells_that_differ_in_the_seed_alone_are_composed_once(
    launched: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    composed: list[Any] = []
    original = compose.plain
    monkeypatch.setattr(
        compose, "plain", lambda config: composed.append(config) or original(config)
    )
    assert main([*CELLS, "seed=0,1,2,3"]) == 0
    assert len(composed) == 1
    ((command, _, _),) = launched["commands"]
    assert [cell.config.seed for cell in command.cells] == [0, 1, 2, 3]
    assert main([*CELLS, "seed=0,1", "output=out/${seed}"]) == 2, (
        "the output differs with the seed, and may not"
    )
