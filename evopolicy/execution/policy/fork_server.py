"""The fork servers of one worker: a zygote with the allowed packages loaded forks a confined fork
server per Program, and a fork server forks one process per Episode.

The zygote is a fresh interpreter, never a fork of a worker: it knows no Environment and no hidden
seed. It imports nothing that a Program's text names: a fork server does, once it is confined, so
that no Program's imports are another's. A fork server is told of its Episodes nothing but two
descriptors."""

from __future__ import annotations

import _thread
import contextlib
import gc
import importlib
import importlib.util
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from evopolicy.execution.policy import child, compiled, scratch
from evopolicy.execution.sandbox import confine as sandbox
from evopolicy.execution.sandbox import process
from evopolicy.execution.wire import codec
from evopolicy.kernel.files.folders import remove
from evopolicy.kernel.spaces import from_value

# What almost every Policy imports; loaded once, before any Program is looked at.
_USUAL = (
    "abc bisect collections copy dataclasses enum functools heapq itertools json linecache math "
    "numpy numpy.linalg numpy.random operator os pathlib pickle random re string struct textwrap "
    "threading time traceback types typing warnings weakref"
)

FORK, RELEASE, STATUS, BROKEN, LISTENER = b"F", b"R", b"S", b"B", b"N"
# Why Episodes that were asked for have not begun: no scratch folder is free, no process is, or no
# longer.
WAITING, REFUSED, STARTED = b"W", b"P", b"w"
_MESSAGE = 1 << 16
_REAP_MS = 5
# What the imports that a Program's text names may take; those that take longer are left to its
# Episodes.
_LOADING_CPU_SECONDS, _LOADING_SECONDS = 20.0, 600.0
_LOADING_MS = 100


PRELOAD_BYTES = 8_192
"""Bytes of all names together: a request is one message."""


@dataclass(frozen=True)
class ZygoteConfig:
    """Written by the worker to a file, read once by its zygote."""

    sandbox: sandbox.SandboxConfig
    path: tuple[str, ...]
    """`sys.path` of Policies, the Program's folder left out."""
    observation_space: dict[str, object]
    action_space: dict[str, object]
    parameters: dict[str, object]
    max_steps: int
    largest_action: int
    scratches: tuple[str, ...] = ()
    """Mounts whose names it bounds before anything else; only there it has the capability to."""


@dataclass(frozen=True)
class ForkServerRequest:
    """Asks a zygote for a fork server; its end of a socket comes along."""

    program: str
    scratches: str
    """Folder for the slots that hold the scratch folders of its Episodes."""
    slots: int
    """How many of them are mounted there, for one fork server at a time; 0: they are made."""
    code: str
    """Folder for the compiled code of the Program."""
    preload: tuple[str, ...]
    """Modules of allowed packages that the Program's text names; at most PRELOAD_BYTES of them."""


@dataclass(frozen=True)
class Ended:
    """What a fork server says of a process it was asked for."""

    pid: int
    alive: bool
    code: int = 0
    """Exit code, or minus the signal."""
    peak_bytes: int = 0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Given:
    """What a zygote's fork servers are given by the fork."""

    task: child.Task
    decode: Callable[[memoryview], Any]
    zygote: int
    """Its process id."""


def main(fd: int, parent: int, config_path: str) -> NoReturn:
    """Be the zygote, on the socket `fd`, until it closes."""
    process.die_with_parent(parent)
    config = msgspec.msgpack.decode(Path(config_path).read_bytes(), type=ZygoteConfig)
    if config.scratches:
        sandbox.bound_scratches(config.scratches, config.sandbox.scratch_bytes)
    sys.path[:] = config.path
    for name in _USUAL.split():
        importlib.import_module(name)
    task = child.Task(
        from_value(config.observation_space),
        from_value(config.action_space),
        config.parameters,
        config.max_steps,
        config.largest_action,
    )
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    os.environ.pop("PWD", None)  # Set by bubblewrap; every level gives the same environment.
    sys.argv[:] = ["policy"]
    sys.orig_argv[:] = ["policy"]
    _serve(socket.socket(fileno=fd), config, task)


