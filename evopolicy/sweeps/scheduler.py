"""Runs cells, several at once, each in a process of its own, until all have ended or the user
interrupts."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import msgspec

from evopolicy import looks
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.run.owner import Owned, Ownership
from evopolicy.sweeps.board import Board
from evopolicy.sweeps.cell import CellOutcome, Job, read_outcome
from evopolicy.sweeps.live import LIVE, read_live
from evopolicy.sweeps.processes import Child, Reaper

_TICK_SECONDS = 0.1
_STOP_SECONDS = 15.0
"""What a cell has, once interrupted, to end its agent and its workers by itself."""
_LOG_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Task:
    """A cell's process: its job, and where it leaves its outcome and its output."""

    job: Job
    file: Path
    """Where the job is written for it."""
    log: Path
    keeps_job: bool = True
    """Whether the job stays when the cell has ended: a sweep's is what `resume` goes on from."""

    @property
    def outcome(self) -> Path:
        return Path(self.job.outcome)


@dataclass(frozen=True)
class Shares:
    """How cells share the machine."""

    cells: int
    """At once."""
    cores: int
    retries: int
    """Times a killed cell is tried again, after the others and alone."""


@dataclass(frozen=True)
class _Running:
    number: int
    child: Child
    owner: Ownership
    """Of the Run's folder; the child has it as well."""


def cell_command(job: Path) -> list[str]:
    """argv of a cell's process."""
    return [sys.executable, "-m", "evopolicy.sweeps.cell", str(job)]


