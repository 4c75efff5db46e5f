"""The process of one Episode's Policy, as its worker has it: asked, timed from outside, ended."""

from __future__ import annotations

import socket
import struct
import time
from typing import NamedTuple

from evopolicy.execution.policy.fork_server import Ended
from evopolicy.execution.policy.handles import ForkServerHandle, kill
from evopolicy.execution.policy.output import Capture
from evopolicy.execution.wire.frames import EXIT_WIRE, HEAD, Wire
from evopolicy.kernel import wire
from evopolicy.kernel.ports.outcome import FailureKind
from evopolicy.kernel.ports.protocols import Limits

SETUP_SECONDS = 60.0
# An Episode that fills its scratch folder with names for all its CPU time is swept for several
# times as long.
_SWEEP_SECONDS = 900.0
_LOOK = 0.1
# How long a process that closed its wire may take to end before it counts as one that closed it on
# purpose.
_ENDING_SECONDS = 1.0
_CREDENTIALS = struct.Struct("3i")
_SIGXCPU = 24
_MOST = 0.8
_FRAME_ROOM = 1 << 16


class Broke(NamedTuple):
    """How a Policy broke off an Episode: what of a PolicyFailure the process shows."""

    kind: FailureKind
    message: str
    limit: float | None = None


class PolicyProcess:
    """Asked one question at a time; its CPU time is the kernel's count, not its own word."""

    def __init__(self, fork_server: ForkServerHandle, limits: Limits, largest_action: int) -> None:
        """Forks it. Raises ExecutionError where there is no fork server any more."""
        sock, output = fork_server.fork()
        self.fork_server = fork_server
        self.wire = Wire(sock, largest_action + _FRAME_ROOM)
        self.output = Capture(output, limits.output_bytes)
        self.local_pid = 0
        """As the fork server numbers it; 0 until the process is ready, and once it is gone."""
        self.slowest = 0.0
        """CPU seconds of the longest call."""
        self._limits = limits
        self._pid = 0
        self._clock = 0
        self._number = 0
        self._begun = self._mark = self._until = 0.0
        self._asked = self._born = self._looked = time.monotonic()
        self._ready_by = self._born + SETUP_SECONDS
        self._waited = 0.0
        self._ending_since = 0.0
        self._inquired = 0.0

    @property
    def ending(self) -> bool:
        """Whether the wire is closed and how the process ended is not known yet."""
        return self._ending_since > 0

    @property
    def used(self) -> float:
        """CPU seconds up to the last answer."""
        return self._mark - self._begun

    def greet(self) -> bool:
        """Take its first frame; False while it is not there. Raises EOFError where the process
        ended instead."""
        try:
            data, ancillary, _, _ = self.wire.sock.recvmsg(64, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return False
        except OSError:
            data, ancillary = b"", []
        if not data or not ancillary:
            raise EOFError
        # The kernel's word for who wrote it, in our own numbering even where the sandbox has
        # another.
        self._pid = _CREDENTIALS.unpack(ancillary[0][2])[0]
        self.local_pid = int(wire.decode(data[HEAD.size :]))
        self.wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        # The clock that counts the CPU time of all threads of another process
        # (clock_getcpuclockid).
        self._clock = ~self._pid << 3 | 2
        self._begun = self._mark = time.clock_gettime(self._clock)
        self._until = self._begun + self._limits.episode_seconds
        return True

    def ask(self, kind: int, body: bytes, tail: memoryview | None = None) -> bool:
        """Send the next question; False where a part of it waits for `wire.flush`."""
        self._number += 1
        self._asked = time.monotonic()
        return self.wire.send(self._number, kind, body, tail)

    def answer(self) -> tuple[int, bytes] | None:
        """(kind, body) of the answer, None while it is not all there.

        Raises EOFError once the wire is closed, WireError for what is no answer to the last
        question."""
        frame = self.wire.receive()
        if frame is None:
            return None
        number, kind, body = frame
        if number != self._number or self.wire.blocked:
            raise wire.WireError("it came before it was asked for")
        return kind, body

    def overspent(self, answered: bool, what: str) -> Broke | None:
        """Whether the call `what` or the Episode used too much; with `answered` the next call is
        counted from now."""
        now = time.clock_gettime(self._clock)
        used = now - self._mark
        if answered:
            self._mark = now
        if used <= self.slowest and now <= self._until:
            return None
        limits = self._limits
        if used > self.slowest:
            self.slowest = used
            if used > limits.act_seconds:
                self._mark = now
                text = f"{what} used more than {limits.act_seconds:g} s of CPU time"
                return Broke("act_time", text, limits.act_seconds)
        if now > self._until:
            self._mark = now
            return self._over_episode()
        return None

    def _over_episode(self) -> Broke:
        seconds = self._limits.episode_seconds
        return Broke(
            "episode_time",
            f"the Policy used more than {seconds:g} s of CPU time in the Episode",
            seconds,
        )

    def silent(self, now: float, what: str) -> Broke | None:
        """Whether it has been silent for longer than any machine load explains."""
        wall = self._limits.stall_factor * self._limits.act_seconds
        if now - self._asked > wall:
            return Broke("stalled", f"{what} gave no answer within {wall:g} s of wall time", wall)
        return None

    def dawdling(self, now: float) -> Broke | None:
        """Whether its silences, each too short to be a stall, add up to what no Episode explains.

        Counted at every look, and no more than a look's distance each time: a worker that was busy
        blames nobody."""
        self._waited += min(now - max(self._asked, self._looked), _LOOK)
        self._looked = now
        wall = self._limits.stall_factor * self._limits.episode_seconds
        if self._waited > wall:
            text = (
                f"the Policy's answers were waited for longer than {wall:g} s of wall time in "
                "the Episode"
            )
            return Broke("stalled", text, wall)
        return None

    def late(self, now: float) -> bool:
        """Whether it should have been ready by now; of one that is ending, whether that should be
        known."""
        if self._ending_since:
            return now - self._ending_since > SETUP_SECONDS
        if self.fork_server.waiting:  # For scratch folders that the Program itself left full.
            self._ready_by = min(now + SETUP_SECONDS, self._born + _SWEEP_SECONDS)
        return now > self._ready_by

    # --- the end ----------------------------------------------------------------------------------

    def closed(self) -> None:
        """Its wire is closed: ask the fork server how it ended; the answer comes as `Ended`."""
        self._ending_since = time.monotonic()
        self.inquire()

    def inquire(self) -> None:
        """Ask again how it ended."""
        now = time.monotonic()
        if self.fork_server.ask(self.local_pid):
            self._inquired = now

    def ended(self, how: Ended) -> Broke | None:
        """What its end means; None while it lives and its wire is not closed for longer than chance
        explains.

        Only the fork server's word counts, as of when it was asked: one that is slow to speak, or a
        worker that is slow to listen, makes no other end of the same one."""
        if how.alive:
            if self._inquired - self._ending_since > _ENDING_SECONDS:
                return Broke("protocol", "the Program closed the wire it is asked over")
            return None
        self.local_pid = 0
        limits = self._limits
        if how.code == -_SIGXCPU and how.cpu_seconds > limits.episode_seconds:
            return self._over_episode()
        if how.code == EXIT_WIRE:
            return Broke("protocol", "the Program closed or broke the wire it is asked over")
        if how.code < 0 and how.peak_bytes > _MOST * limits.memory_bytes:
            text = (
                f"over its memory of {limits.memory_bytes} bytes: its process was ended by "
                f"signal {-how.code}"
            )
            return Broke("memory", text, limits.memory_bytes)
        if how.code < 0:
            return Broke("died", f"the Policy's process was ended by signal {-how.code}")
        return Broke("died", f"the Policy's process exited with code {how.code}")

    def kill(self) -> None:
        """End it, where it is not ended yet; what it printed until now stays to be read.
        Idempotent."""
        if self.local_pid:
            kill(self._pid)
            self.fork_server.release(self.local_pid)
            self.local_pid = 0