def _serve(control: socket.socket, config: ZygoteConfig, task: child.Task) -> NoReturn:
    given = Given(task, codec.observation_decoder(task.observation_space), os.getpid())
    gc.collect()
    gc.freeze()
    while True:
        message, fds, _, _ = socket.recv_fds(control, _MESSAGE, 1)
        if not message:
            # The fork servers see their own ends close; once they are gone nothing of an Episode is
            # left.
            with contextlib.suppress(ChildProcessError):
                while os.wait():
                    pass
            os._exit(0)
        request = msgspec.msgpack.decode(message, type=ForkServerRequest)
        with contextlib.suppress(ChildProcessError):
            # Fork servers that ended since the last request; mounted folders have one user at a
            # time.
            while os.waitpid(-1, 0 if request.slots else os.WNOHANG)[0]:
                pass
        try:
            _start(control, fds[0], config, given, request)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(fds[0], BROKEN + f"a fork server cannot be started: {error}".encode())
        os.close(fds[0])


def _start(
    control: socket.socket, fd: int, config: ZygoteConfig, given: Given, request: ForkServerRequest
) -> None:
    """Fork a fork server; where what it preloads ends it, starts threads or takes too long, one
    that preloads nothing.

    Such a module is the Program's own to find out about, if it ever imports it. Raises OSError.
    """
    if preload := tuple(name for name in request.preload if name not in sys.modules):
        reading, writing = os.pipe()
        pid = process.patient_fork()
        if pid == 0:
            os.close(reading)
            control.close()
            _run_fork_server(
                socket.socket(fileno=fd), config, given, replace(request, preload=preload), writing
            )
        os.close(writing)
        loaded = _loaded(pid, reading, control)
        os.close(reading)
        if loaded:
            return
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if process.patient_fork() == 0:
        control.close()
        _run_fork_server(socket.socket(fileno=fd), config, given, replace(request, preload=()), -1)


def _loaded(pid: int, reading: int, control: socket.socket) -> bool:
    """Whether the fork server `pid` has loaded what its Program names; its CPU time counts, not the
    machine's load."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    poll.register(control.fileno(), 0)  # Once the worker is gone nobody needs a fork server.
    clock, end = ~pid << 3 | 2, time.monotonic() + _LOADING_SECONDS
    while not (spoken := poll.poll(_LOADING_MS)):
        with contextlib.suppress(OSError):
            if time.clock_gettime(clock) > _LOADING_CPU_SECONDS:
                return False
        if time.monotonic() > end:
            return False
    return spoken[0][0] == reading and os.read(reading, 1) != b""


def _run_fork_server(
    control: socket.socket,
    config: ZygoteConfig,
    given: Given,
    request: ForkServerRequest,
    loaded: int,
) -> NoReturn:
    try:
        process.die_with_parent(given.zygote)
        _tell(control, WAITING)  # An Episode that is asked for meanwhile is not late.
        sys.dont_write_bytecode = True
        # Fills the import system's lists of the standard library's folders, which may not be listed
        # afterwards.
        importlib.util.find_spec("evopolicy_has_no_such_module")
        program, code = request.program, _fresh(request)
        pipes = scratch.pipes()
        confinement = sandbox.confine_fork_server(
            config.sandbox,
            (program, code),
            (request.scratches, code),
            lambda listener: _preload(control, listener, request.preload),
        )
        if request.preload:
            os.write(loaded, b"1")
            os.close(loaded)
        present = set(sys.modules) - set(sys.builtin_module_names)
        own = {entry.stem for entry in Path(program).iterdir()} - {
            "os",
            "sys",
            "numpy",
            "evopolicy",
        }
        compiled.compile_all(confinement, program, code)
        setup = child.EpisodeSetup(
            confinement, given.task, given.decode, program, tuple(sorted(own & present))
        )
        fork_server = ForkServer(
            control, setup, scratch.Slots(request.scratches, request.slots, pipes)
        )
        _tell(control, STARTED)
        fork_server.serve()
    except BaseException:
        with contextlib.suppress(OSError):
            _tell(
                control, BROKEN + traceback.format_exc(limit=-3)[-2000:].encode("utf-8", "replace")
            )
    os._exit(1)


def _preload(control: socket.socket, listener: int, names: Sequence[str]) -> None:
    """Import `names` in this process, which is confined and whose memory counts as the fork
    server's own."""
    if listener:
        # The worker's alone: no process in here may answer for itself. It answers the threads of
        # imports as well.
        socket.send_fds(control, [LISTENER], [listener])
        os.close(listener)
    for name in names:
        # A name that is no module (`from numpy import array`) or fails to load is the Program's own
        # to find out.
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    if _thread._count():
        os._exit(1)  # What one of them holds, the Episodes' processes would hold for ever.
    if names:
        gc.collect()
        gc.freeze()


