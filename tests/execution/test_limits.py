"""Every limit of an Episode stands where it says: just under it all passes, just over it all ends
as its kind.

Counted in the Policy's own CPU seconds, or in bytes: how fast or busy the machine is decides
nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.ports.protocols import Isolation, Limits
from tests.execution import toys
from tests.execution.conftest import LIMITS, stalled_in_act

MIB = 1 << 20
POLICY = """
import time
def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
def make_policy(context):
    return Policy1()
class Policy1:
    calls = 0
    def act(self, observation):
        self.calls += 1
        if self.calls == 1 or {each}:
            {body}
        return 0
"""


class Row(NamedTuple):
    """One limit: what is set, and what a Policy's call does on either side of it."""

    limits: dict[str, Any]
    under: str
    over: str
    ends: tuple[str, float | None]
    """Kind and limit of the failure over it."""
    each: bool = False
    """In every one of the five calls, not in the first alone."""


FAILS = {
    "act_seconds": Row({"act_seconds": 1.0}, "burn(0.7)", "burn(1.3)", ("act_time", 1.0)),
    "episode_seconds": Row(
        {"episode_seconds": 3.0}, "burn(0.3)", "burn(0.8)", ("episode_time", 3.0), each=True
    ),
    "memory_bytes": Row(
        {}, "bytearray(256 << 20)", "bytearray(516 << 20)", ("memory", LIMITS.memory_bytes)
    ),
    "scratch_bytes": Row(
        {},
        f"open('file', 'wb').write(bytes({4 * MIB - 65536}))",
        f"open('file', 'wb').write(bytes({4 * MIB + 65536}))",
        ("exception", LIMITS.scratch_bytes),
    ),
}
TRIED_BELOW = {"output_bytes", "step_seconds", "stall_factor"}
"""One leaves out what is more, one is a fault, and just under the third is what the machine's load
decides."""


def test_every_limit_is_tried() -> None:
    assert {field.name for field in dataclasses.fields(Limits)} == FAILS.keys() | TRIED_BELOW


@pytest.mark.parametrize("name", FAILS)
def test_a_limit_stands_where_it_says(
    name: str, level: Isolation, program: Callable[..., Path]
) -> None:
    row = FAILS[name]
    limits = dataclasses.replace(LIMITS, **row.limits)
    with LocalExecutor(toys.reference(), limits, workers=1, isolation=level) as engine:
        under, over = (
            engine.evaluate(program(POLICY.format(each=row.each, body=body)), toys.episodes(1))[
                0
            ].outcome
            for body in (row.under, row.over)
        )
    assert under is not None and over is not None
    assert (under.failure, under.ending) == (None, "terminated")
    assert over.failure is not None
    assert (over.failure.kind, over.failure.limit, over.failure.phase) == (*row.ends, "act")


def test_a_call_without_an_answer_stalls_when_its_wall_time_is_over(
    level: Isolation, program: Callable[..., Path]
) -> None:
    limits = dataclasses.replace(LIMITS, act_seconds=0.5, stall_factor=4.0)
    folder = program(POLICY.format(each=False, body="time.sleep(3600)"))
    with LocalExecutor(toys.reference(), limits, workers=1, isolation=level) as engine:
        (result,) = stalled_in_act(lambda: engine.evaluate(folder, toys.episodes(1)))
    assert result.outcome is not None and result.outcome.failure is not None
    failure = result.outcome.failure
    assert (failure.kind, failure.limit, failure.phase) == ("stalled", 2.0, "act")


def test_output_is_kept_whole_up_to_its_limit(
    engine: LocalExecutor, program: Callable[..., Path]
) -> None:
    most = LIMITS.output_bytes
    under, over = (
        engine.evaluate(
            program(POLICY.format(each=False, body=f"print('x' * {size - 1})")), toys.episodes(1)
        )[0]
        for size in (most, most + 1)
    )
    assert under.outcome is not None and over.outcome is not None
    assert (under.outcome.output.omitted_bytes, len(under.outcome.output.text)) == (0, most)
    assert over.outcome.output.omitted_bytes >= 1


def test_a_call_of_the_environment_over_its_seconds_is_a_fault(
    make_engine: Callable[..., LocalExecutor], program: Callable[..., Path]
) -> None:
    folder = program(POLICY.format(each=False, body="pass"))
    under = make_engine(trouble="slow@step").evaluate(folder, toys.episodes(2))
    assert all(result.outcome is not None for result in under)
    tight = dataclasses.replace(LIMITS, step_seconds=2.0)
    over = make_engine(trouble="hang@step", limits=tight).evaluate(folder, toys.episodes(2))
    assert over[1].fault is not None and (over[1].fault.kind, "longer than 2 s" in over[1].fault.message) == (
        "environment", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "ending"), [(99, "terminated"), (100, "terminated"), (101, "truncated")]
)
def test_an_episode_has_as_many_steps_as_its_benchmark_says(
    make_engine: Callable[..., LocalExecutor], program: Callable[..., Path], steps: int, ending: str
) -> None:
    folder = program(POLICY.format(each=False, body="pass"))
    outcome = make_engine(steps=steps).evaluate(folder, toys.episodes(1))[0].outcome
    assert outcome is not None and (outcome.length, outcome.ending) == (min(steps, 100), ending)
