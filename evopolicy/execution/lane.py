"""One Episode in a worker: its Environment here, its Policy in a process of its own, stepped as answers come."""

from __future__ import annotations

import array
import contextlib
import math
import socket
import struct
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from evopolicy.execution import codec
from evopolicy.execution.frames import ACT, ACTION, EXIT_WIRE, FAILED, HEAD, IMPORT, MAKE, RESET, Frame, Wire
from evopolicy.execution.nursery import Ended
from evopolicy.execution.output import Capture
from evopolicy.execution.templates import Template, kill
from evopolicy.kernel import wire
from evopolicy.kernel.benchmark import Environment, EpisodeSpec, Transition
from evopolicy.kernel.errors import InvalidAction
from evopolicy.kernel.evaluation import (
    EpisodeResult,
    FailureKind,
    Fault,
    Outcome,
    Phase,
    PolicyFailure,
)
from evopolicy.kernel.ports import Limits
from evopolicy.kernel.trace import TraceRow, TraceWriter
from evopolicy.kernel.values import public

_SETUP_SECONDS = 60.0
# How long a process that closed its wire may take to end before it counts as one that closed it on purpose.
_ENDING_SECONDS = 1.0
_TEXT = 4_000
_CREDENTIALS = struct.Struct("3i")
_PHASES: tuple[Phase, ...] = ("import", "make_policy", "reset")
_QUESTIONS = {"import": IMPORT, "make_policy": MAKE, "reset": RESET}


@dataclass(frozen=True)
class Play:
    """What all Episodes of one worker share."""

    limits: Limits
    max_steps: int
    largest_action: int
    encode: Callable[[Any], codec.Encoded]
    read: Callable[[bytes], tuple[Any, bool]]
    watch: Any
    """Shared with the Host: [when the running call of an Environment began (0: none), its job]."""


class Keeper(Protocol):
    """What a Lane asks of its worker."""

    def writable(self, lane: Lane, wanted: bool) -> None:
        """Say when the wire can be written, or no longer."""

    def forget(self, lane: Lane, *, wire_only: bool = False) -> None:
        """Wire and output are done with, and will be closed."""

    def done(self, lane: Lane, result: EpisodeResult | None, lost: str) -> None:
        """The Lane is over: a result, or why its process could not be kept."""


