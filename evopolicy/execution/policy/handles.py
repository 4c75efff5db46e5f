"""The worker's end of its fork servers: one zygote, and one fork server per Program out of it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evopolicy.execution.policy.fork_server import (
    BROKEN,
    FORK,
    LISTENER,
    PRELOAD_BYTES,
    REFUSED,
    RELEASE,
    STARTED,
    STATUS,
    WAITING,
    Ended,
    ForkServerRequest,
    ZygoteConfig,
)
from evopolicy.execution.sandbox import bubblewrap, process
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.files.folders import remove

_START = (
    "import sys; sys.path[:] = sys.argv[4:]; from evopolicy.execution.policy.fork_server import "
    "main; main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])"
)
_SHOWN = "shown"
_SET_PIPE_ROOM, _PIPE_ROOM = 1031, 8192
_SCANNED_BYTES, _PRELOADED = 1 << 20, 32
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+\(?([\w \t,]*)|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)


@dataclass(frozen=True)
class ZygotePlan:
    """How an engine's zygotes are started. Settled once by the Host."""

    command: tuple[str, ...]
    """argv up to the interpreter's own options: the interpreter, or `bwrap` and all it needs before
    it."""
    path: tuple[str, ...]
    """`sys.path` while it loads: the Policies' own and the engine's."""
    held: str
    """The engine's temporary folder, as the Host sees it."""
    seen: str
    """The same folder as the zygote sees it."""
    nested: bool
    """Whether it runs in namespaces of its own, and sees nothing but `held`: Programs are copied
    there for it."""
    slots: int = 0
    """How many bounded scratch folders are mounted in it; 0: they are made in `held`."""


class ZygoteLost(ExecutionError):
    """A zygote's process ended, or answers nobody any more."""


_numbers = itertools.count(1)
"""No two fork servers of a worker have the same folders, whichever zygote they are of."""


