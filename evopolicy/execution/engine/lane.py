"""One Episode in a worker: its Environment here, its Policy in a process of its own, stepped as
answers come."""

from __future__ import annotations

import contextlib
import math
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from select import POLLIN, POLLOUT
from typing import Any, Literal, Protocol

from evopolicy.execution.engine import repeat
from evopolicy.execution.policy.episode_process import SETUP_SECONDS, Broke, PolicyProcess
from evopolicy.execution.policy.fork_server import Ended
from evopolicy.execution.policy.handles import ForkServerHandle
from evopolicy.execution.wire import codec
from evopolicy.execution.wire.frames import ACT, ACTION, FAILED, IMPORT, MAKE, RESET
from evopolicy.kernel import wire
from evopolicy.kernel.errors import InvalidAction
from evopolicy.kernel.ports.benchmark import Environment, EpisodeSpec, Transition
from evopolicy.kernel.ports.outcome import (
    EpisodeResult,
    FailureKind,
    Fault,
    Outcome,
    Phase,
    PolicyFailure,
)
from evopolicy.kernel.ports.protocols import Limits
from evopolicy.kernel.trace import TraceRow, TraceWriter
from evopolicy.kernel.values import public

_TEXT = 4_000
_KEPT_ACTIONS = 1 << 25
"""Bytes of an Episode's Actions that are kept; a step that raises after more of them is the
Environment's fault."""
_NEXT: dict[Phase, tuple[Phase, int]] = {
    "import": ("make_policy", MAKE),
    "make_policy": ("reset", RESET),
}


@dataclass(frozen=True)
class Play:
    """What all Episodes of one worker share."""

    limits: Limits
    max_steps: int
    largest_action: int
    encode: Callable[[Any], codec.Encoded]
    read: Callable[[bytes], tuple[Any, bool]]
    watch: Any
    """Shared with the Host: when the running call of an Environment began (0: none), its job, the
    last look."""


class LaneWorker(Protocol):
    """What a Lane asks of its worker."""

    def writable(self, lane: Lane, wanted: bool) -> None:
        """Say when the wire can be written, or no longer."""

    def forget(self, lane: Lane, *, wire_only: bool = False) -> None:
        """Wire and output are done with, and will be closed."""

    def done(self, lane: Lane, result: EpisodeResult | None, lost: str) -> None:
        """The Lane is over: a result, or why its process could not be kept."""


