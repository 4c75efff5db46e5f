"""Engines shared by the engine's tests: starting one costs more than an Episode."""

from __future__ import annotations

import contextlib
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution import isolation
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.ports.outcome import EpisodeResult, PolicyFailure
from evopolicy.kernel.ports.protocols import Isolation, Limits
from tests.execution import toys

# Time enough for any machine under any load: what a test says of time it says with limits of its
# own.
LIMITS = Limits(
    act_seconds=30.0,
    episode_seconds=120.0,
    memory_bytes=512 << 20,
    output_bytes=4096,
    scratch_bytes=4 << 20,
    step_seconds=300.0,
    stall_factor=20.0,
)

LEVELS: tuple[Isolation, ...] = tuple(found.level for found in isolation.probe_all() if found.works)


def alive(marker: str) -> list[int]:
    """Processes of this machine that have `marker` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


PATIENCE = 240.0
"""Seconds after which a test gives up what it waits for; never a measure of speed."""


def becomes(what: Callable[[], object]) -> bool:
    """Whether `what` comes true while anyone would still wait for it."""
    end = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def stalled_in_act(play: Callable[[], list[EpisodeResult]]) -> list[EpisodeResult]:
    """What `play` gives once the machine has time for the calls that come first: their wall time is
    as short as that of the call that is meant to stall."""
    for _ in range(20):
        results = play()
        early = [
            result
            for result in results
            if result.outcome and _stalled_early(result.outcome.failure)
        ]
        if not early:
            return results
    raise AssertionError(f"no call before the one that is meant to stall ever answers: {early}")


def _stalled_early(failure: PolicyFailure | None) -> bool:
    return failure is not None and failure.kind == "stalled" and failure.phase != "act"


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a Program: `policy.py` from its first argument, other files by
    keyword-free dict."""
    made = [0]

    def write(source: str, files: dict[str, str] | None = None) -> Path:
        made[0] += 1
        folder = tmp_path / f"program-{made[0]}"
        folder.mkdir()
        for name, text in {"policy.py": source, **(files or {})}.items():
            (folder / name).write_text(textwrap.dedent(text))
        return folder

    return write


@pytest.fixture(scope="session")
def make_engine() -> Iterator[Callable[..., LocalExecutor]]:
    """A function that makes an engine (or hands out the same again) and closes all of them at the
    end."""
    engines: dict[str, LocalExecutor] = {}

    def make(
        *,
        isolation: Any = LEVELS[0],
        workers: int = 1,
        limits: Limits = LIMITS,
        lanes: int = 4,
        **toy: Any,
    ) -> LocalExecutor:
        key = repr((isolation, workers, limits, lanes, sorted(toy.items())))
        if key not in engines:
            while len(engines) >= 4:
                engines.pop(next(iter(engines))).close()
            engines[key] = LocalExecutor(
                toys.reference(**toy),
                limits,
                workers=workers,
                isolation=isolation,
                lanes=lanes,
                picture_seconds=300.0,
            )
        return engines[key]

    yield make
    for engine in engines.values():
        engine.close()


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Isolation:
    """Every isolation level that works here, one test each."""
    found: Isolation = request.param
    return found


@pytest.fixture
def engine(make_engine: Callable[..., LocalExecutor], level: Isolation) -> LocalExecutor:
    return make_engine(isolation=level, workers=2)
