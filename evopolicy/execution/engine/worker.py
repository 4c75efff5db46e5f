"""An Environment worker: one process, one thread, stepping several Episodes at once as their
Policies answer.

Started as `python -m evopolicy.execution.engine.worker FD`; the first message on the socket says
everything else. When the socket closes or the Host is gone, it ends, and everything it started with
it."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import mmap
import os
import select
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evopolicy.execution.engine import cores, sampled
from evopolicy.execution.engine.control import (
    CheckDone,
    CheckJob,
    EpisodeDone,
    EpisodeJob,
    EpisodeLost,
    Link,
    PictureJob,
    PicturesDone,
    TooLarge,
    WorkerBroken,
    WorkerConfig,
    WorkerReady,
)
from evopolicy.execution.engine.lane import Lane, Play, shared_watch
from evopolicy.execution.policy.fork_server import ZygoteConfig
from evopolicy.execution.policy.handles import ForkServerHandle, ZygoteHandle, ZygoteLost
from evopolicy.execution.sandbox import bubblewrap, process, seccomp_notify
from evopolicy.execution.sandbox import confine as sandbox
from evopolicy.execution.wire import codec
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.benchmark import Benchmark
from evopolicy.kernel.ports.outcome import EpisodeResult, Fault
from evopolicy.kernel.spaces import Space, to_value

_TICK = 0.05
_ZYGOTES = 3
"""How many of them may end one after the other, no Episode played in between."""


class Worker:
    """The event loop. Everything that can be waited for is a descriptor with a handler."""

    def __init__(self, link: Link, config: WorkerConfig, benchmark: Benchmark, watch: Any) -> None:
        self._link = link
        self._config = config
        self._benchmark = benchmark
        spec = benchmark.spec
        largest = largest_action(spec.action_space)
        read = codec.action_reader(spec.action_space, clip=spec.clips)
        encode = codec.observation_encoder(spec.observation_space)
        self._play = Play(config.limits, spec.max_steps, largest, encode, read, watch)
        self._beat = watch
        self._zygote: ZygoteHandle | None = None
        self._lost_zygotes = 0
        self._program: Path | None = None
        self._fork_server: ForkServerHandle | None = None
        # By poll: the watches of epoll are bounded for all processes of a user, an agent's among
        # them.
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._lanes: set[Lane] = set()
        self._checks: dict[int, sampled.SampledEnvironment] = {}

    def run(self) -> None:
        """Serve until the Host closes its end."""
        self._watch(self._link.sock.fileno(), self._on_control)
        self._on_control(select.POLLIN)  # Jobs may have come along with the first message.
        due, poll, handler_of = 0.0, self._poll.poll, self._handlers.get
        while not self._link.closed:
            self._beat[2] = time.monotonic()
            for fd, event in poll(_TICK * 1000 if self._lanes or self._unsent else None):
                handler = handler_of(fd)
                if handler is None:
                    continue
                try:
                    handler(event)
                except Exception as error:
                    self._on_fault(fd, error)
            now = time.monotonic()
            if now >= due:
                due = now + _TICK
                for lane in list(self._lanes):
                    self._check(lane, now)
                if self._fork_server is not None:
                    self._fork_server.flush()
        self.close()

    @property
    def _unsent(self) -> bool:
        return self._fork_server is not None and self._fork_server.blocked

    def _on_fault(self, fd: int, error: Exception) -> None:
        """What handling `fd` raised ends its Episode alone, where it has one."""
        for lane in self._lanes:
            if fd in (lane.process.wire.sock.fileno(), lane.process.output.fd):
                lane.on_fault(error)
                return
        raise error

    def _check(self, lane: Lane, now: float) -> None:
        # An answer that is there already is no answer that is late, however long this worker was
        # busy.
        if lane.process.ending or not select.select([lane.process.wire.sock], [], [], 0)[0]:
            lane.check(now)

    def close(self) -> None:
        """End the fork server and the zygote, and with them every Policy."""
        if self._fork_server is not None:
            self._fork_server.close()
        if self._zygote is not None:
            self._zygote.close()
            if self._fork_server is not None:
                self._fork_server.clear()
            self._zygote.swept()

    # --- the Host ---------------------------------------------------------------------------------

    def _on_control(self, event: int) -> None:
        if event & select.POLLOUT:
            self._flush()
        for message in self._link.receive():
            if isinstance(message, EpisodeJob):
                self._play_episode(message)
            elif isinstance(message, CheckJob):
                self._check_program(message)
            elif isinstance(message, PictureJob):
                self._render(message)

    def _say(self, message: Any) -> None:
        with contextlib.suppress(OSError):
            self._link.send(message)
        self._await_room()

    def _flush(self) -> None:
        with contextlib.suppress(OSError):
            self._link.flush()
        self._await_room()

    def _await_room(self) -> None:
        out = select.POLLOUT if self._link.blocked else 0
        self._poll.modify(self._link.sock.fileno(), select.POLLIN | out)

    def _play_episode(self, job: EpisodeJob) -> None:
        self._open(
            job.job, job.program, job.episode, lambda: self._benchmark.make(job.episode), job.trace
        )

    def _check_program(self, job: CheckJob) -> None:
        environment = sampled.SampledEnvironment(self._benchmark.spec.observation_space, job.seed)
        self._checks[job.job] = environment
        self._open(job.job, job.program, sampled.episode(job.seed), lambda: environment, None)

    def _open(
        self, job: int, program: Path, episode: Any, make: Callable[[], Any], trace: Path | None
    ) -> None:
        try:
            lane = Lane(self, self._play, self._fork_server_for(program), job, episode)
            lane.start(make, trace)
        except ExecutionError as error:
            self._say(EpisodeLost(job, str(error)))
            return
        except Exception as error:
            self._say(
                EpisodeLost(
                    job, f"{type(error).__name__}: {error}\n{traceback.format_exc()[-4_000:]}"
                )
            )
            return
        self._lanes.add(lane)
        self._watch(lane.process.wire.sock.fileno(), lane.on_wire)
        self._watch(lane.process.output.fd, lambda _event: self._on_output(lane))

    def _render(self, job: PictureJob) -> None:
        try:
            artifacts = list(self._benchmark.render(job.episode, job.trace, job.folder))
        except BaseException:
            traceback.print_exc()
            artifacts = []
        self._say(PicturesDone(job.job, artifacts))

    # --- fork servers -----------------------------------------------------------------------------

    def _fork_server_for(self, program: Path) -> ForkServerHandle:
        if self._fork_server is not None and program == self._program:
            return self._fork_server
        if self._fork_server is not None:
            self._drop_fork_server(self._fork_server)
        fork_server = self._new_fork_server(program)
        self._fork_server, self._program = fork_server, program
        self._watch(fork_server.control.fileno(), lambda _event: self._on_fork_server(fork_server))
        return fork_server

    def _new_fork_server(self, program: Path) -> ForkServerHandle:
        """Out of the zygote, or out of a new one in its place. Raises ExecutionError where they all
        end."""
        while True:
            if self._zygote is None:
                self._zygote = start_zygote(self._config, self._benchmark)
            try:
                return self._zygote.fork_server(program)
            except ZygoteLost:
                self._lost_zygotes += 1
                self._zygote.close()
                self._zygote = None
                if self._lost_zygotes >= _ZYGOTES:
                    raise

    def _on_fork_server(self, fork_server: ForkServerHandle) -> None:
        lanes = {
            lane.process.local_pid: lane
            for lane in self._lanes
            if lane.process.fork_server is fork_server
        }
        try:
            for ended in fork_server.messages():
                lane = lanes.get(ended.pid)
                if lane is not None:
                    lane.on_ended(ended)
            if fork_server.stale >= 0:
                self._forget(fork_server.stale)
                os.close(fork_server.stale)
                fork_server.stale = -1
            listener = fork_server.listener
            if listener >= 0 and listener not in self._handlers:
                self._watch(listener, lambda event: self._on_thread(listener, event))
        except EOFError:
            for lane in [lane for lane in self._lanes if lane.process.fork_server is fork_server]:
                lane.on_fork_server_lost()
            self._drop_fork_server(fork_server)

    def _on_thread(self, listener: int, event: int) -> None:
        """A Policy asks for a thread."""
        if not event & select.POLLIN:
            self._forget(listener)
            return
        asked = seccomp_notify.receive(listener)
        if asked is not None:
            seccomp_notify.answer(listener, asked, 0 if _has_room(asked.thread) else errno.EAGAIN)

    def _drop_fork_server(self, fork_server: ForkServerHandle) -> None:
        self._forget(fork_server.control.fileno())
        self._forget(fork_server.listener)
        fork_server.close()
        fork_server.clear()
        if fork_server is self._fork_server:
            self._fork_server = None

    # --- Lanes ------------------------------------------------------------------------------------

    def _watch(self, fd: int, handler: Callable[[int], None]) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, select.POLLIN)

    def _forget(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _on_output(self, lane: Lane) -> None:
        if not lane.on_output():
            self._forget(lane.process.output.fd)

    def writable(self, lane: Lane, wanted: bool) -> None:
        self._poll.modify(
            lane.process.wire.sock.fileno(), select.POLLIN | (select.POLLOUT if wanted else 0)
        )

    def forget(self, lane: Lane, *, wire_only: bool = False) -> None:
        self._forget(lane.process.wire.sock.fileno())
        if not wire_only:
            self._forget(lane.process.output.fd)

    def done(self, lane: Lane, result: EpisodeResult | None, lost: str) -> None:
        self._lanes.discard(lane)
        lane.process.wire.sock.close()
        if result is not None:
            self._lost_zygotes = 0
        environment = self._checks.pop(lane.job, None)
        if result is None:
            self._say(EpisodeLost(lane.job, lost))
        elif environment is not None:
            report = sampled.report(result, environment, lane.process.slowest, self._config.limits)
            self._say(CheckDone(lane.job, report))
        else:
            try:
                self._say(EpisodeDone(lane.job, result))
            except TooLarge as error:
                fault = Fault("environment", f"the Environment's measures are {error}")
                self._say(EpisodeDone(lane.job, EpisodeResult(result.index, None, fault)))


def _has_room(thread: int) -> bool:
    """Whether the process of `thread` may have one more; not where nobody can see how many it
    has."""
    try:
        return seccomp_notify.threads(thread) < sandbox.THREADS
    except OSError:
        return False


def largest_action(space: Space) -> int:
    """Bytes an encoded Action may have: room for any honest spelling of a member of `space`, and no
    more than that."""
    return (1 << 16) + 64 * _numbers_in(space)


def _numbers_in(space: Space) -> int:
    inner = getattr(space, "spaces", None)
    if inner is not None:
        return sum(
            _numbers_in(part) for part in (inner.values() if hasattr(inner, "values") else inner)
        )
    size = getattr(space, "max_length", 1)
    for length in getattr(space, "shape", ()):
        size *= length
    return int(size)


def start_zygote(config: WorkerConfig, benchmark: Benchmark) -> ZygoteHandle:
    """The zygote of this worker, told all that is public of the Benchmark. Raises
    ExecutionError."""
    spec = benchmark.spec
    zygote_config = ZygoteConfig(
        config.sandbox,
        config.policy_path,
        to_value(spec.observation_space),
        to_value(spec.action_space),
        dict(spec.parameters),
        spec.max_steps,
        largest_action(spec.action_space),
        bubblewrap.scratches(config.plan.slots) if config.plan.nested else (),
    )
    return ZygoteHandle(config.plan, zygote_config, config.packages)


def main(fd: int) -> None:
    """Be a worker on the socket `fd`."""
    link = Link(socket.socket(fileno=fd))
    config = next(iter(link.receive(wait=True)), None)
    while config is None and not link.closed:
        config = next(iter(link.receive(wait=True)), None)
    if not isinstance(config, WorkerConfig):
        return
    process.die_with_parent(config.parent)
    faulthandler.enable()
    core = cores.settle()
    sys.path[:] = config.path
    watch = shared_watch(mmap.mmap(int(os.environ.pop("EVOPOLICY_WATCH")), mmap.PAGESIZE))
    try:
        benchmark = config.reference.load()
        worker = Worker(link, config, benchmark, watch)
    except BaseException as error:
        link.send(
            WorkerBroken(
                f"{type(error).__name__}: {str(error)[:1000]}", traceback.format_exc()[-8000:]
            )
        )
        link.finish()
        return
    link.send(WorkerReady())
    worker.run()
    core.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
