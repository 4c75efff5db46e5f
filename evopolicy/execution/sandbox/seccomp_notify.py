"""The kernel asks before it lets a call happen (seccomp's user notification): how to be asked, and
how to answer.

A filter answers for each call by its arguments; what it cannot know, how many processes there are,
or when a wait has to end, its listener does. One file, standard library only: `agent/init.py` has
it beside itself in an agent's sandbox."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import heapq
import os
import platform
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_SET_MODE_FILTER, _SPEC_ALLOW, _NEW_LISTENER = 1, 4, 8
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_ASKED = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_GO_ON = 1

_COMMAND, _WAIT, _CLOCK_REALTIME = 0x7F, 0, 256
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.016
"""Seconds: how soon who waits on a shared futex looks again, at first and after a while."""
_REMEMBERED = 1024
_LOOK = 0.05
"""Seconds between two counts of an agent's processes."""

_LIBC = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def install(code: bytes, *, listening: bool = False) -> int:
    """Install the filter `code` on this thread for ever; returns its listener, or 0. Raises
    OSError.

    It must have given up new privileges. EBUSY: what this process runs in is listened to already.
    """
    held = ctypes.create_string_buffer(code, len(code))
    program = ctypes.byref(_Program(len(code) // 8, ctypes.addressof(held)))
    wanted = _NEW_LISTENER if listening else 0
    # Without SPEC_ALLOW older kernels slow every process with a filter down; the very oldest do not
    # know the flag.
    for flags in (_SPEC_ALLOW, 0):
        found = int(
            _LIBC.syscall(_SECCOMP[platform.machine()], _SET_MODE_FILTER, flags | wanted, program)
        )
        if found >= 0:
            return found
    error = ctypes.get_errno()
    raise OSError(error, f"seccomp refused a filter: {errno.errorcode.get(error, error)}")


@dataclass(frozen=True)
class Asked:
    """A thread that waits in a call until it is answered."""

    id: int
    thread: int
    """Its number, as the process that asks sees it; 0 where it cannot be seen."""
    call: int
    arguments: tuple[int, ...]


def receive(listener: int) -> Asked | None:
    """What waits at `listener`, which has to be readable; None where it has been given up
    meanwhile."""
    room = bytearray(_ASKED.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, room)
    except OSError:
        return None
    identity, thread, _, call, _, _, *arguments = _ASKED.unpack(room)
    return Asked(identity, thread, call, tuple(arguments))


def answer(listener: int, asked: Asked, error: int = 0) -> None:
    """Let the call go on, or fail by `error`."""
    reply = _ANSWER.pack(asked.id, 0, -error, 0 if error else _GO_ON)
    with contextlib.suppress(OSError):  # the thread has given the call up
        fcntl.ioctl(listener, _SEND, reply)


def threads(number: int) -> int:
    """How many threads the process of the thread `number` has. Raises OSError where it is gone, or
    cannot be seen."""
    return os.stat(f"/proc/{number}/task").st_nlink - 2  # noqa: PTH116 (once per new thread)


def tasks(processes: Iterable[int]) -> int:
    """How many threads `processes` have together; one that is gone has none."""
    total = 0
    for number in processes:
        with contextlib.suppress(OSError):
            total += threads(number)
    return total


def install_and_hand_on(counted: bytes, uncounted: bytes, to: socket.socket) -> None:
    """Install `counted` on this thread and hand its listener to who holds the other end of `to`.

    Where this machine's own sandbox listens already, and so nobody else can, `uncounted` is
    installed and nothing handed on."""
    try:
        listener = install(counted, listening=True)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        install(uncounted)
        return
    socket.send_fds(to, [b"L"], [listener])
    os.close(listener)


def handed(by: socket.socket) -> int:
    """The listener of `install_and_hand_on`; -1 where there is none. Waits until the other end is
    closed or used."""
    _, fds, _, _ = socket.recv_fds(by, 1, 1)
    return fds[0] if fds else -1


class TaskLimit:
    """Ends the newest of an agent's processes where they, and their threads, are more than there
    may be.

    It looks some times a second: for that long there may be more. The first process is never ended.
    """

    def __init__(self, most: int, processes: Callable[[], Sequence[int]]) -> None:
        """`processes`: their numbers, the oldest first; none where there is no need to look
        closer."""
        self._most = most
        self._processes = processes

    def start(self) -> None:
        """Look from a thread of its own, as long as this process is there."""
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            time.sleep(_LOOK)
            with contextlib.suppress(OSError):  # a table of processes that cannot be read now
                self.look()

    def look(self) -> None:
        found = [(number, tasks([number])) for number in self._processes()]
        total = sum(count for _, count in found)
        # What has ended and is not taken off yet still counts, and being the newest it is what is
        # ended again.
        for number, count in reversed(found[1:]):
            if total <= self._most:
                return
            total -= count
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)


class Listener:
    """Answers for an agent's processes: how many threads there may be, and when a wait on a shared
    futex is over.

    Shared futexes on files join all who see the file, so that nobody is let wait on one: each wait
    ends after some milliseconds, as if the value had changed, and whoever waits for something looks
    again and waits on."""

    def __init__(self, listener: int, most: int, count: Callable[[], int]) -> None:
        """`most` processes and threads at once by `count`; 0: as many as they like."""
        self._listener = listener
        self._most = most
        self._count = count
        self._known = 0
        self._futex = _FUTEX[platform.machine()]
        self._due: list[tuple[float, int, int, Asked]] = []
        self._waited: dict[int, tuple[float, float]] = {}
        """Thread -> how long it last waited, and until when."""

    def start(self) -> None:
        """Answer from a thread of its own, as long as there is anybody who asks."""
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            wait = max(0.0, self._due[0][0] - time.monotonic()) * 1000 if self._due else None
            for _, event in poll.poll(wait):
                if event & select.POLLIN:
                    asked = receive(self._listener)
                    if asked is not None:
                        self._take(asked)
                elif event & select.POLLHUP:
                    return
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, error, _, asked = heapq.heappop(self._due)
                answer(self._listener, asked, error)

    def _take(self, asked: Asked) -> None:
        if asked.call == self._futex:
            self._wait(asked)
        else:
            answer(self._listener, asked, 0 if self._has_room() else errno.EAGAIN)

    def _has_room(self) -> bool:
        if not self._most:
            return True
        # What was let go on since the last count is in it, whether it has begun or not: only what
        # ended is missing.
        self._known += 1
        if self._known > self._most:
            self._known = self._count() + 1
        return self._known <= self._most

    def _wait(self, asked: Asked) -> None:
        now = time.monotonic()
        before, until = self._waited.get(asked.thread, (0.0, 0.0))
        seconds = (
            min(2 * before, _LONGEST_WAIT)
            if now - until < _LONGEST_WAIT and before
            else _FIRST_WAIT
        )
        left = _left(asked)
        over = left is not None and left <= seconds
        if left is not None and over:
            seconds = max(0.0, left)
        if len(self._waited) >= _REMEMBERED:
            self._waited.clear()
        self._waited[asked.thread] = (seconds, now + seconds)
        error = errno.ETIMEDOUT if over else errno.EAGAIN
        heapq.heappush(self._due, (now + seconds, error, asked.id, asked))


def _left(asked: Asked) -> float | None:
    """Seconds until the wait `asked` for times out, None where it never does."""
    _, command, _, place = asked.arguments[:4]
    if place == 0:
        return None
    try:
        with Path(f"/proc/{asked.thread}/mem").open("rb", buffering=0) as memory:
            memory.seek(place)
            seconds, nanoseconds = struct.unpack("=qq", memory.read(16))
    except (OSError, struct.error, OverflowError):
        return None
    until: float = seconds + nanoseconds / 1e9
    if command & _COMMAND == _WAIT:
        return until
    return until - (time.time() if command & _CLOCK_REALTIME else time.monotonic())