def _fresh(request: ForkServerRequest) -> str:
    """Makes a fork server's folders; the one for code, empty."""
    code = Path(request.code)
    if code.exists():
        remove(code)  # Of the fork server before, or of one that what it preloaded has ended.
    Path(request.scratches).mkdir(exist_ok=True)
    code.mkdir(parents=True)
    return str(code)


def _tell(control: socket.socket, message: bytes) -> None:
    """Send by a plain write: the filter lets nobody in here call anything of sockets but what
    passes descriptors."""
    os.write(control.fileno(), message)


class ForkServer:
    """Forks Episodes' processes on request and keeps each, ended or not, until the worker lets it
    go."""

    def __init__(
        self, control: socket.socket, setup: child.EpisodeSetup, slots: scratch.Slots
    ) -> None:
        self._control = control
        self._setup = setup
        self._slots = slots
        self._slot_of: dict[int, int] = {}
        self._released: set[int] = set()
        self._waiting: deque[list[int]] = deque()
        """Wire and output of Episodes for which no scratch folder, or no process, is free yet."""
        self._announced = b""
        """What the worker knows of them."""
        self._pid = os.getpid()

    def serve(self) -> None:
        """Answer until the worker closes its end."""
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(self._slots.news, select.POLLIN)
        while True:
            # No handler for the ends of children: each of them would have to take it off again.
            ready = dict(poll.poll(_REAP_MS if self._released or self._waiting else None))
            if self._slots.news in ready:
                poll.unregister(self._slots.news)
                self._slots.reap()
                poll.register(self._slots.news, select.POLLIN)
            if self._control.fileno() in ready and not self._obey():
                self._end_all()
                return
            self._reap()
            self._fork_waiting()

    def _obey(self) -> bool:
        """Read one message; False once the worker is gone."""
        message, fds, _, _ = socket.recv_fds(self._control, 64, 2)
        pid = int.from_bytes(message[1:5], "little")
        if message[:1] == FORK:
            self._waiting.append(fds)
        elif pid not in self._slot_of:
            pass  # Asked for again before the worker read that it has ended.
        elif message[:1] == RELEASE:
            self._released.add(pid)
        else:
            _tell(self._control, STATUS + msgspec.msgpack.encode(self._status(pid)))
        return message != b""

    def _end_all(self) -> None:
        self._slots.end()
        for pid in self._slot_of:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.wait():
                pass

    def _fork_waiting(self) -> None:
        while self._waiting and (slot := self._slots.take()) is not None:
            try:
                self._fork(slot, *self._waiting[0])
            except (
                BlockingIOError
            ):  # Whoever has all the processes there may be is ended sooner or later.
                self._slots.untouched(slot)
                state = REFUSED
                break
            self._waiting.popleft()
        else:
            state = WAITING if self._waiting else b""
        if state != self._announced:
            self._announced = state
            _tell(self._control, state or STARTED)

    def _fork(self, slot: int, wire_fd: int, output_fd: int) -> None:
        """Raises BlockingIOError where the kernel refuses a new process."""
        domain = sandbox.own_domain(self._setup.confinement)
        try:
            pid = process.plain_fork()
            if pid == 0:
                child.run(
                    self._setup,
                    child.EpisodeResources(
                        self._slots.path(slot), domain, wire_fd, output_fd, self._pid
                    ),
                )
        finally:
            if domain is not None:
                domain.close()
        self._slot_of[pid] = slot
        os.close(wire_fd)
        os.close(output_fd)

    def _status(self, pid: int) -> Ended:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended == 0:
            return Ended(pid, alive=True)
        self._forget(pid)
        code, seconds = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
        return Ended(pid, False, code, usage.ru_maxrss * 1024, seconds)

    def _reap(self) -> None:
        # Only what was released: until then the number stays the Episode's, so that a late signal
        # hits nobody else.
        for pid in list(self._released):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._released.discard(pid)
                self._forget(pid)

    def _forget(self, pid: int) -> None:
        self._slots.give_back(self._slot_of.pop(pid))
