"""LocalExecutor: the Executor on this machine's cores."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from evopolicy.execution.engine.batch import Batch, fault_result
from evopolicy.execution.engine.control import (
    CheckDone,
    CheckJob,
    EpisodeDone,
    EpisodeJob,
    Job,
    Message,
    PictureJob,
    PicturesDone,
    WorkerConfig,
)
from evopolicy.execution.engine.worker_handle import WorkerHandle
from evopolicy.execution.policy.handles import ZygotePlan, plain_command
from evopolicy.execution.sandbox import bubblewrap, landlock, packages
from evopolicy.execution.sandbox.confine import SandboxConfig
from evopolicy.kernel.errors import ConfigError, ExecutionError
from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.ports.benchmark import Artifact, BenchmarkReference, EpisodeSpec
from evopolicy.kernel.ports.outcome import CheckReport, EpisodeResult, Fault
from evopolicy.kernel.ports.protocols import Isolation, Limits, RenderJob

POLICY_PACKAGES = ("numpy", "scipy")
LANES = 4
# Scratch folders beyond one for each Episode of a worker: they are emptied while others are used.
_SPARE_SLOTS = 2


class LocalExecutor:
    """Runs Episodes of one Benchmark in isolated processes, several at once per core. Implements
    `ports.Executor`.

    Nothing is started before the first call (or `warm`); `close` ends everything. Calls from
    several threads are served one after the other, but a `check` or `render` beside an `evaluate`
    runs at once, in a worker of its own."""

    def __init__(
        self,
        reference: BenchmarkReference,
        limits: Limits,
        *,
        workers: int,
        isolation: Isolation,
        policy_packages: Sequence[str] = POLICY_PACKAGES,
        lanes: int = LANES,
        picture_seconds: float = 120.0,
    ) -> None:
        """`workers`: Environment workers, one per core; `lanes`: Episodes each steps at once.

        `isolation`: a level that holds here, as `isolation.choose` says. Raises ConfigError for
        impossible numbers and for packages that are not installed."""
        if workers < 1 or lanes < 1:
            raise ConfigError(
                f"execution: workers and lanes are at least 1, found {workers} and {lanes}"
            )
        self._isolation: Isolation = isolation
        self._packages = packages.resolve(tuple(dict.fromkeys(("numpy", *policy_packages))))
        self._reference = reference
        self._limits = limits
        self._lanes = lanes
        self._picture_seconds = picture_seconds
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="evopolicy-start")
        self._held: HeldFolder | None = None
        self._config: WorkerConfig | None = None
        self._starting = threading.Lock()
        self._main = _Crew(self, workers)
        self._side = _Crew(self, 1)
        self._jobs = 0
        self._closed = False

    @property
    def isolation(self) -> Isolation:
        return self._isolation

    @property
    def limits(self) -> Limits:
        return self._limits

    def warm(self) -> None:
        """Start the workers now and return at once: they load the Benchmark while the caller does
        something else."""
        with self._main.lock:
            self._main.alive(self._main.size)

    def evaluate(
        self,
        program: Path,
        episodes: Sequence[EpisodeSpec],
        *,
        traces: Path | None = None,
        progress: Callable[[EpisodeResult], None] | None = None,
    ) -> list[EpisodeResult]:
        """See `ports.Executor.evaluate`. Traces are called `<index>.trace`."""
        if traces is not None:
            traces.mkdir(parents=True, exist_ok=True)
            traces = traces.resolve()
        results: dict[int, EpisodeResult] = {}
        folder = program.resolve()
        numbers = self._number(len(episodes))
        jobs = [
            EpisodeJob(
                number, folder, episode, traces / f"{episode.index:06d}.trace" if traces else None
            )
            for number, episode in zip(numbers, episodes, strict=True)
        ]
        by_number = {job.job: job for job in jobs}

        def done(number: int, answer: Message | Fault) -> None:
            if isinstance(answer, EpisodeDone):
                results[number] = answer.result
            elif isinstance(answer, Fault):
                results[number] = fault_result(by_number[number], answer)
            if progress is not None:
                progress(results[number])

        with self._main.lock:
            self._run(self._main, jobs, done)
        return [results[number] for number in numbers]

    def check(self, program: Path, seed: int) -> CheckReport:
        """See `ports.Executor.check`. Raises ExecutionError where the engine itself fails."""
        answers: list[Message | Fault] = []
        job = CheckJob(self._number(1)[0], program.resolve(), seed)
        with self._free() as crew:
            self._run(crew, [job], lambda _number, answer: answers.append(answer))
        answer = answers[0]
        if isinstance(answer, CheckDone):
            return answer.report
        raise ExecutionError(f"the check could not run: {getattr(answer, 'message', answer)}")

    def render(self, jobs: Sequence[RenderJob]) -> list[Artifact]:
        """See `ports.Executor.render`."""
        made: dict[int, list[Artifact]] = {}

        def done(number: int, answer: Message | Fault) -> None:
            made[number] = answer.artifacts if isinstance(answer, PicturesDone) else []

        numbers = self._number(len(jobs))
        pictures = [
            PictureJob(number, job.episode, job.trace.resolve(), job.folder.resolve())
            for number, job in zip(numbers, jobs, strict=True)
        ]
        for job in jobs:
            job.folder.mkdir(parents=True, exist_ok=True)
        with self._free() as crew:
            self._run(crew, pictures, done)
        return [artifact for number in numbers for artifact in made[number]]

    def close(self) -> None:
        """End every process and remove every temporary file. Idempotent."""
        self._closed = True
        for crew in (self._main, self._side):
            crew.close()
        self._threads.shutdown()
        if self._held is not None:
            self._held.close()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- inside -----------------------------------------------------------------------------------

    def _number(self, count: int) -> list[int]:
        with self._starting:
            first = self._jobs
            self._jobs += count
        return list(range(first, first + count))

    @contextmanager
    def _free(self) -> Iterator[_Crew]:
        """The main crew where nobody uses it, else the one beside it."""
        if self._main.lock.acquire(blocking=False):
            try:
                yield self._main
            finally:
                self._main.lock.release()
        else:
            with self._side.lock:
                yield self._side

    def _run(
        self, crew: _Crew, jobs: Sequence[Job], done: Callable[[int, Message | Fault], None]
    ) -> None:
        batch = Batch(
            crew,
            jobs,
            done,
            lanes=self._lanes,
            step_seconds=self._limits.step_seconds,
            picture_seconds=self._picture_seconds,
        )
        try:
            batch.run()
        except BaseException:
            # An interrupt, an error of the caller's or of the engine: nothing that was begun goes
            # on.
            crew.close()
            raise

    def start_worker(self) -> WorkerHandle:
        """A new worker. Raises ExecutionError."""
        with self._starting:
            if self._closed:
                raise ExecutionError("the executor is closed")
            if self._held is None:
                self._held = HeldFolder("engine")
            if self._config is None:
                self._config = self._configure(self._held.path)
            return WorkerHandle(self._config, self._held.path / "workers.log", self._threads)

    def _configure(self, held: Path) -> WorkerConfig:
        level, view = self._isolation, "packages"
        runtime = packages.runtime()
        (held / "workers.log").touch(0o600)
        plan = self._plan(runtime, held)
        self._packages.link_into(Path(plan.held, view))
        allowed = [str(path) for path in self._packages.links.values()]
        view = f"{plan.seen}/{view}"
        sandbox = SandboxConfig(
            level,
            landlock.abi() if level != "none" else 0,
            (*map(str, runtime.readable), view, *allowed),
            (*map(str, runtime.roots), view, *allowed),
            self._limits.memory_bytes,
            self._limits.scratch_bytes,
            self._limits.episode_seconds,
        )
        return WorkerConfig(
            os.getpid(),
            [entry or str(Path.cwd()) for entry in sys.path],
            self._reference,
            self._limits,
            sandbox,
            plan,
            (*runtime.path, view),
            self._packages.names,
        )

    def _plan(self, runtime: packages.Runtime, held: Path) -> ZygotePlan:
        code = packages.own_code()

        def path(seen: str) -> tuple[str, ...]:
            return (*runtime.path, f"{seen}/packages", f"{seen}/engine")

        if self._isolation != "bubblewrap":
            code.link_into(held / "engine")
            return ZygotePlan(plain_command(), path(str(held)), str(held), str(held), False)
        shared, seen, slots = held / "shared", bubblewrap.SEEN, self._lanes + _SPARE_SLOTS
        allowed, size = self._packages.links.values(), self._limits.scratch_bytes
        program = bubblewrap.find() or Path("bwrap")
        command = bubblewrap.zygote(program, runtime, allowed, shared, code.links, slots, size)
        return ZygotePlan(command, path(seen), str(shared), seen, True, slots)


class _Crew:
    """Workers used by one call at a time."""

    def __init__(self, engine: LocalExecutor, size: int) -> None:
        self.lock = threading.Lock()
        self.size = size
        self._engine = engine
        self._workers: list[WorkerHandle] = []

    def alive(self, wanted: int) -> list[WorkerHandle]:
        """See `batch.Workers`."""
        for worker in [worker for worker in self._workers if worker.dead]:
            worker.close()
            self._workers.remove(worker)
        while len(self._workers) < min(wanted, self.size):
            self._workers.append(self._engine.start_worker())
        return self._workers

    def close(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.link.sock.close()
        for worker in workers:
            worker.close()
