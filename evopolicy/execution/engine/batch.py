"""One call's jobs over the workers: hand out, collect, retry what a crash took, stop an Environment
that hangs."""

from __future__ import annotations

import select
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from evopolicy.execution.engine.control import EpisodeJob, EpisodeLost, Job, Message, PictureJob
from evopolicy.execution.engine.worker_handle import WorkerHandle
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.outcome import EpisodeResult, Fault

_TURN = 0.1
_TRIES = 2
_STARTS = 3
_STILL_SECONDS = 120.0
"""How long a worker with Episodes to play may look at none of them, outside of a call of an
Environment."""


class Workers(Protocol):
    """Where a batch gets its workers from."""

    def alive(self, wanted: int) -> list[WorkerHandle]:
        """Up to `wanted` workers, dead ones replaced. Raises ExecutionError."""


class Batch:
    """Runs `jobs`; `done` is called for each, from the calling thread, with its answer or the Fault
    that ended it."""

    def __init__(
        self,
        workers: Workers,
        jobs: Sequence[Job],
        done: Callable[[int, Message | Fault], None],
        *,
        lanes: int,
        step_seconds: float,
        picture_seconds: float,
    ) -> None:
        self._workers = workers
        self._jobs = {job.job: job for job in jobs}
        self._waiting = deque(self._jobs)
        self._open = set(self._jobs)
        self._done = done
        self._lanes = lanes
        self._step_seconds = step_seconds
        self._picture_seconds = picture_seconds
        self._lost: Counter[int] = Counter()
        self._failed_starts = 0

    def run(self) -> None:
        """Returns when every job was answered. Raises ExecutionError where none can be."""
        while self._open:
            workers = self._workers.alive(len(self._open))
            self._hand_out(workers)
            for worker in self._spoken(workers):
                for message in worker.receive():
                    self._on_message(message)
            for worker in workers:
                self._look_after(worker)

    def _hand_out(self, workers: list[WorkerHandle]) -> None:
        while self._waiting:
            worker = min(workers, key=lambda one: len(one.jobs))
            job = self._jobs[self._waiting[0]]
            room = 1 if isinstance(job, PictureJob) else self._lanes
            if len(worker.jobs) >= room:
                return
            self._waiting.popleft()
            worker.send(job)

    def _spoken(self, workers: list[WorkerHandle]) -> Iterator[WorkerHandle]:
        poll = select.poll()
        by_fd = {worker.link.sock.fileno(): worker for worker in workers if not worker.dead}
        for fd in by_fd:
            poll.register(fd, select.POLLIN | (select.POLLOUT if by_fd[fd].link.blocked else 0))
        for fd, event in poll.poll(_TURN * 1000):
            if event & select.POLLOUT:
                by_fd[fd].flush()
            if event != select.POLLOUT:
                yield by_fd[fd]

    def _on_message(self, message: Message) -> None:
        if isinstance(message, EpisodeLost):
            self._lose(message.job, "engine", message.message)
        else:
            self._answer(getattr(message, "job", -1), message)

    def _answer(self, job: int, answer: Message | Fault) -> None:
        if job in self._open:
            self._open.discard(job)
            self._done(job, answer)

    def _look_after(self, worker: WorkerHandle) -> None:
        if worker.broken is not None:
            broken = worker.broken
            raise ExecutionError(
                f"a worker cannot load the Benchmark: {broken.message}\n{broken.traceback}".rstrip()
            )
        if worker.dead:
            self._on_death(worker)
            return
        worker.trim_log()
        busy = worker.busy()
        if busy is not None and busy[1] > self._step_seconds:
            culprit = busy[0]
            worker.kill()
            text = f"a call of the Environment took longer than {self._step_seconds:g} s"
            self._answer(culprit, Fault("environment", text))
            self._again(worker, culprit)
        elif worker.still() > _STILL_SECONDS:
            worker.kill()
            for job in list(worker.jobs):
                self._lose(job, "engine", f"its worker did nothing for {_STILL_SECONDS:g} s, twice")
            self._again(worker, None)
        elif worker.overdue(self._picture_seconds):
            worker.kill()
            for job in list(worker.jobs):
                self._answer(job, Fault("engine", f"no picture within {self._picture_seconds:g} s"))

    def _on_death(self, worker: WorkerHandle) -> None:
        how = worker.obituary()
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _STARTS:
                raise ExecutionError(f"Environment workers end before they are ready: {how}")
            self._again(worker, None)
            return
        busy = worker.busy()
        culprit = busy[0] if busy is not None else None
        # Who was in a call of its Environment when the worker died is to blame; without one, any of
        # them may be.
        for job in [culprit] if culprit is not None else list(worker.jobs):
            kind = "environment" if culprit is not None else "engine"
            self._lose(job, kind, f"the worker died in it, twice; the last time by {how}")
        self._again(worker, culprit)

    def _again(self, worker: WorkerHandle, but: int | None) -> None:
        for job in reversed(worker.jobs):
            if job != but and job in self._open and job not in self._waiting:
                self._waiting.appendleft(job)
        worker.jobs.clear()

    def _lose(self, job: int, kind: Any, message: str) -> None:
        self._lost[job] += 1
        if self._lost[job] >= _TRIES or isinstance(self._jobs[job], PictureJob):
            self._answer(job, Fault(kind, message.splitlines()[0][:500], message[:4000]))
        elif job not in self._waiting:
            self._waiting.appendleft(job)


def fault_result(job: Job, fault: Fault) -> EpisodeResult:
    """The result of an Episode whose worker could not bring one."""
    assert isinstance(job, EpisodeJob)
    return EpisodeResult(job.episode.index, None, fault)
