"""Between Hydra and a command's cells: composes them, runs them, answers as a Hydra launcher has
to."""

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

from evopolicy.cli.hydra import compose
from evopolicy.cli.hydra.problems import sentence
from evopolicy.cli.summary import print_run, print_sweep
from evopolicy.config import written
from evopolicy.kernel.run.sweep import Cell, read_sweep, sweep_folder
from evopolicy.kernel.session.record import Run
from evopolicy.sweeps.board import Board, CellState
from evopolicy.sweeps.dry_run import print_plan
from evopolicy.sweeps.follow import Follower
from evopolicy.sweeps.plan import Command, PlannedCell, default_sweep_name, plan_command, say_again
from evopolicy.sweeps.sweep import output_override, run_single, run_sweep, wait_for_tracker

_SEED = re.compile(r"seed=(0|-?[1-9]\d{0,17})")


@dataclass
class CellReturn(JobReturn):
    """A cell's JobReturn. Unlike Hydra's it does not raise for a failed one: the table tells of
    it."""

    score: float = math.nan

    @property
    def return_value(self) -> float:
        return self.score

    @return_value.setter
    def return_value(self, value: Any) -> None:
        self.score = value


class CommandLine:
    """Hydra's task function, and what came of one command line: the config of a single Run, or the
    cells of a sweep."""

    def __init__(self) -> None:
        self.single: DictConfig | None = None
        self.code = 0
        """1 where a cell failed."""
        self._name = ""
        self._cells: list[CellState] = []
        self._recorded: tuple[Cell, ...] = ()
        self._last: tuple[Command, Follower] | None = None

    def __call__(self, config: DictConfig) -> float | None:
        """A cell of a foreign launcher runs in the process that launcher chose, at once."""
        if HydraConfig.get().mode == RunMode.RUN:
            self.single = config
            return None
        run = launch_single(config, [])
        return run.result.assessment.mean if run and run.result.assessment else None

    def launch(
        self,
        loader: ConfigLoader,
        master: DictConfig,
        overrides: Sequence[Sequence[str]],
        *,
        whole: bool,
    ) -> list[CellReturn]:
        """Plan and run some cells: the `whole` sweep, or a batch of a sweeper that asks for more
        once it has these.

        A sweeper may ask for one cell twice: it runs once.
        """
        given = list(overrides) if whole else list(dict.fromkeys(map(tuple, overrides)))
        swept = () if whole else compose.swept_keys(master)
        command = plan_command(given, Composer(loader, master), sentence, swept)
        name = command.options.sweep or self._name or default_sweep_name(given)
        if command.options.dry_run:
            print_plan(command, name)
            raise SystemExit(0)  # a sweeper that asks for more would be given no score to choose by
        if not whole and not self._name:
            _say_direction(master)
        say_again(command.cells)
        self._settle()
        returned = self._run(command, name)
        return returned if whole else [returned[given.index(tuple(cell))] for cell in overrides]

    def _settle(self) -> None:
        """MLflow has what came before."""
        if self._last:
            command, follower = self._last
            self._last = None
            wait_for_tracker(follower, command)

    def _run(self, command: Command, name: str) -> list[CellReturn]:
        now = {cell.run for cell in command.cells}
        board, follower = run_sweep(
            command, name, tuple(cell for cell in self._recorded if cell.run not in now)
        )
        self._name, self._last = name, (command, follower)
        again = {cell.folder for cell in board.cells}
        self._cells = [*(cell for cell in self._cells if cell.folder not in again), *board.cells]
        self._recorded = read_sweep(sweep_folder(command.output, name)).cells
        return [
            _returned(cell, state) for cell, state in zip(command.cells, board.cells, strict=True)
        ]

    def finish(self) -> None:
        """The table of all cells, then MLflow may catch up."""
        if self._last:
            command, follower = self._last
            board = Board(self._cells, self._name)
            self.code = max(self.code, int(board.count("failed") > 0))
            finish_sweep(board, follower, command)
            self._last = None


def _say_direction(master: DictConfig) -> None:
    direction = OmegaConf.select(master, "hydra.sweeper.direction")
    if str(getattr(direction, "name", direction)).lower() == "minimize":
        print(
            "note: this sweeper looks for the lowest score; hydra.sweeper.direction=maximize "
            "looks for the best"
        )


def finish_sweep(board: Board, follower: Follower, command: Command) -> None:
    """The table first; then MLflow may catch up."""
    print_sweep(board, command.output, output_override(command.output), tracked=tracked(command))
    wait_for_tracker(follower, command)


def tracked(command: Command) -> bool:
    return command.cells[0].config.tracking.enabled


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
    """Composes the cells of one sweep; once those that differ in the seed alone, since Hydra takes
    its time."""

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
    say_again(command.cells)
    return finish_single(command)


def finish_single(command: Command) -> Run:
    """Run the one cell of `command`, print its result, let MLflow catch up."""
    run, follower = run_single(command)
    print_run(run, output_override(command.output), tracked=tracked(command))
    wait_for_tracker(follower, command)
    return run


def run_overrides(arguments: Sequence[str]) -> int:
    """A command line without a verb. Returns the exit code."""
    line = CommandLine()
    try:
        compose.run_hydra(arguments, line)
    except Exception:
        line.finish()  # a sweeper that gives up keeps nobody from what its cells found
        raise
    line.finish()
    if line.single is None:
        return line.code
    run = launch_single(line.single, arguments)
    return 0 if run is None or run.valid else 1
