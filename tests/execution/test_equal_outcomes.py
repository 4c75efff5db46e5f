"""The same Program and seeds end alike at every isolation level, with any number of workers, on a
busy machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.ports.benchmark import BenchmarkReference, EpisodeSpec
from evopolicy.kernel.ports.protocols import Isolation, Limits
from tests.execution import toys
from tests.execution.conftest import LEVELS

LIMITS = Limits(10.0, 120.0, 1 << 30, 1 << 16, 4 << 20, 120.0, 50.0)

# Uses what could differ between processes: random generators, hash order, state, files, output.
STATEFUL = """
    import os
    import random

    import numpy as np

    class Stateful:
        def __init__(self, context):
            self.own = np.random.default_rng(context.seed)
            self.words = {f"word-{number}" for number in range(100)}
            self.total = 0.0

        def act(self, observation):
            self.total += float(np.sum(np.sin(np.asarray(observation, float)))) + random.random() + np.random.normal()
            words = "".join(self.words)
            with open("log", "a") as file:
                file.write(f"{self.total!r}\\n")
            with open("log") as file:
                lines = len(file.readlines())
            print(repr(self.total), hash(words), lines, os.listdir("."), len(os.environ))
            value = self.total * 1e6 + hash(words) % 1000 + self.own.random() + lines
            if value % 97 < 0.5:
                raise ValueError(f"unlucky {value!r} in {os.path.basename(__file__)}")
            return self.choose(value)

        def choose(self, value):
            return int(value) % 2
    def make_policy(context):
        return Stateful(context)
"""
CHEETAH = STATEFUL.replace("return int(value) % 2", "return np.sin(value + np.arange(6))")


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that do nothing but use the cores."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def outcomes(
    reference: BenchmarkReference, program: Path, count: int, level: Isolation, workers: int
) -> bytes:
    episodes = [EpisodeSpec(index, 40 + 11 * index, 900 + 17 * index) for index in range(count)]
    with LocalExecutor(
        reference, LIMITS, workers=workers, isolation=level, policy_packages=("numpy",)
    ) as engine:
        results = engine.evaluate(program, episodes)
    assert len(results) == count and all(result.outcome is not None for result in results), results
    return msgspec.msgpack.encode([result.outcome for result in results])


def in_all_ways(
    reference: BenchmarkReference, program: Path, count: int, ways: list[tuple[Isolation, int]]
) -> dict[str, bytes]:
    """Each way's outcomes as bytes, by its name; at every level once more beside busy processes."""
    found = {
        f"{level}, {workers} workers": outcomes(reference, program, count, level, workers)
        for level, workers in ways
    }
    with busy(4):
        for level in dict.fromkeys(level for level, _ in ways):
            found[f"{level}, under load"] = outcomes(reference, program, count, level, 2)
    return found


def different(found: dict[str, bytes]) -> list[str]:
    """The ways whose outcomes are not those of the first."""
    first = next(iter(found.values()))
    return [way for way, outcome in found.items() if outcome != first]


def test_a_program_lies_at_the_same_place_for_every_worker_and_fork_server(
    make_engine: Callable[..., LocalExecutor], level: Isolation, program: Callable[..., Path]
) -> None:
    source = """
        import os
        def make_policy(context): return Says()
        class Says:
            def act(self, observation):
                print(__file__, os.path.realpath(__file__), open(os.path.realpath(__file__)).read().count("Says"))
                return 0
    """
    one, other = program(source), program(source.replace("Says", "Other"))
    engine = make_engine(isolation=level, workers=2, steps=1)
    said = set()
    for folder in (one, other, one):
        for result in engine.evaluate(folder, toys.episodes(8)):
            assert result.outcome is not None and result.outcome.failure is None
            said |= {result.outcome.output.text} if folder is one else set()
    assert len(said) == 1


@pytest.mark.slow
def test_a_stateful_policy_of_cartpole_ends_alike_everywhere(program: Callable[..., Path]) -> None:
    reference = pytest.importorskip("evopolicy_classic_control").load("cartpole").reference
    ways: list[tuple[Isolation, int]] = [
        (LEVELS[0], 8),
        *((level, workers) for level in LEVELS for workers in (1, 2)),
    ]
    found = in_all_ways(reference, program(STATEFUL), 12, ways)
    assert len(found) == 3 * len(LEVELS) + 1
    assert different(found) == []


@pytest.mark.slow
def test_a_stateful_policy_of_half_cheetah_ends_alike_at_every_level(
    program: Callable[..., Path],
) -> None:
    reference = pytest.importorskip("evopolicy_mujoco").load("half_cheetah").reference
    found = in_all_ways(reference, program(CHEETAH), 4, [(level, 2) for level in LEVELS])
    assert len(found) == 2 * len(LEVELS)
    assert different(found) == []
