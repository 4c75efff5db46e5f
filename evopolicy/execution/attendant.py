"""The process between the Host and an agent: confines it, keeps its output, ends everything it started.

Runs as `python -m evopolicy.execution.attendant PLAN`. It adopts whatever the agent leaves behind, so that a child that
left its process group, or its session, is found and ended too. It imports no numbers and no domain: it starts fast.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicy.execution import landlock, process, seccomp

POLITE = ((signal.SIGINT, 3.0), (signal.SIGTERM, 2.0))
"""What an agent is sent before it is killed, and the seconds it has after each."""
TAIL_BYTES = 4 << 20
_CHUNK = 1 << 16


@dataclass(frozen=True)
class AgentPlan:
    """What the Host settled. Paths are real."""

    host: int
    """Process id of the Host: this process ends the agent when it is gone."""
    level: str
    landlock_abi: int
    rules: list[tuple[str, int]]
    """Path and Landlock rights."""
    network: bool
    argv: list[str]
    environment: dict[str, str]
    folder: str
    """Working folder."""
    stdin: str
    stdout: str
    stderr: str
    output_bytes: int
    """Kept of each stream: its head, and the last 4 MiB."""


def main(path: str) -> int:
    """Attend the agent of the plan at `path`; print its exit code (negative: the signal) once nothing of it is left."""
    plan = AgentPlan(**json.loads(Path(path).read_bytes()))
    process.signal_with_parent(plan.host, signal.SIGTERM)
    process.adopt_orphans()
    stopping: list[int] = []
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.append(1))
    pid, streams = _start(plan)
    code = _attend(pid, streams, wake_read, stopping)
    print(code, flush=True)
    return 0


def _start(plan: AgentPlan) -> tuple[int, list[_Stream]]:
    """Fork the agent; returns its pid and its output streams."""
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
    stdin = os.open(plan.stdin, os.O_RDONLY | os.O_CLOEXEC)
    attendant = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(plan, attendant, stdin, pipes[0][1], pipes[1][1])
    os.close(stdin)
    streams = []
    for (reader, writer), name in zip(pipes, (plan.stdout, plan.stderr), strict=True):
        os.close(writer)
        os.set_blocking(reader, False)
        streams.append(_Stream(reader, name, plan.output_bytes))
    return pid, streams


def _become(plan: AgentPlan, attendant: int, stdin: int, stdout: int, stderr: int) -> None:
    """In the forked child: confine it and execute the agent. Never returns."""
    try:
        os.setsid()
        process.die_with_parent(attendant)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for fd, target in ((stdin, 0), (stdout, 1), (stderr, 2)):
            os.dup2(fd, target)
        os.chdir(plan.folder)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if plan.level != "none":
            process.give_up_privileges()
        if plan.landlock_abi:
            landlock.restrict(plan.landlock_abi, plan.rules, network=plan.network)
        if plan.level != "none":
            seccomp.lay(seccomp.agent_filter(plan.network))
        os.execvpe(plan.argv[0], plan.argv, plan.environment)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"the agent cannot be started: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _attend(pid: int, streams: list[_Stream], wake: int, stopping: list[int]) -> int:
    """Pump output until the agent has ended, or was told to, and everything it started is gone. Returns its code."""
    code: int | None = None
    ending = _Ending(pid)
    with selectors.DefaultSelector() as selector:
        selector.register(wake, selectors.EVENT_READ)
        for stream in streams:
            selector.register(stream.fd, selectors.EVENT_READ, stream)
        while True:
            for key, _ in selector.select(0.2):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 512)
                elif not key.data.pump():
                    selector.unregister(key.fd)
            ended, alone = _reap(pid)
            code = ended if ended is not None else code
            if code is not None or stopping:
                if alone:
                    break
                ending.step(agent_left=code is not None)
    for stream in streams:
        stream.close()
    return code if code is not None else -signal.SIGKILL


def _reap(pid: int) -> tuple[int | None, bool]:
    """Collect whatever has ended. Returns the agent's code where it was among it, and whether no child is left."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, True
        if ended == 0:
            return code, False
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)


class _Ending:
    """The way to the end: asked politely, then killed. What an agent that left has left behind is killed at once."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._sent = 0
        self._until = 0.0

    def step(self, *, agent_left: bool) -> None:
        now = time.monotonic()
        if agent_left or (self._sent == len(POLITE) and now >= self._until):
            for descendant in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(descendant, signal.SIGKILL)
        elif now >= self._until:
            number, seconds = POLITE[self._sent]
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, number)
            self._sent += 1
            self._until = now + seconds


def descendants(root: int) -> list[int]:
    """Every process below `root`, parents before children."""
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found[1:]


def _processes() -> Iterator[tuple[int, int]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name, in parentheses, may hold anything: the parent's id is the second word after the last one.
                fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
                yield int(entry.name), int(fields[1])


class _Stream:
    """One stream of output going to a file: its head as it comes, its tail at the end, the middle counted."""

    def __init__(self, fd: int, path: str, limit: int) -> None:
        self.fd = fd
        self._file = Path(path).open("wb", buffering=0)  # noqa: SIM115 (closed by `close`)
        self._left = limit
        self._tail: deque[bytes] = deque()
        self._held = 0
        self._dropped = 0

    def pump(self) -> bool:
        """Take what has come. False at the stream's end."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        self._keep(data)
        return True

    def _keep(self, data: bytes) -> None:
        head, rest = data[: self._left], data[self._left :]
        if head:
            self._file.write(head)
            self._left -= len(head)
        if rest:
            # The file does not grow any more, its time does: someone is still talking.
            os.utime(self._file.fileno())
            self._tail.append(rest)
            self._held += len(rest)
            while self._held - len(self._tail[0]) >= TAIL_BYTES:
                gone = len(self._tail.popleft())
                self._held -= gone
                self._dropped += gone

    def close(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.fd, _CHUNK):
                self._keep(data)
        if self._dropped:
            self._file.write(f"\n... {self._dropped} bytes left out ...\n".encode())
        for data in self._tail:
            self._file.write(data)
        self._file.close()
        os.close(self.fd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
