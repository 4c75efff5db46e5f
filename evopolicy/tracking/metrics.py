"""The metrics of one Run, as points: a pure function of its journal.

What grows with the budget has the Episode units consumed as its step. What is measured once
(held-out scores, times, usage) is at step 0, because MLflow draws a metric as bars only where no
run has it at a later step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from evopolicy.kernel.ports.transcript import usage_numbers
from evopolicy.kernel.session.journal import Event
from evopolicy.kernel.session.record import RunRecord
from evopolicy.kernel.session.selection import Measurement
from evopolicy.kernel.session.state import ResultState, RunState, SubmissionState, add_usage

COUNTED = ("turns", "tool_calls", "unexplained_tokens")
"""What an attempt's end counts beside its usage."""
HELDOUT = "/heldout"


def heldout_metric(benchmark: str) -> str:
    """The held-out score on one Benchmark, whose name comes first: a chart's title is cut at its
    end."""
    return f"{benchmark}{HELDOUT}"


@dataclass(frozen=True)
class Point:
    """One value of one metric."""

    key: str
    value: float
    step: int
    """Episode units consumed; 0 for what is measured once."""
    time: float
    """Unix seconds."""
    program: str = ""
    """Digest of the submitted Program it is bound to; '' for none."""

    @property
    def milliseconds(self) -> int:
        return round(self.time * 1000)


@dataclass
class _Reading:
    """How far the journal was read."""

    record: RunRecord
    submissions: Mapping[int, SubmissionState]
    result: ResultState
    spent: int = 0
    best: float = -math.inf
    refusals: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Of all attempts so far."""

    def bound(self, program: str) -> str:
        """`program` where it was submitted; the initial Program is no submitted one."""
        return program if any(s.program == program for s in self.submissions.values()) else ""

    def add_seconds(self, phase: str, event: Event, key: str) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + float(event.get(key) or 0.0)


def run_points(record: RunRecord, state: RunState, events: Sequence[Event]) -> Iterator[Point]:
    """Every point of the Run, in journal order; values that are not finite are left out."""
    reading = _Reading(
        record,
        {s.id: s for s in state.submissions},
        state.results.get(record.result_key, ResultState()),
    )
    for event in events:
        if event.get("result", record.result_key) != record.result_key:
            continue
        for point in _AT.get(event["event"], _nothing)(reading, event):
            if math.isfinite(point.value):
                yield point


def _nothing(_: _Reading, __: Event) -> Iterator[Point]:
    return iter(())


def _reserved(reading: _Reading, event: Event) -> Iterator[Point]:
    reading.spent = reading.submissions[event["submission"]].units_used
    yield from ()


def _published(reading: _Reading, event: Event) -> Iterator[Point]:
    submission = reading.submissions[event["submission"]]
    score, time, step = float(event["score"]), event["time"], submission.units_used
    reading.best = max(reading.best, score)
    reading.add_seconds("policy", event, "policy_seconds")
    yield Point("submission/score", score, step, time, submission.program)
    yield Point("submission/best", reading.best, step, time)
    yield Point(
        "submission/failures", float(sum((event.get("failures") or {}).values())), step, time
    )


def _refused(reading: _Reading, _: Event) -> Iterator[Point]:
    reading.refusals += 1
    yield from ()


def _agent_ended(reading: _Reading, event: Event) -> Iterator[Point]:
    for phase in ("thinking", "evaluating"):
        reading.add_seconds(phase, event, f"{phase}_seconds")
        yield Point(f"time/{phase}_seconds", reading.seconds[phase], 0, event["time"])
    counted = {key: event[key] for key in COUNTED if event.get(key) is not None}
    reading.usage = add_usage(reading.usage, {**(event.get("usage") or {}), **counted})
    for key, value in usage_numbers(reading.usage).items():
        yield Point(f"usage/{key}", value, 0, event["time"])


def _validated(reading: _Reading, event: Event) -> Iterator[Point]:
    measured = msgspec.convert(event["measurement"], Measurement)
    reading.add_seconds("validation", event, "wall_seconds")
    for submission in reading.submissions.values():
        if submission.program == event["program"] and submission.status == "published":
            step = submission.units_used
            yield Point(
                "validation/score",
                measured.mean,
                step,
                event["time"],
                reading.bound(event["program"]),
            )


def _selected(reading: _Reading, event: Event) -> Iterator[Point]:
    measured = reading.result.validation.get(event["program"])
    if measured is not None:
        program = reading.bound(event["program"])
        yield Point("validation/selected", measured.mean, 0, event["time"], program)


def _assessed(reading: _Reading, event: Event) -> Iterator[Point]:
    measured = msgspec.convert(event["measurement"], Measurement)
    reading.add_seconds("assessment", event, "wall_seconds")
    program = reading.bound(reading.result.selected or "")
    values = {
        "heldout/score": measured.mean,
        heldout_metric(reading.record.benchmark.slug): measured.mean,
        "heldout/standard_error": measured.standard_error,
        "heldout/failures": float(measured.failed),
    }
    for key, value in values.items():
        if value is not None:
            yield Point(key, value, 0, event["time"], program if key == "heldout/score" else "")


def _ended(reading: _Reading, event: Event) -> Iterator[Point]:
    step, time = 0, event["time"]
    for phase in ("validation", "assessment", "policy"):
        yield Point(f"time/{phase}_seconds", reading.seconds.get(phase, 0.0), step, time)
    total = sum(seconds for phase, seconds in reading.seconds.items() if phase != "policy")
    yield Point("time/total_seconds", total, step, time)
    settled = reading.submissions.values()
    yield Point("session/submissions", float(len(settled)), step, time)
    yield Point("session/episodes", float(reading.spent), step, time)
    yield Point("session/refusals", float(reading.refusals), step, time)
    yield Point(
        "session/engine_faults", float(sum(s.status == "failed" for s in settled)), step, time
    )


_AT: dict[str, Callable[[_Reading, Event], Iterator[Point]]] = {
    "reserved": _reserved,
    "published": _published,
    "refused": _refused,
    "agent_ended": _agent_ended,
    "validated": _validated,
    "selected": _selected,
    "assessed": _assessed,
    "ended": _ended,
}