class Lane:
    """See the module. The worker calls `start` once and then the `on_` methods; every way ends in
    `LaneWorker.done`."""

    def __init__(
        self,
        worker: LaneWorker,
        play: Play,
        fork_server: ForkServerHandle,
        job: int,
        episode: EpisodeSpec,
    ) -> None:
        """Forks the Policy's process. Raises ExecutionError where there is no fork server any
        more."""
        self.job = job
        self.episode = episode
        self.process = PolicyProcess(fork_server, play.limits, play.largest_action)
        self._worker = worker
        self._play = play
        self._environment: Environment | None = None
        self._trace: TraceWriter | None = None
        self._trace_path: Path | None = None
        self._actions: list[bytes] = []
        """As the Policy sent them: a step that raises is looked at again with them."""
        self._room = _KEPT_ACTIONS
        self._phase: Phase = "import"
        self._first: Any = None
        self._return = 0.0
        self._steps = 0
        self._clipped = 0
        self._started = time.monotonic()
        self._over = False
        self._refused: Fault | None = None
        """What went wrong before the Episode began: told once the process is ready and can be
        ended."""

    def start(self, make: Callable[[], Environment], trace: Path | None) -> None:
        """While the process readies itself, make and reset the Environment."""
        self._make = make
        try:
            with self._watched():
                self._environment = make()
                self._first = self._environment.reset()
        except BaseException as error:
            self._refused = _fault(
                f"the Environment cannot be made and reset: {_named(error)}", error
            )
        self._started = time.monotonic()
        if trace is None or self._refused is not None:
            return
        try:
            self._trace = TraceWriter(trace)
            self._trace_path = trace
            self._trace.write(TraceRow(0, self._first, None, 0.0, False, False, {}))
        except Exception as error:
            self._refused = _fault(f"the trace cannot be written: {_named(error)}", error, "engine")

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """While the Environment is called the Host watches how long it takes. A step does the same
        without this."""
        watch = self._play.watch
        watch[1], watch[0] = self.job, time.monotonic()
        try:
            yield
        finally:
            watch[0] = 0.0

    # --- what happens -----------------------------------------------------------------------------

    def on_wire(self, event: int) -> None:
        """The process wrote something, ended, or reads again what it is sent."""
        process = self.process
        if event != POLLIN:
            if event & POLLOUT:
                self._on_writable()
            if event == POLLOUT:
                return
        if not process.local_pid:
            self._on_ready()
            return
        broke = None
        try:
            answer = process.answer()
        except EOFError:
            self._worker.forget(self, wire_only=True)
            process.closed()
            return
        except wire.WireError as error:
            answer = 0, b""
            broke = Broke("protocol", f"what the Program wrote is not an answer: {error}")
        if answer is None:
            return
        broke = process.overspent(True, self._phase) or broke
        if broke is not None:
            self._break(broke)
        elif answer[0] == ACTION and self._phase == "act":
            self._on_action(answer[1])
        else:
            self._on_answer(*answer)

    def _on_ready(self) -> None:
        try:
            if not self.process.greet():
                return
        except EOFError:
            self._worker.forget(self)
            output = self.process.output.close().text.strip()[-_TEXT:]
            self._end(None, f"the Policy's process could not be started: {output}")
            return
        if self._refused is not None:
            self._fault(self._refused)
        else:
            self._ask(IMPORT, wire.encode(self.episode.policy_seed))

    def _on_writable(self) -> None:
        self.process.wire.flush()
        if not self.process.wire.blocked:
            self._worker.writable(self, False)

    def on_output(self) -> bool:
        """The process printed; False once its output is closed."""
        return self.process.output.drain()

    def on_ended(self, how: Ended) -> None:
        """What the fork server knows of a process whose wire closed."""
        broke = self.process.ended(how)
        if broke is not None:
            self._break(broke)

    def on_fault(self, error: Exception) -> None:
        """Handling it raised what nobody foresaw: this Episode is lost, and no other."""
        self._end(
            None,
            "the engine failed: "
            f"{_named(error)}\n{''.join(traceback.format_exception(error))[-_TEXT:]}",
        )

    def on_fork_server_lost(self) -> None:
        """The fork server ended, and with it the process."""
        self.process.local_pid = 0
        self._end(None, f"the Program's fork server ended: {self.process.fork_server.lost}")

    def check(self, now: float) -> None:
        """Called many times a second: the limits of a Policy that does not answer."""
        process, broke = self.process, None
        if process.ending:
            process.inquire()
            if process.late(now):
                self._end(
                    None,
                    f"how the Policy's process ended was not known after {SETUP_SECONDS:.0f} s",
                )
        elif process.local_pid:
            broke = process.overspent(False, self._phase) or process.silent(now, self._phase)
            broke = broke or process.dawdling(now)
        elif process.late(now):
            advice = process.fork_server.refused
            self._end(
                None, f"the Policy's process was not ready after {SETUP_SECONDS:.0f} s{advice}"
            )
        if broke is not None:
            self._break(broke)

    # --- the conversation -------------------------------------------------------------------------

    def _ask(self, kind: int, body: bytes, tail: memoryview | None = None) -> None:
        if not self.process.ask(kind, body, tail):
            self._worker.writable(self, True)

    def _on_answer(self, kind: int, body: bytes) -> None:
        if kind == FAILED:
            self._fail_as_told(body)
        elif self._phase == "act":
            self._break(
                Broke(
                    "protocol", f"what the Program wrote is not an Action: a frame of kind {kind}"
                )
            )
        elif self._phase == "reset":
            self._phase = "act"
            self._observe(self._first)
            self._first = None
        else:
            self._phase, question = _NEXT[self._phase]
            self._ask(question, b"")

    def _observe(self, observation: Any) -> None:
        try:
            body, tail = self._play.encode(observation)
        except Exception as error:
            self._fault(_fault(f"step {self._steps}: {_named(error)}", error))
            return
        self._ask(ACT, body, tail)

    def _on_action(self, body: bytes) -> None:
        play = self._play
        watch = play.watch
        try:
            action, clipped = play.read(body)
        except InvalidAction as error:
            self._break(Broke("invalid_action", str(error)[:500]))
            return
        except wire.WireError as error:
            self._break(
                Broke("protocol", f"what the Program wrote is not an Action: {str(error)[:300]}")
            )
            return
        except (
            Exception
        ) as error:  # reading touches nothing but the Program's own bytes: they are to blame
            self._break(Broke("invalid_action", f"the Action cannot be read: {_named(error)}"))
            return
        self._clipped += clipped
        self._room -= len(body)
        if self._room >= 0:
            self._actions.append(body)
        watch[1], watch[0] = self.job, time.monotonic()
        try:
            transition = self._environment.step(action)  # type: ignore[union-attr]
        except InvalidAction as error:  # what only the Environment can tell
            watch[0] = 0.0
            self._break(Broke("invalid_action", str(error)[:500]))
            return
        except BaseException as error:
            watch[0] = 0.0
            self._on_raised(error)
            return
        watch[0] = 0.0
        self._on_transition(action, transition)

    def _on_raised(self, error: BaseException) -> None:
        """A step raised: the Environment's fault, unless the Actions are to blame, which others
        then judge."""
        number = self._steps + 1
        fault = _fault(f"the Environment failed in step {number}: {_named(error)}", error)
        self._stop()
        looked_at = self._room >= 0 and repeat.may_be_actions(error)
        if looked_at and repeat.raises_again(
            type(error), self._make, self._actions, self._play, self._watched
        ):
            named = type(error).__name__[:100]
            message = (
                f"the Environment raises {named} in step {number} whenever it is given "
                "these Actions"
            )
            failure = PolicyFailure("invalid_action", message, "act", self._steps)
            fault = replace(fault, raised=self._outcome("failed", failure, self._measures_left()))
        self._fault(fault)

    def _measures_left(self) -> Any:
        """What an Environment that raised can still say of its Episode."""
        try:
            with self._watched():
                return public(
                    dict(self._environment.measures() if self._environment else {}), "measures"
                )
        except Exception:
            return {}

    def _on_transition(self, action: Any, transition: Transition) -> None:
        observation, reward, terminated, truncated, info = transition
        reward = float(reward)
        self._steps += 1
        if not math.isfinite(reward):
            self._fault(
                Fault(
                    "environment", f"the Environment gave the reward {reward} in step {self._steps}"
                )
            )
            return
        self._return += reward
        truncated = bool(truncated) or (self._steps >= self._play.max_steps and not terminated)
        if self._trace is not None:
            row = TraceRow(
                self._steps, observation, action, reward, bool(terminated), truncated, dict(info)
            )
            try:
                self._trace.write(row)
            except Exception as error:
                self._fault(
                    _fault(f"the trace cannot be written: {_named(error)}", error, "engine")
                )
                return
        if terminated or truncated:
            self._finish("terminated" if terminated else "truncated", None)
        else:
            self._observe(observation)

    # --- the end ----------------------------------------------------------------------------------

    def _fail_as_told(self, body: bytes) -> None:
        """What the process says of itself is the Program's word: bounded, and of no more weight
        than its Actions."""
        try:
            payload = wire.decode(body)
            kind, message, text, limit = (
                payload[key] for key in ("kind", "message", "traceback", "limit")
            )
            if not (isinstance(kind, str) and isinstance(message, str) and isinstance(text, str)):
                raise TypeError
            number = (
                float(limit) if isinstance(limit, int | float) and math.isfinite(limit) else None
            )
        except Exception:  # whatever it is that was made to be no answer
            self._break(Broke("protocol", "what the Program wrote is not an answer"))
            return
        known: dict[str, FailureKind] = {"memory": "memory", "invalid_action": "invalid_action"}
        self._break(Broke(known.get(kind, "exception"), message[:1000], number), text[: 3 * _TEXT])

    def _break(self, broke: Broke, text: str = "") -> None:
        step = self._steps if self._phase == "act" else None
        failure = PolicyFailure(broke.kind, broke.message, self._phase, step, text, broke.limit)
        self._finish("failed", failure)

    def _finish(
        self, ending: Literal["terminated", "truncated", "failed"], failure: PolicyFailure | None
    ) -> None:
        try:
            with self._watched():
                measures: Any = public(
                    dict(self._environment.measures() if self._environment else {}), "measures"
                )
        except Exception as error:
            self._fault(_fault(f"the Environment's measures: {_named(error)}", error))
            return
        self._stop()
        self._end(self._result(self._outcome(ending, failure, measures), None), "")

    def _outcome(
        self,
        ending: Literal["terminated", "truncated", "failed"],
        failure: PolicyFailure | None,
        measures: Any,
    ) -> Outcome:
        output = self.process.output.close()
        return Outcome(
            self.episode.index,
            self._return,
            self._steps,
            ending,
            failure,
            measures,
            output,
            self._clipped,
        )

    def _fault(self, fault: Fault) -> None:
        self._end(self._result(None, fault), "")

    def _result(self, outcome: Outcome | None, fault: Fault | None) -> EpisodeResult:
        wall = time.monotonic() - self._started
        return EpisodeResult(
            self.episode.index, outcome, fault, self._trace_path, self.process.used, wall
        )

    def _stop(self) -> None:
        self._worker.forget(self)
        self.process.kill()

    def _end(self, result: EpisodeResult | None, lost: str) -> None:
        if self._over:
            return
        self._over = True
        self._stop()
        self.process.output.close()
        with contextlib.suppress(Exception), self._watched():
            if self._environment is not None:
                self._environment.close()
        with contextlib.suppress(Exception):
            if self._trace is not None:
                self._trace.close()
        self._worker.done(self, result, lost)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def _fault(
    message: str, error: BaseException, kind: Literal["environment", "engine"] = "environment"
) -> Fault:
    return Fault(kind, message[:1000], "".join(traceback.format_exception(error))[-_TEXT:])


def shared_watch(buffer: Any) -> Any:
    """The three numbers of `Play.watch` over shared memory."""
    return memoryview(buffer)[:24].cast("d")
