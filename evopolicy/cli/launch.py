"""Between Hydra and a command's cells: composes them, runs them, answers as a Hydra launcher has to."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from evopolicy.cli import compose
from evopolicy.cli.board import Board, CellState
from evopolicy.cli.dry_run import print_plan
from evopolicy.cli.follow import Follower
from evopolicy.cli.plan import Command, PlannedCell, default_sweep_name, plan_command
from evopolicy.cli.problems import sentence
from evopolicy.cli.summary import print_run, print_sweep
from evopolicy.cli.sweep import output_override, run_single, run_sweep
from evopolicy.config import written
from evopolicy.kernel.record import Run
from evopolicy.kernel.sweep import Cell, read_sweep, sweep_folder

_SEED = re.compile(r"seed=(0|-?[1-9]\d{0,17})")


@dataclass
class CellReturn(JobReturn):
    """A cell's JobReturn. Unlike Hydra's it does not raise for a failed one: the table tells of it."""

    score: float = math.nan

    @property
    def return_value(self) -> float:
        return self.score

    @return_value.setter
    def return_value(self, value: Any) -> None:
        self.score = value


def launch_sweep(
    loader: ConfigLoader, master: DictConfig, overrides: Sequence[Sequence[str]], first: int
) -> list[CellReturn]:
    """Plan and run one batch of a sweep; `first` is its first cell's number, above 0 in a sweeper's later batches."""
    composer = Composer(loader, master)
    command = plan_command(overrides, composer, sentence)
    name = command.options.sweep or default_sweep_name(overrides)
    if command.options.dry_run:
        print_plan(command, name)
        return [_returned(command.cells[n], None) for n in range(len(overrides))]
    board, follower = run_sweep(command, name, _earlier(command, name, first))
    finish_sweep(board, follower, command)
    return [_returned(cell, state) for cell, state in zip(command.cells, board.cells, strict=True)]


def finish_sweep(board: Board, follower: Follower, command: Command) -> None:
    """The table first; then MLflow may catch up."""
    print_sweep(board, command.output, output_override(command.output), tracked=_tracked(command))
    wait_for_tracker(follower, command)


def _tracked(command: Command) -> bool:
    return command.cells[0].config.tracking.enabled


def wait_for_tracker(follower: Follower | None, command: Command) -> None:
    """Give MLflow the time the config allows, and say so where it has not got everything."""
    warning = follower.finish(command.options.launcher.tracker_seconds) if follower else ""
    if warning:
        print(f"\nwarning: {warning}")


def _earlier(command: Command, name: str, first: int) -> tuple[Cell, ...]:
    return read_sweep(sweep_folder(command.output, name)).cells[:first] if first else ()


def _returned(cell: PlannedCell, state: CellState | None) -> CellReturn:
    ended_well = state is None or state.status in ("finished", "reused")
    score = math.nan if state is None or state.score is None or not ended_well else state.score
    return CellReturn(
        overrides=list(cell.overrides),
        cfg=OmegaConf.create(written(cell.config)),
        status=JobStatus.COMPLETED if ended_well else JobStatus.FAILED,
        task_name="evopolicy",
        score=score,
    )


class Composer:
    """Composes the cells of one sweep; once those that differ in the seed alone, since Hydra takes its time."""

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._loader = loader
        self._master = master
        self._known: dict[tuple[str, ...], dict[str, Any]] = {}

    def __call__(self, overrides: Sequence[str]) -> dict[str, Any]:
        """The plain config of a cell. Lets through what Hydra and OmegaConf raise."""
        seeds = [override for override in overrides if _SEED.fullmatch(override)]
        rest = tuple(override for override in overrides if override not in seeds)
        if rest not in self._known or len(seeds) != 1:
            config = self._loader.load_sweep_config(self._master, list(overrides))
            values = compose.plain(config)
            if len(seeds) == 1 and not compose.mentions(config, "seed"):
                self._known[rest] = values
            return values
        return {**copy.deepcopy(self._known[rest]), "seed": int(seeds[0].partition("=")[2])}


def launch_single(config: DictConfig, overrides: Sequence[str]) -> Run | None:
    """Run the one cell of a command without a sweep; None for a dry run."""
    command = plan_command([overrides], lambda _: compose.plain(config), sentence)
    if command.options.dry_run:
        print_plan(command, "")
        return None
    return finish_single(command)


def finish_single(command: Command) -> Run:
    """Run the one cell of `command`, print its result, let MLflow catch up."""
    run, follower = run_single(command)
    print_run(run, output_override(command.output), tracked=_tracked(command))
    wait_for_tracker(follower, command)
    return run


def run_overrides(arguments: Sequence[str]) -> int:
    """A command line without a verb. Returns the exit code; a sweep that ended with failures raises SystemExit(1)."""
    kept: list[DictConfig] = []

    def task(config: DictConfig) -> float | None:
        if HydraConfig.get().mode == RunMode.RUN:
            kept.append(config)
            return None
        run = launch_single(config, [])  # a cell of a foreign launcher: in the process it chose, at once
        return run.result.assessment.mean if run and run.result.assessment else None

    compose.run_hydra(arguments, task)
    run = launch_single(kept[0], arguments) if kept else None
    return 0 if run is None or run.valid else 1
