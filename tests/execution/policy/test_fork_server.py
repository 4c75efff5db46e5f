"""A fork server's turn: Episodes that wait for a scratch folder, and those that are asked after
meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from evopolicy.execution.policy.fork_server import (
    FORK,
    REFUSED,
    RELEASE,
    STARTED,
    STATUS,
    Ended,
    ForkServer,
)
from tests.execution.conftest import PATIENCE, becomes


class OneFolder:
    """Scratch folders of which there is one."""

    def __init__(self) -> None:
        self._free = [0]
        self.news, self._kept_open = os.pipe()

    def take(self) -> int | None:
        return self._free.pop() if self._free else None

    def untouched(self, slot: int) -> None:
        self._free.append(slot)

    give_back = untouched

    def end(self) -> None:
        os.close(self.news)
        os.close(self._kept_open)


class Sleepers(ForkServer):
    """A fork server whose Episodes only sleep; `begun` has each one's process and the inode of its
    wire."""

    def __init__(self, control: socket.socket) -> None:
        nothing: Any = None
        slots: Any = OneFolder()
        super().__init__(control, nothing, slots)
        self.begun: list[tuple[int, int]] = []
        self.refused = 0
        """Forks the kernel refuses."""

    def _fork(self, slot: int, wire_fd: int, output_fd: int) -> None:
        if self.refused:
            self.refused -= 1
            raise BlockingIOError("the kernel refused a new process")
        pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
        self._slot_of[pid] = slot
        self.begun.append((pid, os.fstat(wire_fd).st_ino))
        os.close(wire_fd)
        os.close(output_fd)

    def _end_all(self) -> None:
        for pid, _ in self.begun:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


@pytest.fixture
def worker() -> Iterator[tuple[socket.socket, Sleepers]]:
    """The worker's end of a fork server that serves."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fork_server = Sleepers(theirs)
    serving = threading.Thread(target=fork_server.serve, daemon=True)
    serving.start()
    ours.settimeout(PATIENCE)
    yield ours, fork_server
    ours.shutdown(socket.SHUT_WR)
    serving.join(PATIENCE)
    fork_server._end_all()  # Where it ended by a fault of its own.
    ours.close()
    theirs.close()


def fork(ours: socket.socket) -> int:
    """Ask for an Episode; returns the inode of its wire."""
    wire, theirs = os.pipe()
    socket.send_fds(ours, [FORK], [wire, theirs])
    inode = os.fstat(wire).st_ino
    os.close(wire)
    os.close(theirs)
    return inode


def status(ours: socket.socket, pid: int) -> Ended:
    """What the fork server says of a process."""
    ours.send(STATUS + pid.to_bytes(4, "little"))
    while (message := ours.recv(1 << 12))[:1] != STATUS:
        pass
    return msgspec.msgpack.decode(message[1:], type=Ended)


def test_an_episode_that_waits_for_a_scratch_folder_keeps_no_other_from_being_heard(
    worker: tuple[socket.socket, Sleepers],
) -> None:
    ours, fork_server = worker
    fork(ours)
    fork(ours)
    assert becomes(lambda: fork_server.begun)
    ((pid, _),) = fork_server.begun
    assert status(ours, pid).alive
    os.kill(pid, signal.SIGKILL)
    ours.send(RELEASE + pid.to_bytes(4, "little"))
    assert becomes(lambda: len(fork_server.begun) == 2)


def test_waiting_episodes_begin_in_the_order_they_were_asked_for(
    worker: tuple[socket.socket, Sleepers],
) -> None:
    ours, fork_server = worker
    asked = [fork(ours) for _ in range(3)]
    for number in range(3):
        assert becomes(lambda number=number: len(fork_server.begun) > number)  # type: ignore[misc]
        pid = fork_server.begun[number][0]
        os.kill(pid, signal.SIGKILL)
        ours.send(RELEASE + pid.to_bytes(4, "little"))
    assert [inode for _, inode in fork_server.begun] == asked


def test_a_refused_fork_ends_neither_the_fork_server_nor_the_episode(
    worker: tuple[socket.socket, Sleepers],
) -> None:
    ours, fork_server = worker
    fork_server.refused = 3
    asked = fork(ours)
    assert ours.recv(16) == REFUSED, "the worker knows that it is not the Episode that is late"
    assert ours.recv(16) == STARTED
    assert [inode for _, inode in fork_server.begun] == [asked]