class Lane:
    """See the module. The worker calls `start` once and then the `on_` methods; every way ends in `Keeper.done`."""

    def __init__(self, keeper: Keeper, play: Play, template: Template, job: int, episode: EpisodeSpec) -> None:
        self.job = job
        self.episode = episode
        self.template = template
        self._keeper = keeper
        self._play = play
        self._environment: Environment | None = None
        self._trace: TraceWriter | None = None
        self._trace_path: Path | None = None
        self._phase: Phase = "import"
        self._number = 0
        self._first: Any = None
        self._return = 0.0
        self._steps = 0
        self._clipped = 0
        self.local_pid = 0
        """As the template numbers it; 0 until the process is ready."""
        self._pid = 0
        self._clock = 0
        self._mark = 0.0
        self._begun = 0.0
        self._asked = self._started = time.monotonic()
        self.slowest = 0.0
        """CPU seconds of the longest call."""
        self._ending_since = 0.0
        self._over = False
        self._refused: BaseException | None = None
        """What the Environment raised before the Episode began."""

    @property
    def ending(self) -> bool:
        """Whether the wire is closed and how the process ended is not known yet."""
        return self._ending_since > 0

    # --- start ---------------------------------------------------------------------------------------------------

    def start(self, make: Callable[[], Environment], trace: Path | None) -> None:
        """Fork the Policy's process, and while it readies itself make and reset the Environment.

        Raises ExecutionError where there is no template any more; then the Lane never was.
        """
        sock, output = self.template.fork()
        self.wire = Wire(sock, self._play.largest_action + 4096)
        self.output = Capture(output, self._play.limits.output_bytes)
        watch = self._play.watch
        watch[1], watch[0] = self.job, time.monotonic()
        try:
            self._environment = make()
            self._first = self._environment.reset()
        except BaseException as error:
            # Told once the process is ready: until then its number is not known and it cannot be ended.
            self._refused = error
        watch[0] = 0.0
        self._started = time.monotonic()
        if trace is not None and self._refused is None:
            self._trace_path = trace
            self._trace = TraceWriter(trace)
            self._trace.write(TraceRow(0, self._first, None, 0.0, False, False, {}))

    # --- what happens --------------------------------------------------------------------------------------------

    def on_wire(self) -> None:
        """The process wrote something, or ended."""
        if not self.local_pid:
            self._on_ready()
            return
        try:
            frame = self.wire.receive()
        except EOFError:
            self._ending_since = time.monotonic()
            self._keeper.forget(self, wire_only=True)
            self.template.ask(self.local_pid)
            return
        except wire.WireError as error:
            self._fail("protocol", f"the Program wrote to the wire what is no answer: {error}")
            return
        if frame is not None:
            self._on_frame(frame)

    def _on_ready(self) -> None:
        try:
            data, ancillary, _, _ = self.wire.sock.recvmsg(64, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data or not ancillary:
            self._keeper.forget(self)
            self._lose(f"the Policy's process could not be started: {self.output.close().text.strip()[-_TEXT:]}")
            return
        # The kernel's word for who wrote it, in our own numbering even where the sandbox has another.
        self._pid = _CREDENTIALS.unpack(ancillary[0][2])[0]
        self.local_pid = int(wire.decode(data[HEAD.size :]))
        self.wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        self._clock = ~self._pid << 3 | 2
        self._mark = self._begun = self._spent()
        if self._refused is not None:
            text = f"the Environment cannot be made and reset: {_named(self._refused)}"
            self._fault("environment", text, self._refused)
            return
        self._ask(IMPORT, wire.encode(self.episode.policy_seed))

    def on_writable(self) -> None:
        """The process reads again what it is sent."""
        self.wire.flush()
        if not self.wire.blocked:
            self._keeper.writable(self, False)

    def on_output(self) -> bool:
        """The process printed; False once its output is closed."""
        return self.output.drain()

    def on_ended(self, ended: Ended) -> None:
        """What the template knows of a process whose wire closed."""
        if ended.alive:
            return
        self.local_pid = 0
        limits = self._play.limits
        if ended.code == -24:  # SIGXCPU, the kernel's own stop
            self._fail("episode_time", self._episode_text(), limit=limits.episode_seconds)
        elif ended.code == EXIT_WIRE:
            self._fail("protocol", "the Program closed or broke the wire it is asked over")
        elif ended.code < 0 and ended.peak_bytes > 0.8 * limits.memory_bytes:
            text = f"over its memory of {limits.memory_bytes} bytes"
            self._fail("memory", f"{text}: its process was ended by signal {-ended.code}", limit=limits.memory_bytes)
        elif ended.code < 0:
            self._fail("died", f"the Policy's process was ended by signal {-ended.code}")
        else:
            self._fail("died", f"the Policy's process exited with code {ended.code}")

    def on_template_lost(self) -> None:
        """The template ended, and with it the process."""
        self.local_pid = 0
        self._lose(f"the Program's template ended: {self.template.lost}")

    def check(self, now: float) -> None:
        """Called many times a second: the limits of a Policy that does not answer."""
        limits = self._play.limits
        if self._ending_since:
            if now - self._ending_since > _ENDING_SECONDS:
                self._fail("protocol", "the Program closed the wire it is asked over")
            else:
                self.template.ask(self.local_pid)
            return
        if not self.local_pid:
            if now - self._asked > _SETUP_SECONDS:
                self._lose(f"the Policy's process was not ready after {_SETUP_SECONDS:.0f} s")
            return
        if self._over_time(self._spent()):
            return
        wall = limits.stall_factor * limits.act_seconds
        if now - self._asked > wall:
            self._fail("stalled", f"no answer to {self._what()} within {wall:g} s of wall time", limit=wall)

    # --- the conversation ----------------------------------------------------------------------------------------

    def _ask(self, kind: int, body: bytes, tail: memoryview | None = None) -> None:
        self._number += 1
        self._asked = time.monotonic()
        self.wire.send(self._number, kind, body, tail)
        if self.wire.blocked:
            self._keeper.writable(self, True)

    def _on_frame(self, frame: Frame) -> None:
        now = self._spent()
        if self._over_time(now):
            return
        self._mark = now
        number, kind, body = frame
        if number != self._number:
            self._fail("protocol", "the Program wrote to the wire before it was asked")
        elif kind == FAILED:
            self._fail_as_told(body)
        elif self._phase == "act":
            if kind == ACTION:
                self._on_action(body)
            else:
                self._fail("protocol", f"the Program wrote a frame of kind {kind} to the wire")
        else:
            self._next_phase()

    def _spent(self) -> float:
        return time.clock_gettime(self._clock)

    def _over_time(self, now: float) -> bool:
        limits = self._play.limits
        used = now - self._mark
        self.slowest = max(self.slowest, used)
        if used > limits.act_seconds:
            text = f"{self._what()} used more than {limits.act_seconds:g} s of CPU time"
            self._fail("act_time", text, limit=limits.act_seconds)
            return True
        if now - self._begun > limits.episode_seconds:
            self._fail("episode_time", self._episode_text(), limit=limits.episode_seconds)
            return True
        return False

    def _episode_text(self) -> str:
        return f"the Policy used more than {self._play.limits.episode_seconds:g} s of CPU time in the Episode"

    def _what(self) -> str:
        return "importing policy.py" if self._phase == "import" else f"a call of {self._phase}"

    def _next_phase(self) -> None:
        if self._phase == "reset":
            self._phase = "act"
            self._observe(self._first)
            self._first = None
            return
        self._phase = _PHASES[_PHASES.index(self._phase) + 1]
        self._ask(_QUESTIONS[self._phase], b"")

    def _observe(self, observation: Any) -> None:
        try:
            body, tail = self._play.encode(observation)
        except Exception as error:
            self._fault("environment", f"step {self._steps}: {_named(error)}", error)
            return
        self._ask(ACT, body, tail)

    def _on_action(self, body: bytes) -> None:
        play, watch = self._play, self._play.watch
        try:
            action, clipped = play.read(body)
        except InvalidAction as error:
            self._fail("invalid_action", str(error)[:500])
            return
        except wire.WireError as error:
            self._fail("protocol", f"the Program wrote to the wire what is no Action: {str(error)[:300]}")
            return
        self._clipped += clipped
        watch[1], watch[0] = self.job, time.monotonic()
        try:
            transition = self._environment.step(action)  # type: ignore[union-attr]
        except BaseException as error:
            watch[0] = 0.0
            self._fault("environment", f"the Environment failed in step {self._steps + 1}: {_named(error)}", error)
            return
        watch[0] = 0.0
        self._on_transition(action, transition)

    def _on_transition(self, action: Any, transition: Transition) -> None:
        observation, reward, terminated, truncated, info = transition
        reward = float(reward)
        self._steps += 1
        if not math.isfinite(reward):
            self._fault("environment", f"the Environment gave the reward {reward} in step {self._steps}")
            return
        self._return += reward
        truncated = bool(truncated) or (self._steps >= self._play.max_steps and not terminated)
        if self._trace is not None:
            row = TraceRow(self._steps, observation, action, reward, bool(terminated), truncated, dict(info))
            self._trace.write(row)
        if terminated or truncated:
            self._finish("terminated" if terminated else "truncated", None)
        else:
            self._observe(observation)

    # --- the end -------------------------------------------------------------------------------------------------

    def _fail_as_told(self, body: bytes) -> None:
        """What the process says of itself is the Program's word: bounded, and of no more weight than its Actions."""
        try:
            told = wire.decode(body)
            kind, message, text, limit = (told[key] for key in ("kind", "message", "traceback", "limit"))
        except (wire.WireError, TypeError, KeyError):
            self._fail("protocol", "the Program wrote to the wire what is no answer")
            return
        known: dict[str, FailureKind] = {"memory": "memory", "invalid_action": "invalid_action"}
        number = float(limit) if isinstance(limit, int | float) and math.isfinite(limit) else None
        self._fail(known.get(str(kind), "exception"), str(message)[:1000], str(text)[: 3 * _TEXT], number)

    def _fail(self, kind: FailureKind, message: str, text: str = "", limit: float | None = None) -> None:
        step = self._steps if self._phase == "act" else None
        self._finish("failed", PolicyFailure(kind, message, self._phase, step, text, limit))

    def _finish(self, ending: Literal["terminated", "truncated", "failed"], failure: PolicyFailure | None) -> None:
        try:
            measured = dict(self._environment.measures()) if self._environment is not None else {}
            measures = public(measured, "measures")
        except Exception as error:
            self._fault("environment", f"the Environment's measures: {_named(error)}", error)
            return
        self._stop()
        assert isinstance(measures, dict)
        outcome = Outcome(
            self.episode.index,
            self._return,
            self._steps,
            ending,
            failure,
            measures,
            self.output.close(),
            self._clipped,
        )
        self._end(self._result(outcome, None), "")

    def _fault(self, kind: Literal["environment", "engine"], message: str, error: BaseException | None = None) -> None:
        text = "".join(traceback.format_exception(error))[-_TEXT:] if error is not None else ""
        self._stop()
        self.output.close()
        self._end(self._result(None, Fault(kind, message[:1000], text)), "")

    def _lose(self, why: str) -> None:
        self._stop()
        self.output.close()
        self._end(None, why)

    def _result(self, outcome: Outcome | None, fault: Fault | None) -> EpisodeResult:
        wall = time.monotonic() - self._started
        used = max(self._mark - self._begun, 0.0)
        return EpisodeResult(self.episode.index, outcome, fault, self._trace_path, used, wall)

    def _stop(self) -> None:
        """Kill the process; what it printed until now stays to be read."""
        self._keeper.forget(self)
        if self.local_pid:
            kill(self._pid)
            self.template.release(self.local_pid)
            self.local_pid = 0

    def _end(self, result: EpisodeResult | None, lost: str) -> None:
        if self._over:
            return
        self._over = True
        self._stop()
        with contextlib.suppress(Exception):
            if self._environment is not None:
                self._environment.close()
        if self._trace is not None:
            self._trace.close()
        self._keeper.done(self, result, lost)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def shared_watch(buffer: Any) -> Any:
    """The two numbers of `Play.watch` over shared memory."""
    return memoryview(buffer)[: 2 * array.array("d").itemsize].cast("d")
