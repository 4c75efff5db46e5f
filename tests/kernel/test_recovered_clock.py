"""The clock of an agent whose Host was killed: as recovered from any beginning of the journal, so
it stood."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import Usage
from evopolicy.kernel.run.run import run
from evopolicy.kernel.session.journal import JOURNAL
from evopolicy.kernel.session.state import AttemptClock, fold
from tests.kernel.bench import (
    AGENT_LIMITS,
    WAIT,
    AgentCalls,
    FunctionAgent,
    Stage,
    events,
    wait_until,
)


class Truth:
    """Time that only moves where the test says so, and what it was used for."""

    def __init__(self) -> None:
        self.now = self.thought = self.evaluated = 0.0
        self.seen: list[tuple[str, float, float]] = []
        """Event, and how much had been thought and waited for when it was written."""

    def monotonic(self) -> float:
        return self.now

    def think(self, seconds: float) -> None:
        self.now += seconds
        self.thought += seconds

    def evaluate(self, made: Stage, seconds: float) -> None:
        """While a call of the agent waits."""
        (session,) = made.gateway.handlers.values()
        while True:
            wait_until(lambda: session._blocked.stands)
            with session._changed:  # what ends a wait holds it
                if session._blocked.stands:
                    self.now += seconds
                    self.evaluated += seconds
                    return

    def on_event(self, event: Mapping[str, Any]) -> None:
        self.seen.append((event["event"], round(self.thought, 3), round(self.evaluated, 3)))

    def on_progress(self, _progress: Any) -> None: ...


@pytest.fixture
def truth(monkeypatch: pytest.MonkeyPatch) -> Truth:
    made = Truth()
    for module in ("clock", "run.attempt"):
        monkeypatch.setattr(
            f"evopolicy.kernel.{module}.time", SimpleNamespace(monotonic=made.monotonic)
        )
    return made


def stage(root: Path, truth: Truth) -> Stage:
    """Submissions the agent waits for at once, only later, and in two calls with a thought between
    them."""
    between = threading.Event()

    def agent(call: AgentCalls) -> None:
        truth.think(0.1)
        answer = call.submit(2, "0:2")
        while answer["state"] == "running":
            answer = call("wait")
        truth.think(0.25)
        answer = call.submit(3, "2:4", detach=True)
        truth.think(2.0)
        while answer["state"] == "running":
            answer = call("wait")
        call("status")
        truth.think(0.5)
        answer = call.submit(4, "4:6")
        if answer["state"] == "running":
            truth.think(1.0)
            between.set()
        while answer["state"] == "running":
            answer = call("wait")
        truth.think(0.75)
        call("finish")
        truth.think(0.125)

    made = Stage(
        root, [agent], block_seconds=0.2, observers=[truth], agent=FunctionAgent(resumes=False)
    )
    evaluate, count = made.executor.evaluate, iter(range(100))

    def slow(*arguments: Any, **more: Any) -> Any:
        number = next(count)
        if number < 3:
            truth.evaluate(made, (4.0, 5.0, 6.0)[number])
        if number == 2:
            assert between.wait(WAIT)
            truth.evaluate(made, 3.0)
        return evaluate(*arguments, **more)

    made.executor.evaluate = slow  # type: ignore[method-assign]
    return made


def test_the_clock_recovered_from_any_beginning_of_the_journal_is_the_clock_as_it_ran(
    tmp_path: Path, truth: Truth
) -> None:
    made = stage(tmp_path / "whole", truth)
    whole = run(made.plan())
    assert (whole.state.thinking_seconds, whole.state.evaluating_seconds) == (4.725, 18.0)
    journal, seen = events(made.folder), list(truth.seen)
    assert [event["event"] for event in journal] == [word for word, _, _ in seen]
    assert {"wait_began", "wait_ended"} <= {event["event"] for event in journal}
    begun = next(n for n, event in enumerate(journal) if event["event"] == "agent_started")
    for n, (word, thought, evaluated) in enumerate(seen):
        state = fold(journal[: n + 1])
        clock = (
            state.thinking_seconds + state.attempt.thinking,
            state.evaluating_seconds + state.attempt.evaluating,
        )
        assert clock == (pytest.approx(thought), pytest.approx(evaluated)), f"{n} {word}"
        if n < begun:
            continue
        # And a Host that takes up the Run from there charges it so.
        again = replace_folder(made, tmp_path / f"from-{n}", n + 1)
        recovered = run(again.plan()).state
        clock = (recovered.thinking_seconds, recovered.evaluating_seconds)
        assert clock == (pytest.approx(thought), pytest.approx(evaluated)), f"{n} {word}"


def replace_folder(made: Stage, root: Path, lines: int) -> Stage:
    """The Run as a Host left it that was killed after `lines` of its journal. Its agent cannot
    resume."""
    shutil.copytree(made.root, root, symlinks=True)
    again = Stage(root, [lambda _: None], agent=FunctionAgent(resumes=False))
    kept = (made.folder / JOURNAL).read_bytes().splitlines(keepends=True)[:lines]
    (again.folder / JOURNAL).write_bytes(b"".join(kept))
    return again


def finishes(call: AgentCalls) -> None:
    call("wait")
    call("finish")


def test_four_seconds_of_waiting_are_no_thought_after_a_kill(tmp_path: Path, truth: Truth) -> None:
    """0.1 s of thought, 4 s of waiting in which the Host is killed, a limit of 2 s: the agent goes
    on."""
    made = stage(tmp_path / "whole", truth)
    run(made.plan())
    at = next(n for n, event in enumerate(events(made.folder)) if event["event"] == "reserved")
    again = replace_folder(made, tmp_path / "again", at + 1)
    # What it printed tells when it was last heard: after the wait had begun.
    (again.folder / "agent" / "attempt-1" / "stdout.log").write_text('{"text": "waiting"}\n')
    (again.folder / "agent" / "attempt-1" / "stdout.times").write_text("0 4.0\n")
    again.agent = FunctionAgent(resumes=True)
    again.limits = replace(AGENT_LIMITS, wall_seconds=2.0)
    again.launcher.functions = [finishes]
    finished = run(again.plan())
    assert (finished.state.agent_ended, finished.valid, finished.result.reasons) == (
        "finished",
        True,
        (),
    )
    assert finished.state.thinking_seconds == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("clock", "heard", "thinking"),
    [
        (AttemptClock(1.0, 4.0, waiting=False), 7.0, 3.0),  # it thought on and said so
        (AttemptClock(1.0, 4.0, waiting=True), 7.0, 1.0),
        (AttemptClock(1.0, 4.0), 4.5, 1.0),  # heard before the event
        (AttemptClock(1.0, 4.0), None, 1.0),
        (AttemptClock(), 2.0, 2.0),
    ],
)
def test_what_it_printed_after_the_last_event_tells_how_long_it_thought_on(
    clock: AttemptClock, heard: float | None, thinking: float
) -> None:
    assert clock.at(heard).thinking == thinking


def test_what_a_killed_attempt_waited_for_its_provider_is_no_thinking(
    tmp_path: Path, truth: Truth
) -> None:
    made = stage(tmp_path / "whole", truth)
    run(made.plan())
    begun = next(n for n, event in enumerate(events(made.folder)) if event["event"] == "reserved")
    again = replace_folder(made, tmp_path / "from", begun + 1)
    again.launcher.proxy_usage = lambda _logs: ProxyUsage(Usage(), answers=1, waited_seconds=0.06)  # type: ignore[method-assign]
    state = run(again.plan()).state
    assert (state.agent_ended, state.thinking_seconds, state.waiting_seconds) == (
        "host_killed",
        0.04,
        0.06,
    )
