"""A template's turn: Episodes that wait for a scratch folder, and those that are asked after meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evopolicy.execution.nursery import FORK, RELEASE, STATUS, Ended, Template, TemplateRequest
from tests.execution.conftest import becomes


class OneFolder:
    """Scratch folders of which there is one."""

    busy = False

    def __init__(self) -> None:
        self._free = ["the folder"]

    def take(self) -> str | None:
        return self._free.pop() if self._free else None

    def give_back(self, scratch: str) -> None:
        self._free.append(scratch)

    def reap(self) -> None:
        pass

    def end(self) -> None:
        pass


class Sleepers(Template):
    """A template whose Episodes only sleep; `begun` has each one's process and the inode of its wire."""

    def __init__(self, control: socket.socket, folder: Path) -> None:
        stage: Any = None
        super().__init__(control, stage, TemplateRequest("", str(folder), 0, "", ()))
        self._scratches = OneFolder()
        self.begun: list[tuple[int, int]] = []

    def _fork(self, scratch: str, wire_fd: int, output_fd: int) -> None:
        pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
        self._scratch_of[pid] = scratch
        self.begun.append((pid, os.fstat(wire_fd).st_ino))
        os.close(wire_fd)
        os.close(output_fd)

    def _end_all(self) -> None:
        for pid, _ in self.begun:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[tuple[socket.socket, Sleepers]]:
    """The worker's end of a template that serves."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    template = Sleepers(theirs, tmp_path)
    serving = threading.Thread(target=template.serve, daemon=True)
    serving.start()
    ours.settimeout(60)
    yield ours, template
    ours.shutdown(socket.SHUT_WR)
    serving.join(60)
    template._end_all()  # Where it ended by a fault of its own.
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
    """What the template says of a process."""
    ours.send(STATUS + pid.to_bytes(4, "little"))
    while (message := ours.recv(1 << 12))[:1] != STATUS:
        pass
    return msgspec.msgpack.decode(message[1:], type=Ended)


def test_an_episode_that_waits_for_a_scratch_folder_keeps_no_other_from_being_heard(
    worker: tuple[socket.socket, Sleepers],
) -> None:
    ours, template = worker
    fork(ours)
    fork(ours)
    assert becomes(lambda: template.begun)
    ((pid, _),) = template.begun
    assert status(ours, pid).alive
    os.kill(pid, signal.SIGKILL)
    ours.send(RELEASE + pid.to_bytes(4, "little"))
    assert becomes(lambda: len(template.begun) == 2)


def test_waiting_episodes_begin_in_the_order_they_were_asked_for(worker: tuple[socket.socket, Sleepers]) -> None:
    ours, template = worker
    asked = [fork(ours) for _ in range(3)]
    for number in range(3):
        assert becomes(lambda number=number: len(template.begun) > number)  # type: ignore[misc]
        pid = template.begun[number][0]
        os.kill(pid, signal.SIGKILL)
        ours.send(RELEASE + pid.to_bytes(4, "little"))
    assert [inode for _, inode in template.begun] == asked
