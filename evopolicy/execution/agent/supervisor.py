"""The process between the Host and an agent: confines it, keeps its output, ends everything it
started.

Runs as `python -m evopolicy.execution.agent.supervisor PLAN`. It adopts whatever the agent leaves
behind, so that a child that left its process group, or its session, is found and ended too. It is
two processes: the one the Host knows keeps the other, which supervises; whichever is killed, the
one that is left ends everything. It imports no numbers and no domain: it starts fast."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evopolicy.execution.agent import home as agent_home
from evopolicy.execution.agent.output import Stream, Times
from evopolicy.execution.sandbox import landlock, process, seccomp, seccomp_notify
from evopolicy.execution.sandbox.descendants import descendants, kill_descendants
from evopolicy.kernel.secrecy.logins import Logins
from evopolicy.kernel.secrecy.secrets import Masker

POLITE = ((signal.SIGINT, 3.0), (signal.SIGTERM, 2.0))
"""What an agent is sent before it is killed, and the seconds it has after each."""
KEPT_SECONDS = 12.0
"""From the wish to stop until the process that supervises is taken for dead, stopped or stuck."""
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
    sandbox: list[str]
    """argv of `bwrap`, which then knows the next three by itself; empty at other levels."""
    filters: list[str]
    """For it to install, in hexadecimal: it is started with them open at 4, 5, ... and with 3 to
    report through."""
    counted: str
    """Where the level is `landlock`: the filter that asks for each process, and the one for where
    that is refused."""
    uncounted: str
    processes: int
    """At once, threads included."""
    signals: int
    """Queued at once."""
    argv: list[str]
    environment: dict[str, str]
    folder: str
    """Working folder."""
    stdin: str
    logs: str
    """Folder for `stdout.log`, `stdout.times` and `stderr.log`."""
    output_bytes: int
    """Kept of each stream: its head, and the last 4 MiB."""
    secrets: list[str]
    """Values that are masked in both."""
    known: list[str]
    """Of logins: texts that are masked as well, and"""
    watched: list[tuple[str, str]]
    """their files, folder and name: what is written to them later is masked too."""
    started: float
    """`time.monotonic()` that `stdout.times` counts from."""
    home: str
    logins: list[str]
    """Files below `home` to be removed at the end."""


def main(path: str) -> int:
    """Supervise the agent of the plan at `path`: print `started`, then its exit code once nothing
    of it is left.

    A negative code is a signal. Without `started` the sandbox could not be made, and the reason is
    on its error stream."""
    plan = AgentPlan(**json.loads(Path(path).read_bytes()))
    Path(path).unlink()  # it holds secrets
    # Whoever goes on for a killed Host waits for this lock. Both processes here hold it, the agent
    # never does.
    locked(os.open(plan.logs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    process.signal_with_parent(plan.host, signal.SIGTERM)
    process.adopt_orphans()
    stopping: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.append(1))
    keeper = os.getpid()
    supervising = os.fork()
    wake = _wakes()
    if supervising:
        _keep(supervising, wake, stopping)
        return 0
    process.signal_with_parent(keeper, signal.SIGTERM)
    process.adopt_orphans()
    pid, streams, report = _start(plan)
    code = _supervise(pid, streams, report, wake, stopping)
    agent_home.take_back(Path(plan.home), plan.logins)
    print(code, flush=True)
    return 0


def locked(folder: int) -> bool:
    """Have the descriptor `folder` hold the lock of its folder; whether it does."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system that knows no locks
    return True


def _wakes() -> int:
    """A descriptor that can be read once this process gets a signal."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _keep(supervising: int, wake: int, stopping: list[int]) -> None:
    """Wait for the process that supervises, passing a wish to stop on; once it is gone, end
    whatever it left."""
    until = 0.0
    ended = False
    while True:
        select.select([wake], [], [], 0.2)
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 512)
        code, alone = _reap(supervising)
        ended = ended or code is not None
        if alone:
            return
        now = time.monotonic()
        if stopping and not until:
            until = now + KEPT_SECONDS
            if not ended:
                os.kill(supervising, signal.SIGTERM)
        if ended or (until and now >= until):
            kill_descendants()


def _logins(plan: AgentPlan) -> Logins:
    logins = Logins()
    logins.tell(plan.known)
    for folder, name in plan.watched:
        logins.watch(Path(folder), name)
    return logins


def _start(plan: AgentPlan) -> tuple[int, list[Stream], _Report]:
    """Fork the agent; returns its pid, its output streams and what its sandbox reports through."""
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    stdin = os.open(plan.stdin, os.O_RDONLY | os.O_CLOEXEC)
    (out, _), (err, _), _ = pipes
    logs, mask = Path(plan.logs), Masker(tuple(plan.secrets), _logins(plan))
    # They are there before the agent is: an attempt that left none never began.
    streams = [
        Stream(
            out,
            logs / "stdout.log",
            plan.output_bytes,
            mask,
            Times(logs / "stdout.times", plan.started),
        ),
        Stream(err, logs / "stderr.log", plan.output_bytes, mask),
    ]
    supervisor = os.getpid()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _become(plan, supervisor, (stdin, pipes[0][1], pipes[1][1], pipes[2][1]), theirs)
    os.close(stdin)
    theirs.close()
    with ours:
        if plan.counted and (listener := seccomp_notify.handed(ours)) >= 0:
            seccomp_notify.Listener(
                listener, plan.processes, lambda: seccomp_notify.tasks(_agents(pid))
            ).start()
    if plan.counted:
        seccomp_notify.TaskLimit(
            plan.processes, lambda: _agents(pid) if _all_tasks() > plan.processes else ()
        ).start()
    for reader, writer in pipes:
        os.close(writer)
        os.set_blocking(reader, False)
    return pid, streams, _Report(pipes[2][0], sandboxed=bool(plan.sandbox))


def _agents(root: int) -> list[int]:
    """The processes of the agent `root`, it first: all that is below this process, which adopts
    what is left behind."""
    return [root, *sorted(set(descendants(os.getpid())) - {root})]


def _all_tasks() -> int:
    """Processes and threads of the whole machine: to look at each of them takes a while."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


