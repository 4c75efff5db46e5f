"""A sweep whose cells another Hydra launcher runs where it puts them: planned and recorded here, as
ours are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig

from evopolicy.cli.hydra.launch import Composer, tracked
from evopolicy.cli.hydra.problems import sentence
from evopolicy.cli.summary import print_sweep
from evopolicy.kernel.errors import EvoPolicyError
from evopolicy.kernel.session.record import load_run
from evopolicy.sweeps.board import Board
from evopolicy.sweeps.cell import outcome_of
from evopolicy.sweeps.dry_run import print_plan
from evopolicy.sweeps.plan import Command, PlannedCell, default_sweep_name, plan_command
from evopolicy.sweeps.sweep import output_override, recorded


def launch_elsewhere(
    loader: ConfigLoader,
    master: DictConfig,
    cells: Sequence[Sequence[str]],
    launcher: Launcher,
    at_once: int | None,
) -> None:
    """Run the cells that are not finished by `launcher`, `at_once` in a batch, and print the table.

    Raises SystemExit(1) where a cell failed.
    """
    command = plan_command(cells, Composer(loader, master), sentence)
    name = command.options.sweep or default_sweep_name(cells)
    if command.options.dry_run:
        print_plan(command, name)
        return
    with recorded(command, name) as (board, _, changed):
        new = [n for n, cell in enumerate(command.cells) if not cell.finished]
        for first in range(0, len(new), at_once or len(new)):
            batch = new[first : first + (at_once or len(new))]
            jobs = [[*cells[n], *_decided(command.cells[n])] for n in batch]
            for n, job in zip(batch, launcher.launch(jobs, initial_job_idx=first), strict=True):
                _settle(board, command, n, job)
            changed()
    print_sweep(board, command.output, output_override(command.output), tracked=tracked(command))
    if board.count("failed"):
        raise SystemExit(1)


def _decided(cell: PlannedCell) -> list[str]:
    """What the whole sweep decides of a cell, which its own overrides do not tell."""
    words = [f"secret.generated={str(bool(cell.config.secret.generated)).lower()}"]
    return [*words, f"++axes={_mapping(cell.config.axes)}"] if cell.config.axes else words


def _mapping(axes: Mapping[str, str]) -> str:
    quoted = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in axes.items()}
    return "{" + ",".join(f'{key}:"{value}"' for key, value in quoted.items()) + "}"


def _settle(board: Board, command: Command, number: int, job: JobReturn) -> None:
    state = board.cells[number]
    try:
        outcome = outcome_of(load_run(command.cells[number].plan.folder))
    except EvoPolicyError as error:
        raised = job._return_value if job.status is JobStatus.FAILED else error
        state.status, state.error = "failed", _told(raised)
        return
    state.status, state.error = outcome.status, outcome.error
    state.score, state.standard_error = outcome.score, outcome.standard_error


def _told(error: object) -> str:
    text = sentence(error) if isinstance(error, BaseException) else None
    return text or f"{type(error).__name__}: {error}"
