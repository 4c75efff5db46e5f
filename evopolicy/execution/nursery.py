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
import secrets
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from evopolicy.execution import child, codec, process, sandbox
from evopolicy.kernel.spaces import from_value

# What almost every Policy imports; loaded once, before any Program is looked at.
_USUAL = (
    "abc bisect collections copy csv dataclasses enum functools heapq itertools json linecache math numpy numpy.linalg "
    "numpy.random operator os pathlib pickle random re statistics string struct tempfile textwrap threading time "
    "traceback types typing warnings weakref"
)

FORK, RELEASE, STATUS, LEFT, BROKEN = b"F", b"R", b"S", b"L", b"B"
_MESSAGE = 1 << 16


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
    sys.argv[:] = ["policy"]
    sys.orig_argv[:] = ["policy"]
    _serve(socket.socket(fileno=fd), config, task)


def _serve(control: socket.socket, config: NurseryConfig, task: child.Task) -> NoReturn:
    signal.signal(signal.SIGCHLD, _reap_all)
    here = os.getpid()
    while True:
        message, fds, _, _ = socket.recv_fds(control, _MESSAGE, 1)
        if not message:
            # The templates see their own ends close; once they are gone nothing of an Episode is left.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with contextlib.suppress(ChildProcessError):
                while os.wait():
                    pass
            os._exit(0)
        request = msgspec.msgpack.decode(message, type=TemplateRequest)
        for name in request.preload:
            # A name that is no module (`from numpy import array`) or fails to load is the Program's own to find out.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.collect()
        gc.freeze()
        if process.plain_fork() == 0:
            control.close()
            _template(socket.socket(fileno=fds[0]), config, task, request, here)
        os.close(fds[0])


def _reap_all(_signal: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _template(
    control: socket.socket, config: NurseryConfig, task: child.Task, request: TemplateRequest, parent: int
) -> NoReturn:
    try:
        process.die_with_parent(parent)
        sys.dont_write_bytecode = True
        # Fills the import system's lists of the standard library's folders, which may not be listed afterwards.
        importlib.util.find_spec("evopolicy_has_no_such_module")
        Path(request.scratches).mkdir(parents=True, exist_ok=True)
        loaded = set(sys.modules) - set(sys.builtin_module_names)
        own = {entry.stem for entry in Path(request.program).iterdir()} - {"os", "sys", "numpy", "evopolicy"}
        laid = sandbox.lay_template(config.sandbox, request.program, request.scratches)
        decode = codec.observation_decoder(task.observation_space)
        shadowed = tuple(sorted(own & loaded))
        stage = child.Stage(config.sandbox, laid, task, decode, request.program, shadowed)
        Template(control, stage, request.scratches).serve()
    except BaseException:
        with contextlib.suppress(OSError):
            _tell(control, BROKEN + traceback.format_exc(limit=-3)[-2000:].encode())
    os._exit(1)


def _tell(control: socket.socket, message: bytes) -> None:
    """Send by a plain write: the filter lets nobody in here call anything of sockets but what passes descriptors."""
    os.write(control.fileno(), message)


class Template:
    """Forks Episodes' processes on request and keeps each, ended or not, until the worker lets it go."""

    def __init__(self, control: socket.socket, stage: child.Stage, scratches: str) -> None:
        self._control = control
        self._stage = stage
        self._scratches = scratches
        self._scratch_of: dict[int, str] = {}
        self._released: set[int] = set()
        self._pid = os.getpid()

    def serve(self) -> None:
        """Answer until the worker closes its end."""
        signal.signal(signal.SIGCHLD, lambda *_: self._reap())
        while True:
            message, fds, _, _ = socket.recv_fds(self._control, 64, 2)
            if not message:
                self._end_all()
                return
            if message[:1] == FORK:
                self._fork(*fds)
                continue
            pid = int.from_bytes(message[1:5], "little")
            if message[:1] == RELEASE:
                self._released.add(pid)
                self._reap()
            else:
                _tell(self._control, STATUS + msgspec.msgpack.encode(self._status(pid)))

    def _end_all(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in self._scratch_of:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.wait():
                pass

    def _fork(self, wire_fd: int, output_fd: int) -> None:
        scratch = f"{self._scratches}/{secrets.token_hex(8)}"
        os.mkdir(scratch, 0o700)  # noqa: PTH102 (once per Episode: no Path object)
        pid = process.plain_fork()
        if pid == 0:
            child.live(self._stage, scratch, wire_fd, output_fd, self._pid)
        self._scratch_of[pid] = scratch
        os.close(wire_fd)
        os.close(output_fd)

    def _status(self, pid: int) -> Ended:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended == 0:
            return Ended(pid, alive=True)
        self._forget(pid)
        return Ended(pid, False, os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)

    def _reap(self) -> None:
        # Only what was released: until then the number stays the Episode's, so that a late signal hits nobody else.
        # The signal's handler may come between any two lines of this.
        for pid in list(self._released):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                ended = True
            if ended:
                self._released.discard(pid)
                self._forget(pid)

    def _forget(self, pid: int) -> None:
        scratch = self._scratch_of.pop(pid, None)
        if scratch is None:
            return
        try:
            os.rmdir(scratch)  # noqa: PTH106 (once per Episode: no Path object)
        except OSError:
            # Not empty: the worker removes it, who may also change the modes of what lies in it.
            _tell(self._control, LEFT + scratch.rpartition("/")[2].encode())