def _become(
    plan: AgentPlan, supervisor: int, fds: tuple[int, ...], handover: socket.socket
) -> None:
    """In the forked child: confine it and execute the agent. Never returns. `fds` become
    descriptors 0, 1 and 2."""
    try:
        os.setsid()
        process.die_with_parent(supervisor)
        signal.set_wakeup_fd(-1)
        # The last two are ignored by every Python: an agent's shell could not take them back.
        for number in (
            signal.SIGTERM,
            signal.SIGINT,
            signal.SIGCHLD,
            signal.SIGPIPE,
            signal.SIGXFSZ,
        ):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if plan.sandbox:
            opened = [*fds, *(_in_memory(bytes.fromhex(code)) for code in plan.filters)]
            _place(opened, range(len(opened)))
            os.chdir("/")
            os.execve(plan.sandbox[0], plan.sandbox, {"PATH": "/usr/bin:/bin"})
        _place(fds[:3], [0, 1, 2])
        os.chdir(plan.folder)
        if plan.level != "none":
            process.give_up_privileges()
        if plan.landlock_abi:
            landlock.restrict(plan.landlock_abi, plan.rules)
        if plan.level != "none":
            process.limit(resource.RLIMIT_SIGPENDING, plan.signals)
            seccomp.install(seccomp.agent_filter(False))
            with handover:
                seccomp_notify.install_and_hand_on(
                    bytes.fromhex(plan.counted), bytes.fromhex(plan.uncounted), handover
                )
        os.execvpe(plan.argv[0], plan.argv, plan.environment)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"the agent cannot be started: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _in_memory(data: bytes) -> int:
    """A descriptor to read `data` from."""
    fd = os.memfd_create("filter")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _place(fds: Sequence[int], targets: Sequence[int]) -> None:
    """Make each of `fds` the target of the same place, whatever numbers they have now."""
    free = max(targets) + 1
    for fd, target in zip(
        [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, free) for fd in fds], targets, strict=True
    ):
        os.dup2(fd, target)


def _supervise(
    pid: int, streams: list[Stream], report: _Report, wake: int, stopping: list[int]
) -> int:
    """Pump output until the agent has ended, or was told to, and everything it started is gone.
    Returns its code."""
    code: int | None = None
    ending = _Ending(pid, report.sandboxed)
    sources: list[Stream | _Report] = [*streams, report]
    # By poll: the watches of epoll are bounded for all processes of a user, the agent's among them.
    with selectors.PollSelector() as selector:
        selector.register(wake, selectors.EVENT_READ)
        for source in sources:
            selector.register(source.fd, selectors.EVENT_READ, source)
        while True:
            for key, _ in selector.select(0.2):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 512)
                elif not key.data.pump():
                    selector.unregister(key.fd)
            for stream in streams:
                stream.look()
            ended, alone = _reap(pid)
            code = ended if ended is not None else code
            if code is not None or stopping:
                if alone:
                    break
                ending.step(agent_left=code is not None)
    for source in sources:
        source.close()
    if report.code is not None:
        return report.code
    return code if code is not None else -signal.SIGKILL


def _reap(pid: int) -> tuple[int | None, bool]:
    """Collect whatever has ended. Returns the agent's code where it was among it, and whether no
    child is left."""
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
    """The way to the end: asked politely, then killed. What an agent that left has left behind is
    killed at once."""

    def __init__(self, pid: int, sandboxed: bool) -> None:
        self._pid = pid
        self._sandboxed = sandboxed
        self._sent = 0
        self._until = 0.0

    def step(self, *, agent_left: bool) -> None:
        now = time.monotonic()
        if agent_left or (self._sent == len(POLITE) and now >= self._until):
            kill_descendants()
        elif now >= self._until:
            number, seconds = POLITE[self._sent]
            with contextlib.suppress(ProcessLookupError):
                self._ask(number)
            self._sent += 1
            self._until = now + seconds

    def _ask(self, number: int) -> None:
        if not self._sandboxed:
            os.killpg(self._pid, number)
            return
        # Only the sandbox's first process can be reached from here by its parent: it passes the
        # signal on.
        for first in descendants(self._pid)[:1]:
            os.kill(first, number)


class _Report:
    """What the first process of a sandbox says: that it has started, and the agent's wait
    status."""

    _READY = b"ready\n"

    def __init__(self, fd: int, *, sandboxed: bool) -> None:
        self.fd = fd
        self.sandboxed = sandboxed
        self._said = b""
        if not sandboxed:
            print("started", flush=True)

    @property
    def code(self) -> int | None:
        """The agent's exit code, where it was told."""
        status = self._said[len(self._READY) :]
        return (
            os.waitstatus_to_exitcode(struct.unpack("<i", status)[0]) if len(status) == 4 else None
        )

    def pump(self) -> bool:
        """Take what has come. False at its end."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        began = self._said.startswith(self._READY)
        self._said += data
        if not began and self._said.startswith(self._READY):
            print("started", flush=True)
        return bool(data)

    def close(self) -> None:
        while self.pump() and self.code is None:
            time.sleep(0.001)
        os.close(self.fd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
