"""PolicyProcess: how an Episode's process ended is what its fork server says, however late that
comes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from evopolicy.execution.policy.episode_process import SETUP_SECONDS, PolicyProcess
from evopolicy.execution.policy.fork_server import BROKEN, RELEASE, STATUS, Ended
from evopolicy.execution.policy.handles import ForkServerHandle
from tests.execution.conftest import LIMITS

PID = 7


class Silent:
    """A fork server that is asked and says nothing by itself."""

    waiting = False

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.ends: list[socket.socket] = []

    def fork(self) -> tuple[socket.socket, int]:
        ours, theirs = socket.socketpair()
        output, its_output = os.pipe()
        os.close(its_output)
        self.ends.append(theirs)
        return ours, output

    def ask(self, pid: int) -> bool:
        self.asked.append(pid)
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], float]:
    """`clock(seconds)`: lets so many pass; returns the time."""
    now = [1000.0]
    monkeypatch.setattr("evopolicy.execution.policy.episode_process.time.monotonic", lambda: now[0])

    def passes(seconds: float) -> float:
        now[0] += seconds
        return now[0]

    return passes


@pytest.fixture
def closed(clock: Callable[[float], float]) -> Any:
    """A process that was ready and has closed its wire; long after it was started."""
    fork_server: Any = Silent()
    process = PolicyProcess(fork_server, LIMITS, 64)
    process.local_pid = PID
    clock(10 * SETUP_SECONDS)
    process.closed()
    yield process
    process.wire.sock.close()
    os.close(process.output.fd)
    for end in fork_server.ends:
        end.close()


def kind(process: PolicyProcess, how: Ended) -> str:
    broke = process.ended(how)
    return broke.kind if broke else ""


def test_a_closed_wire_alone_says_nothing_of_the_end(
    closed: PolicyProcess, clock: Callable[[float], float]
) -> None:
    fork_server: Any = closed.fork_server
    assert closed.ending and fork_server.asked == [PID]
    assert not closed.late(clock(SETUP_SECONDS - 1)), "counted from the closing, not from the start"
    closed.inquire()
    assert fork_server.asked == [PID, PID]
    assert closed.late(clock(2))


def test_a_fork_server_is_asked_one_question_at_a_time_of_each_process() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sweeper: Any = None
    fork_server = ForkServerHandle(ours, [], sweeper)
    theirs.setblocking(False)

    def questions() -> list[bytes]:
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(theirs.recv(64))
        return found

    with ours, theirs:
        seven, eight = (STATUS + pid.to_bytes(4, "little") for pid in (7, 8))
        fork_server.ask(7)
        fork_server.ask(7)
        fork_server.ask(8)
        assert questions() == [seven, eight]
        theirs.send(STATUS + msgspec.msgpack.encode(Ended(7, alive=True)))
        assert [ended.pid for ended in fork_server.messages()] == [7]
        fork_server.ask(7)
        fork_server.ask(8)
        assert questions() == [seven], "what is answered may be asked again, and nothing else"
        fork_server.release(8)
        fork_server.ask(8)
        assert questions() == [RELEASE + (8).to_bytes(4, "little"), eight]


def test_a_fork_server_that_says_it_ends_is_gone_before_its_process_is() -> None:
    """Between the two it could be asked for Episodes that it never begins."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sweeper: Any = None
    fork_server = ForkServerHandle(ours, [], sweeper)
    with ours, theirs:
        theirs.send(BROKEN + b"what empties the scratch folders has ended")
        with pytest.raises(EOFError):
            list(fork_server.messages())
        assert fork_server.lost == "what empties the scratch folders has ended"


def test_a_fork_server_that_is_slow_to_speak_makes_no_other_end_of_the_same_one(
    closed: PolicyProcess, clock: Callable[[float], float]
) -> None:
    clock(SETUP_SECONDS - 1)
    assert kind(closed, Ended(PID, alive=False, code=3)) == "died"
    assert closed.local_pid == 0


def test_only_one_that_still_lives_a_while_after_it_closed_its_wire_closed_it_on_purpose(
    closed: PolicyProcess, clock: Callable[[float], float]
) -> None:
    assert kind(closed, Ended(PID, alive=True)) == ""
    clock(0.5)
    closed.inquire()
    assert kind(closed, Ended(PID, alive=True)) == ""
    clock(1.0)
    closed.inquire()
    assert kind(closed, Ended(PID, alive=True)) == "protocol"


def test_a_worker_that_is_slow_to_listen_makes_no_other_end_of_the_same_one(
    closed: PolicyProcess, clock: Callable[[float], float]
) -> None:
    """It lived when the fork server was asked, at once; since then the worker was in a call of an
    Environment."""
    clock(30.0)
    assert kind(closed, Ended(PID, alive=True)) == ""
    closed.inquire()
    assert kind(closed, Ended(PID, alive=False, code=3)) == "died"
