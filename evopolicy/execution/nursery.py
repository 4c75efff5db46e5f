"""The fork servers of one worker: a nursery with the allowed packages loaded forks a confined template per Program,
and a template forks one process per Episode.

The nursery is a fresh interpreter, never a fork of a worker: it knows no Environment and no hidden seed. A template
is told of its Episodes nothing but two descriptors.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import select
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from evopolicy.execution import child, codec, compiled, process, sandbox
from evopolicy.execution.folders import remove
from evopolicy.execution.scratch import BoundedSlots, MadeFolders, Scratches
from evopolicy.kernel.spaces import from_value

# What almost every Policy imports; loaded once, before any Program is looked at.
_USUAL = (
    "abc bisect collections copy dataclasses enum functools heapq itertools json linecache math numpy numpy.linalg "
    "numpy.random operator os pathlib pickle random re string struct textwrap threading time "
    "traceback types typing warnings weakref"
)

FORK, RELEASE, STATUS, LEFT, BROKEN, WAITING = b"F", b"R", b"S", b"L", b"B", b"W"
_MESSAGE = 1 << 16
_REAP_MS = 5


@dataclass(frozen=True)
class NurseryConfig:
    """Written by the worker to a file, read once by its nursery."""

    sandbox: sandbox.SandboxConfig
    path: tuple[str, ...]
    """`sys.path` of Policies, the Program's folder left out."""
    observation_space: dict[str, object]
    action_space: dict[str, object]
    parameters: dict[str, object]
    max_steps: int
    largest_action: int


@dataclass(frozen=True)
class TemplateRequest:
    """Asks a nursery for a template; its end of a socket comes along."""

    program: str
    scratches: str
    """Folder for the scratch folders of its Episodes."""
    slots: int
    """How many of them are mounted there, for one template at a time; 0: they are made."""
    code: str
    """Folder for the compiled code of the Program."""
    preload: tuple[str, ...]
    """Modules of allowed packages that the Program's text names."""


@dataclass(frozen=True)
class Ended:
    """What a template says of a process it was asked for."""

    pid: int
    alive: bool
    code: int = 0
    """Exit code, or minus the signal."""
    peak_bytes: int = 0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Given:
    """What a nursery's templates are given by the fork."""

    task: child.Task
    decode: Callable[[memoryview], Any]


def main(fd: int, parent: int, config_path: str) -> NoReturn:
    """Be the nursery, on the socket `fd`, until it closes."""
    process.die_with_parent(parent)
    config = msgspec.msgpack.decode(Path(config_path).read_bytes(), type=NurseryConfig)
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


def _serve(control: socket.socket, config: NurseryConfig, task: child.Task) -> NoReturn:
    here = os.getpid()
    decode = codec.observation_decoder(task.observation_space)
    while True:
        message, fds, _, _ = socket.recv_fds(control, _MESSAGE, 1)
        if not message:
            # The templates see their own ends close; once they are gone nothing of an Episode is left.
            with contextlib.suppress(ChildProcessError):
                while os.wait():
                    pass
            os._exit(0)
        request = msgspec.msgpack.decode(message, type=TemplateRequest)
        with contextlib.suppress(ChildProcessError):
            # Templates that ended since the last request; mounted folders have one user at a time.
            while os.waitpid(-1, 0 if request.slots else os.WNOHANG)[0]:
                pass
        for name in request.preload:
            # A name that is no module (`from numpy import array`) or fails to load is the Program's own to find out.
            with contextlib.suppress(BaseException):
                importlib.import_module(name)
        gc.collect()
        gc.freeze()
        if process.plain_fork() == 0:
            control.close()
            _template(socket.socket(fileno=fds[0]), config, Given(task, decode), request, here)
        os.close(fds[0])