class Scheduler:
    """One pass over the pending cells of a Board. `changed` is called after every change of a
    cell's status."""

    def __init__(
        self,
        board: Board,
        tasks: Sequence[Task],
        shares: Shares,
        changed: Callable[[], None] = lambda: None,
        command: Callable[[Path], list[str]] = cell_command,
    ) -> None:
        self._board = board
        self._tasks = tasks
        self._shares = shares
        self._changed = changed
        self._command = command
        self._pending = deque(n for n, cell in enumerate(board.cells) if cell.status == "pending")
        self._alone: deque[int] = deque()
        self._owned: deque[int] = deque()
        """Cells on which another command worked: looked at once more when all others have ended."""
        self._asked: set[int] = set()
        self._attempts = [0] * len(tasks)
        self._running: list[_Running] = []
        self._reaper = Reaper()
        self.bystanders: list[int] = []
        """Pids of other children of this process, such as the tracker."""

    def run(self, tick: Callable[[], None] = lambda: None) -> None:
        """Return when every cell has ended; `tick` is called ten times a second.

        On an interrupt every process is ended, what ran is pending again, and KeyboardInterrupt
        goes on."""
        with terminate_as_interrupt(), self._reaper:
            try:
                while self._pending or self._alone or self._owned or self._running:
                    self._start()
                    time.sleep(_TICK_SECONDS)
                    self._look()
                    tick()
            except BaseException:
                self._stop()
                raise

    def _start(self) -> None:
        while self._pending and len(self._running) < self._shares.cells:
            at_once = min(self._shares.cells, len(self._running) + len(self._pending))
            self._start_cell(self._pending.popleft(), at_once)
        if self._alone and not self._running:
            self._start_cell(self._alone.popleft(), 1)
        elif self._owned and not self._running:
            self._start_cell(self._owned.popleft(), 1)

    def _start_cell(self, number: int, at_once: int) -> None:
        task, cell = self._tasks[number], self._board.cells[number]
        try:
            owner = Ownership(cell.folder)
        except RecordError as error:
            cell.status, cell.error, cell.ended = "failed", str(error), time.monotonic()
            if isinstance(error, Owned) and number not in self._asked:
                self._asked.add(number)  # it may end while the others run: then this is its Run too
                self._owned.append(number)
            self._changed()
            return
        try:
            child = self._started(task, at_once, owner)
        except BaseException:
            owner.close()
            raise
        self._attempts[number] += 1
        self._running.append(_Running(number, child, owner))
        cell.status, cell.error, cell.started, cell.ended, cell.live = (
            "running",
            "",
            time.monotonic(),
            None,
            None,
        )
        cell.waiting = None
        self._changed()

    def _started(self, task: Task, at_once: int, owner: Ownership) -> Child:
        (Path(task.job.folder) / LIVE).unlink(missing_ok=True)  # of a process that was killed
        # Workers that the config names stay as they are; else the cores are shared among the cells
        # that run.
        own = task.job.config["execution"]["workers"]
        job = task.job if own else replace(task.job, workers=max(1, self._shares.cores // at_once))
        task.outcome.unlink(missing_ok=True)
        write_durably(task.file, msgspec.json.encode(job))
        return Child(
            [*self._command(task.file), str(owner.fd)], task.log, looks.shared(), [owner.fd]
        )

    def _look(self) -> None:
        for running in list(self._running):
            task, cell = self._tasks[running.number], self._board.cells[running.number]
            cell.look(read_live(cell.folder))
            code = running.child.poll()
            if code is None:
                _bound(task.log)
                continue
            self._running.remove(running)
            running.child.close()
            self._reaper.kill_orphans(
                [*self.bystanders, *(other.child.pid for other in self._running)]
            )
            self._settle(running.number, code)
            running.owner.close()

    def _settle(self, number: int, code: int) -> None:
        task, cell = self._tasks[number], self._board.cells[number]
        cell.ended = time.monotonic()
        (cell.folder / LIVE).unlink(missing_ok=True)
        outcome = read_outcome(task.outcome)
        if outcome is None and code < 0 and self._attempts[number] <= self._shares.retries:
            cell.status, cell.error = "pending", _death(code)
            self._alone.append(number)
        else:
            outcome = outcome or CellOutcome("failed", _death(code))
            cell.status = "finished" if outcome.status == "finished" else "failed"
            cell.error = _with_log(outcome.error, task.log)
            cell.score, cell.standard_error = outcome.score, outcome.standard_error
            _clean(task, keep_log=bool(outcome.error))
        self._changed()

    def _stop(self) -> None:
        """End every cell: politely, then not. A second interrupt does not wait."""
        for running in self._running:
            running.child.interrupt()
        deadline = time.monotonic() + _STOP_SECONDS
        for running in self._running:
            cell = self._board.cells[running.number]
            try:
                running.child.end(max(deadline - time.monotonic(), 0.1))
            except KeyboardInterrupt:
                deadline = 0.0
                running.child.end(0.1)
            cell.status, cell.ended, cell.live = "pending", time.monotonic(), None
            (cell.folder / LIVE).unlink(missing_ok=True)
            _clean(self._tasks[running.number], keep_log=False)
        self._reaper.kill_orphans(self.bystanders)
        for running in self._running:
            running.owner.close()
        self._running.clear()
        self._changed()


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        return (
            "its process was killed, most likely because memory ran out; run fewer cells at "
            "once (launcher.cells)"
        )
    if code < 0:
        with suppress(ValueError):
            return f"its process died of {signal.Signals(-code).name}"
    return f"its process ended with exit code {code} and without a word"


def _with_log(error: str, log: Path) -> str:
    return (
        f"{error} (its output: {log})" if error and log.exists() and log.stat().st_size else error
    )


def _clean(task: Task, *, keep_log: bool) -> None:
    task.outcome.unlink(missing_ok=True)
    if not task.keeps_job:
        task.file.unlink(missing_ok=True)
    if not keep_log or not task.log.stat().st_size:
        task.log.unlink(missing_ok=True)


def _bound(log: Path) -> None:
    """A process that prints without end must not fill the disk; what is cut is the past."""
    with suppress(OSError):
        if log.stat().st_size > _LOG_BYTES:
            os.truncate(log, 0)


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end things as Ctrl-C does. Only the main thread may set signals; elsewhere
    nothing is done."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    earlier = {}
    with suppress(ValueError):
        for number in (signal.SIGTERM, signal.SIGHUP):
            if (
                number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN
            ):  # `nohup` asked to live on
                earlier[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