class ZygoteHandle:
    """A running zygote. `close` ends it and its fork servers."""

    def __init__(self, plan: ZygotePlan, config: ZygoteConfig, packages: Sequence[str]) -> None:
        self._plan = plan
        self._packages = frozenset(packages)
        self._sweeper = ThreadPoolExecutor(1, thread_name_prefix="evopolicy-sweep")
        name = f"zygote-{os.getpid()}"
        (Path(plan.held) / name).write_bytes(msgspec.msgpack.encode(config))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = 0 if plan.nested else os.getpid()
        arguments = [str(theirs.fileno()), str(parent), f"{plan.seen}/{name}", *plan.path]
        self._programs = Path(plan.held) / f"programs-{os.getpid()}"
        command = plan.command
        if plan.nested:
            self._programs.mkdir(mode=0o700, exist_ok=True)
            command = bubblewrap.with_programs(command, self._programs)
        before = process.fix_addresses()
        try:
            self._process = subprocess.Popen(
                [*command, "-s", "-S", "-B", "-P", "-c", _START, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=_environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            hint = f"; {process.REFUSED}" if error.errno == errno.EAGAIN else ""
            raise ExecutionError(
                f"the sandbox's interpreter cannot be started: {error}{hint}"
            ) from error
        finally:
            process.restore_addresses(before)
            theirs.close()
        ours.setblocking(
            False
        )  # One that reads no more is as good as gone: it keeps no worker waiting.
        self._control = ours

    def fork_server(self, program: Path) -> ForkServerHandle:
        """A fork server for `program`. Raises ZygoteLost where the zygote is gone, ExecutionError
        for a full disk."""
        number = next(_numbers)
        preload = tuple(named_modules(program, self._packages))
        if self._plan.nested:
            self._show(program, number)
            made: list[Path] = []
            code, slots = f"{bubblewrap.CODE}/compiled", self._plan.slots
            request = ForkServerRequest(
                f"{bubblewrap.PROGRAM}/{_SHOWN}", bubblewrap.SCRATCH, slots, code, preload
            )
        else:
            name, held, seen = f"{os.getpid()}-{number}", Path(self._plan.held), self._plan.seen
            made = [held / f"scratch-{name}", held / f"code-{name}"]
            request = ForkServerRequest(
                str(program), f"{seen}/scratch-{name}", 0, f"{seen}/code-{name}", preload
            )
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(self._control, [msgspec.msgpack.encode(request)], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise ZygoteLost(f"the sandbox's interpreter ended: {error}") from error
        return ForkServerHandle(ours, made, self._sweeper)

    def _show(self, program: Path, number: int) -> None:
        """Put a copy of `program` where the next fork server looks for it, under the same name for
        every Program.

        What is there may still be seen by a fork server that is ending; it is moved away whole.
        """
        shown = self._programs / _SHOWN
        with contextlib.suppress(FileNotFoundError):
            before = shown.rename(self._programs / f"before-{number}")
            self._sweeper.submit(remove, before)
        _copied(program, self._programs / "next").rename(shown)

    def close(self) -> None:
        self._control.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def swept(self) -> None:
        """Wait until what Episodes left is removed."""
        self._sweeper.submit(remove, self._programs)
        self._sweeper.shutdown()


def _copied(program: Path, to: Path) -> Path:
    try:
        # Contents only: a stored Program's folders are read-only.
        for path in (program, *sorted(program.rglob("*"))):
            target = to / path.relative_to(program)
            if path.is_dir():
                target.mkdir()
            else:
                shutil.copyfile(path, target)
    except OSError as error:
        remove(to)
        raise ExecutionError(f"the Program cannot be copied for its sandbox: {error}") from error
    return to


def _environment() -> dict[str, str]:
    # Strings hash alike in every Episode of every Policy: an interpreter's hash seed is fixed when
    # it starts, long before an Episode's own seed is known.
    return {
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PATH": "/usr/bin:/bin",
        **process.ONE_THREAD,
    }


class ForkServerHandle:
    """A running fork server: forks an Episode's process when asked."""

    def __init__(self, control: socket.socket, made: Sequence[Path], sweeper: Executor) -> None:
        """`made`: folders that go with it."""
        control.setblocking(False)
        self.control = control
        self._made = made
        self._sweeper = sweeper
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        """Messages it had no room for yet, with their descriptors."""
        self._asked: set[int] = set()
        """Processes whose end was asked for and not told yet."""
        self.lost = ""
        """Why it ended, once it did."""
        self.waiting = False
        """Whether Episodes wait for scratch folders to be emptied, or for processes to end."""
        self.refused = ""
        """What to do about the latter."""
        self.listener = -1
        """Where its Episodes' new threads are asked for, once it is confined; closed with it."""
        self.stale = -1
        """The listener before, of a fork server that what it preloaded has ended: to be forgotten
        and closed."""

    def fork(self) -> tuple[socket.socket, int]:
        """Ask for a process; returns this end of its wire and of its output. Raises
        ExecutionError."""
        if self.lost:
            raise ExecutionError(f"the Program's fork server ended: {self.lost}")
        ours, theirs = socket.socketpair()
        output, its_output = os.pipe2(os.O_CLOEXEC)
        # A pipe's room depends on how many its user has; one of its own size tells nobody.
        fcntl.fcntl(its_output, _SET_PIPE_ROOM, _PIPE_ROOM)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._send(FORK, (theirs.detach(), its_output))
        return ours, output

    def release(self, pid: int) -> None:
        """The process `pid` (as the fork server numbers it) was killed and is of no more
        interest."""
        self._asked.discard(pid)
        self._send(RELEASE + pid.to_bytes(4, "little"))

    def ask(self, pid: int) -> bool:
        """Ask how `pid` ended; `messages` brings the answer. One question at a time: more would
        only wait there.

        Returns whether it was asked now.
        """
        if pid in self._asked:
            return False
        self._asked.add(pid)
        self._send(STATUS + pid.to_bytes(4, "little"))
        return True

    @property
    def blocked(self) -> bool:
        """Whether messages wait for it to read: call `flush` from time to time."""
        return bool(self._unsent)

    def _send(self, message: bytes, fds: tuple[int, ...] = ()) -> None:
        self._unsent.append((message, fds))
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as there is room. None of it is left out: a release keeps a
        scratch folder."""
        while self._unsent:
            message, fds = self._unsent[0]
            try:
                socket.send_fds(self.control, [message], fds)
            except BlockingIOError:
                return
            except OSError:
                pass  # It is gone: `messages` says so, and the Episodes' wires are closed below.
            self._unsent.popleft()
            for fd in fds:
                os.close(fd)

    def messages(self) -> Iterator[Ended]:
        """What arrived. Raises EOFError, `lost` set, when the fork server is gone or said that it
        ends."""
        while True:
            try:
                message, fds, _, _ = socket.recv_fds(self.control, 1 << 16, 1)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self.lost = self.lost or "its process ended"
                raise EOFError
            if message[:1] == STATUS:
                ended = msgspec.msgpack.decode(message[1:], type=Ended)
                self._asked.discard(ended.pid)
                yield ended
            elif message[:1] == LISTENER:
                self.listener, self.stale = fds[0], self.listener
            elif message[:1] in (WAITING, REFUSED, STARTED):
                self.waiting = message[:1] != STARTED
                self.refused = f": {process.REFUSED}" if message[:1] == REFUSED else ""
            elif message[:1] == BROKEN:
                # It ends once it has said so: until then nobody may ask it for another Episode.
                self.lost = message[1:].decode("utf-8", "replace")
                raise EOFError

    def close(self) -> None:
        """End it; its Episodes' processes end with it."""
        self.control.close()
        for fd in (self.listener, self.stale):
            if fd >= 0:
                os.close(fd)
        self.listener = self.stale = -1
        while self._unsent:
            for fd in self._unsent.popleft()[1]:
                os.close(fd)

    def clear(self) -> None:
        """Remove what its Episodes left, once it is gone."""
        for folder in self._made:
            self._sweeper.submit(remove, folder)


def kill(pid: int) -> None:
    """Kill an Episode's process that was not released yet."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def named_modules(program: Path, packages: frozenset[str]) -> Iterator[str]:
    """Modules of `packages` that the Program's text imports, as far as its text is plain; nothing
    of it is run.

    At most 32 of them, of PRELOAD_BYTES together: what a text names is as long as its author likes.
    """
    read = room = 0
    found: dict[str, None] = {}
    for path in sorted(program.rglob("*.py")):
        if not path.is_file():
            continue
        read += path.stat().st_size
        if read > _SCANNED_BYTES or len(found) > _PRELOADED:
            break
        for module in _imports(path.read_text("utf-8", "replace")):
            # A `__main__` is a program, not a module to import.
            if module.partition(".")[0] in packages and not module.endswith("__main__"):
                found[module] = None
    for module in list(found)[:_PRELOADED]:
        room += len(module.encode())
        if room > PRELOAD_BYTES:
            return
        yield module


def _imports(text: str) -> Iterator[str]:
    for match in _IMPORT.finditer(text):
        source, members, modules = match.groups()
        if source:
            yield source
            yield from (f"{source}.{name}" for name in re.findall(r"\w+", members)[:_PRELOADED])
        else:
            yield from (name.split()[0] for part in modules.split(",") if (name := part.strip()))


def plain_command() -> tuple[str, ...]:
    """argv of the interpreter itself, no virtual environment."""
    return (str(Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()),)
