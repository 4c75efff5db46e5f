"""Runs the planned cells of a command as a sweep, or its one cell as a single Run. No Hydra
here."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from evopolicy.build import cores
from evopolicy.config import written
from evopolicy.consent import words_needed
from evopolicy.execution.isolation import STRENGTH
from evopolicy.kernel.errors import ConfigError, ExecutionError, RecordError
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.files.seal import seal
from evopolicy.kernel.run.owner import Owned, Ownership
from evopolicy.kernel.run.sweep import SCHEMA, Cell, Sweep, read_sweep, sweep_folder, write_sweep
from evopolicy.kernel.session.record import Run, load_run, read_record
from evopolicy.kernel.shown import clean
from evopolicy.present.numbers import plural
from evopolicy.sweeps.board import Board, CellState
from evopolicy.sweeps.cell import Job
from evopolicy.sweeps.config import LauncherConfig
from evopolicy.sweeps.display import show
from evopolicy.sweeps.follow import Follower, say_where, tracking_mapping, written_tracking
from evopolicy.sweeps.plan import Command, PlannedCell
from evopolicy.sweeps.scheduler import Scheduler, Shares, Task, terminate_as_interrupt
from evopolicy.sweeps.text import are

_LISTED = 20
JOBS = "cells"
"""Folder inside a sweep's with every cell's job: what `resume` needs."""


class CellFailed(ExecutionError):
    """The one cell of a command failed."""

    exit_code = 1


class Interrupted(KeyboardInterrupt):
    """The user ended a command; the text says what goes on with it."""


def run_sweep(command: Command, name: str, earlier: Sequence[Cell] = ()) -> tuple[Board, Follower]:
    """Run what is not finished of `command`, several cells at once. The board, and the tracker that
    may still log.

    `earlier` cells belong to the same sweep and have ended. Raises Interrupted, ConfigError where
    another command runs this sweep, and RecordError where its folder cannot be written."""
    tracking = tracking_mapping(command.cells[0].config.tracking)
    say_where(tracking)
    with recorded(command, name, earlier) as (board, tasks, changed):
        log = sweep_folder(command.output, name) / "tracker.log"
        follower = Follower(command.output, tracking, log, sweep=name)
        words = f"{output_override(command.output)}{_consent(command)}"
        go_on = f"the same command, or: evopolicy resume sweep={name}{words}"
        _run(board, Scheduler(board, tasks, shares(command), changed), follower, go_on)
    return board, follower


@contextmanager
def recorded(
    command: Command, name: str, earlier: Sequence[Cell] = ()
) -> Iterator[tuple[Board, list[Task], Callable[[], None]]]:
    """Be the one command of the sweep: its board, its cells' tasks, and what writes the board into
    its record.

    The record is there already, and every cell's job, so that `resume` can go on with it.
    """
    folder = sweep_folder(command.output, name)
    with _only_command(folder, name):
        board = Board([_state(cell) for cell in command.cells], name)
        store = written_tracking(tracking_mapping(command.cells[0].config.tracking))
        created = _created(folder)
        tasks = [
            _task(cell, folder / JOBS, f"{n:04d}")
            for n, cell in enumerate(command.cells, len(earlier) + 1)
        ]
        _write_jobs(tasks)

        def changed() -> None:
            cells = (
                *earlier,
                *(_cell(c, s) for c, s in zip(command.cells, board.cells, strict=True)),
            )
            write_sweep(
                command.output,
                Sweep(SCHEMA, name, created, cells, command.suite, store, seal(store)),
            )

        changed()
        _say_reused(board)
        tell_weaker(command.cells)
        yield board, tasks, changed


def run_single(command: Command) -> tuple[Run, Follower | None]:
    """Run the one cell of `command`, or load it where it is finished; and the tracker that may
    still be at work.

    Raises Interrupted, and CellFailed where the Run could not be ended.
    """
    (cell,) = command.cells
    if cell.finished:
        print(f"This Run is finished already: {cell.plan.folder}")
        tell_weaker([cell])
        return load_run(cell.plan.folder), None
    # What the command needs lies beside the Run's folder, which is set aside where it is run again.
    place, stem = cell.plan.folder.parent, f".{cell.plan.folder.name}"
    tracking = tracking_mapping(cell.config.tracking)
    say_where(tracking)
    follower = Follower(
        command.output, tracking, place / f"{stem}.tracker.log", run=str(cell.plan.folder)
    )
    board = Board([_state(cell)])
    scheduler = Scheduler(board, [_task(cell, place, stem, keeps_job=False)], shares(command))
    go_on = (
        "the same command, or: evopolicy resume "
        f"source={shlex.quote(str(cell.plan.folder))}{_consent(command)}"
    )
    _run(board, scheduler, follower, go_on)
    state = board.cells[0]
    if state.status == "failed" and state.score is None:
        follower.stop()
        raise CellFailed(f"{state.title}: {state.error}")
    return load_run(cell.plan.folder), follower


def wait_for_tracker(follower: Follower | None, command: Command) -> None:
    """Give MLflow the time the config allows, and say so where it has not got everything."""
    warning = follower.finish(command.options.launcher.tracker_seconds) if follower else ""
    if warning:
        print(f"\nwarning: {warning}")


def _run(board: Board, scheduler: Scheduler, follower: Follower, go_on: str) -> None:
    try:
        with terminate_as_interrupt(), show(board) as display:

            def tick() -> None:
                follower.tick()
                scheduler.bystanders = follower.pids
                display.update()

            scheduler.run(tick)
            display.update()
    except KeyboardInterrupt:
        follower.stop()
        raise Interrupted(
            f"interrupted; nothing that was spent is lost. To go on, type {go_on}"
        ) from None
    except BaseException:
        follower.stop()
        raise


def shares(command: Command) -> Shares:
    """How the command's cells share the cores this process may use."""
    config: LauncherConfig = command.options.launcher
    return Shares(config.cells or max(1, cores() // 2), cores(), config.retries)


def _state(cell: PlannedCell) -> CellState:
    state = CellState(cell.plan.entry, cell.plan.benchmark, cell.plan.seed, cell.plan.folder)
    if cell.finished:
        measured = load_run(cell.plan.folder).result.assessment
        state.status = "reused"
        state.score = measured.mean if measured else None
    return state


def _cell(cell: PlannedCell, state: CellState) -> Cell:
    plan = cell.plan
    return Cell(
        cell.run,
        plan.entry,
        plan.benchmark,
        plan.seed,
        cell.overrides,
        state.status,
        state.error,
        plan.result_key,
    )


def _task(cell: PlannedCell, place: Path, stem: str, *, keeps_job: bool = True) -> Task:
    plan = cell.plan
    outcome = str(place / f"{stem}.outcome.json")
    config = written(cell.config)
    job = Job(
        config,
        str(plan.folder),
        plan.entry,
        plan.benchmark,
        plan.seed,
        None,
        outcome,
        cell.overrides,
        seal=seal(config),
    )
    return Task(job, place / f"{stem}.json", place / f"{stem}.log", keeps_job)


def _write_jobs(tasks: Sequence[Task]) -> None:
    folder = tasks[0].file.parent
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9]*.json"):
        if old.name >= tasks[0].file.name:
            old.unlink()
    for task in tasks:
        write_durably(task.file, msgspec.json.encode(task.job))


def _created(folder: Path) -> float:
    try:
        return read_sweep(folder).created
    except RecordError:
        return round(time.time(), 3)


def _say_reused(board: Board) -> None:
    reused = [cell for cell in board.cells if cell.status == "reused"]
    if reused:
        print(
            f"{plural(len(reused), 'cell')} of {len(board.cells)} finished before and "
            f"{are(len(reused))} reused:"
        )
        for cell in reused[:_LISTED]:
            print(f"  {clean(cell.title)}")
        if len(reused) > _LISTED:
            print(f"  and {len(reused) - _LISTED} more")


def tell_weaker(cells: Sequence[PlannedCell]) -> None:
    """Name the Runs that are reused and were held by less than this command asks for: the level is
    no part of a key."""
    weaker: dict[tuple[str, str], list[PlannedCell]] = {}
    for cell in cells:
        if cell.finished and _strength(had := read_record(cell.plan.folder).isolation) < _strength(
            cell.plan.isolation
        ):
            weaker.setdefault((had, cell.plan.isolation), []).append(cell)
    for (had, now), found in weaker.items():
        of_one, names = (
            len(found) == 1,
            ", ".join(str(cell.plan.folder) for cell in found[:_LISTED]),
        )
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        print(
            f"{plural(len(found), 'reused Run')} ran at isolation '{had}', and this command asks for '{now}': "
            f"{'its result stands as it is' if of_one else 'their results stand as they are'}. To run"
            f" {'it' if of_one else 'them'} at '{now}', move {clean(names, 2_000)}{more} away, or choose output=FOLDER"
        )


def _strength(level: str) -> int:
    return STRENGTH.get(level, 0)


def _consent(command: Command) -> str:
    """The words by which a later command agrees to what this one agreed to."""
    words: dict[str, str] = {}
    for cell in command.cells:
        words.update(words_needed(cell.config))
    return "".join(f" {key}={value}" for key, value in words.items())


def output_override(output: Path) -> str:
    """The output override a later command needs; '' for the default folder."""
    return "" if str(output) == "outputs" else f" output={shlex.quote(str(output))}"


@contextmanager
def _only_command(folder: Path, name: str) -> Iterator[None]:
    """Be the one command that runs this sweep."""
    try:
        owner = Ownership(folder)
    except Owned as error:
        raise ConfigError(
            f"sweep: another command is running the sweep '{name}' ({error.owner}); wait for it, "
            "or choose another name"
        ) from None
    with owner:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"output: '{folder}' cannot be written ({error.strerror}); choose another folder"
            ) from None
        yield