def _template(
    control: socket.socket, config: NurseryConfig, given: Given, request: TemplateRequest, parent: int
) -> NoReturn:
    try:
        process.die_with_parent(parent)
        sys.dont_write_bytecode = True
        # Fills the import system's lists of the standard library's folders, which may not be listed afterwards.
        importlib.util.find_spec("evopolicy_has_no_such_module")
        program, code = request.program, _fresh(request)
        loaded = set(sys.modules) - set(sys.builtin_module_names)
        own = {entry.stem for entry in Path(program).iterdir()} - {"os", "sys", "numpy", "evopolicy"}
        laid = sandbox.lay_template(config.sandbox, (program, code), (request.scratches, code))
        compiled.compile_all(laid, program, code)
        shadowed = tuple(sorted(own & loaded))
        stage = child.Stage(laid, given.task, given.decode, program, shadowed)
        Template(control, stage, request).serve()
    except BaseException:
        with contextlib.suppress(OSError):
            _tell(control, BROKEN + traceback.format_exc(limit=-3)[-2000:].encode())
    os._exit(1)


def _fresh(request: TemplateRequest) -> str:
    """Makes a template's folders; the one for code, empty."""
    code = Path(request.code)
    if request.slots:
        remove(code)  # Of the template before.
    Path(request.scratches).mkdir(exist_ok=True)
    code.mkdir(parents=True)
    return str(code)


def _tell(control: socket.socket, message: bytes) -> None:
    """Send by a plain write: the filter lets nobody in here call anything of sockets but what passes descriptors."""
    os.write(control.fileno(), message)


class Template:
    """Forks Episodes' processes on request and keeps each, ended or not, until the worker lets it go."""

    def __init__(self, control: socket.socket, stage: child.Stage, request: TemplateRequest) -> None:
        self._control = control
        self._stage = stage
        self._scratches: Scratches
        if request.slots:
            self._scratches = BoundedSlots(request.scratches, request.slots)
        else:
            self._scratches = MadeFolders(request.scratches, lambda name: _tell(control, LEFT + name.encode()))
        self._scratch_of: dict[int, str] = {}
        self._released: set[int] = set()
        self._waiting: deque[list[int]] = deque()
        """Wire and output of Episodes for which no scratch folder is free yet."""
        self._told = False
        """Whether the worker knows of some."""
        self._pid = os.getpid()

    def serve(self) -> None:
        """Answer until the worker closes its end."""
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        while True:
            # No handler for the ends of children: each of them would have to take it off again.
            waits = self._released or self._waiting or self._scratches.busy
            if not poll.poll(_REAP_MS if waits else None):
                self._reap()
                self._fork_waiting()
                continue
            message, fds, _, _ = socket.recv_fds(self._control, 64, 2)
            if not message:
                self._end_all()
                return
            if message[:1] == FORK:
                self._waiting.append(fds)
                self._reap()
                self._fork_waiting()
                continue
            pid = int.from_bytes(message[1:5], "little")
            if pid not in self._scratch_of:
                continue  # Asked for again before the worker read that it has ended.
            if message[:1] == RELEASE:
                self._released.add(pid)
            else:
                _tell(self._control, STATUS + msgspec.msgpack.encode(self._status(pid)))

    def _end_all(self) -> None:
        self._scratches.end()
        for pid in self._scratch_of:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.wait():
                pass

    def _fork_waiting(self) -> None:
        while self._waiting and (scratch := self._scratches.take()) is not None:
            self._fork(scratch, *self._waiting.popleft())
        if bool(self._waiting) != self._told:
            self._told = bool(self._waiting)
            _tell(self._control, WAITING + bytes([self._told]))

    def _fork(self, scratch: str, wire_fd: int, output_fd: int) -> None:
        domain = sandbox.own_domain(self._stage.laid, scratch)
        pid = process.plain_fork()
        if pid == 0:
            child.live(self._stage, child.Birth(scratch, domain, wire_fd, output_fd, self._pid))
        self._scratch_of[pid] = scratch
        if domain is not None:
            domain.close()
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
        # Only what was released: until then the number stays the Episode's, so that a late signal hits nobody else.
        for pid in list(self._released):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._released.discard(pid)
                self._forget(pid)
        self._scratches.reap()

    def _forget(self, pid: int) -> None:
        scratch = self._scratch_of.pop(pid, None)
        if scratch is not None:
            self._scratches.give_back(scratch)
