"""Measures the Episode engine against the design's numbers, each as a ratio or difference within
one run.

    python scripts/measure_engine.py [--isolation LEVEL ...] [--repeats N] [--quick] [--json]

Every row is the median of repeats; in each, a bare loop of the same Environment and Policy in one
process runs right beside the engine, so that a slow or busy machine slows both. Numbers of a
machine that does other work are no good.

Two rows are not of that kind. Memory is measured once, and up to 4 MiB of growth count as flat:
allocators and caches come and go by that, and it is less than 5 KiB for each of 900 Episodes. A
cell's overhead is measured in one small sweep by the command line: its wall time, less what the
cells' journals give to agent and Episodes, over the cells."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.execution.machine import cores
from evopolicy.kernel import spaces
from evopolicy.kernel.policy import PolicyContext, bind
from evopolicy.kernel.ports.benchmark import (
    Benchmark,
    BenchmarkReference,
    BenchmarkSpec,
    EpisodeSpec,
    Transition,
)
from evopolicy.kernel.ports.protocols import Limits
from evopolicy.kernel.session.record import Run, load_run

LIMITS = Limits(5.0, 300.0, 2 << 30, 65_536, 64 << 20, 60.0, 60.0)
STEADY = "class P:\n    def act(self, obs): return 0\ndef make_policy(context): return P()\n"
STEADY_BOX = (
    "import numpy as np\nclass P:\n    a = np.zeros(6, np.float32)\n    def act(self, obs): "
    "return self.a\n"
    "def make_policy(context): return P()\n"
)


# --- a task that costs nothing, so that what is measured is the engine ----------------------------


class _Null:
    def __init__(self, steps: int, observation: Any) -> None:
        self._left, self._observation = steps, observation

    def reset(self) -> Any:
        return self._observation

    def step(self, action: Any) -> Transition:  # noqa: ARG002 (the protocol names it)
        self._left -= 1
        return Transition(self._observation, 0.0, self._left == 0, False)

    def measures(self) -> Mapping[str, Any]:
        return {}

    def close(self) -> None:
        pass


class _NullBenchmark:
    def __init__(self, steps: int, frame: bool) -> None:
        self._steps = steps
        space = (
            spaces.box(0, 255, (96, 96, 3), "uint8")
            if frame
            else spaces.box(-1.0, 1.0, (17,), "float64")
        )
        self.observation = np.zeros(space.shape, space.dtype)
        self.spec = BenchmarkSpec(
            id="measure/Null-v0",
            slug="null",
            title="Null",
            goal="",
            scoring="",
            ending="",
            observation_space=space,
            action_space=spaces.box(-1.0, 1.0, (6,)),
            max_steps=steps,
            failure_score=0.0,
        )

    def make(self, _episode: EpisodeSpec) -> _Null:
        return _Null(self._steps, self.observation)


def null(steps: int, frame: bool = False) -> _NullBenchmark:
    """Factory of the null task; workers import this file as `measure_engine`."""
    return _NullBenchmark(steps, frame)


# --- running --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    name: str
    value: float
    unit: str
    reach: float
    at_least: bool
    detail: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.reach if self.at_least else self.value <= self.reach


def specs(count: int, first: int = 0) -> list[EpisodeSpec]:
    return [EpisodeSpec(i, 1_000 + i, 2_000 + i) for i in range(first, first + count)]


def bare(benchmark: Any, program: Path, episodes: Sequence[EpisodeSpec]) -> float:
    """Wall seconds of the same Episodes in this process: a fresh Environment and Policy each,
    nothing between them."""
    module_spec = importlib.util.spec_from_file_location("measured_policy", program / "policy.py")
    assert module_spec is not None and module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    spec = benchmark.spec
    began = time.perf_counter()
    for episode in episodes:
        context = PolicyContext(
            spec.observation_space,
            spec.action_space,
            spec.parameters,
            episode.policy_seed,
            spec.max_steps,
        )
        policy, environment = bind(module, context), benchmark.make(episode)
        policy.reset()
        observation = environment.reset()
        for _ in range(spec.max_steps):
            observation, _reward, terminated, truncated, _info = environment.step(
                policy.act(observation)
            )
            if terminated or truncated:
                break
        environment.close()
    return time.perf_counter() - began


@contextmanager
def engine(reference: BenchmarkReference, level: Any, **options: Any) -> Iterator[LocalExecutor]:
    options = {"workers": cores(), **options}
    with LocalExecutor(reference, LIMITS, isolation=level, **options) as executor:
        yield executor


def timed(executor: LocalExecutor, program: Path, episodes: Sequence[EpisodeSpec]) -> float:
    began = time.perf_counter()
    results = executor.evaluate(program, episodes)
    seconds = time.perf_counter() - began
    bad = [result for result in results if result.outcome is None or result.outcome.failure]
    if bad:
        sys.exit(f"an Episode that should have been played was not: {bad[0]}")
    return seconds


def repeated(repeats: int, measure: Callable[[], float]) -> tuple[float, str]:
    values = sorted(measure() for _ in range(repeats))
    return statistics.median(values), f"{values[0]:.3g} ... {values[-1]:.3g}"


@contextmanager
def program(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="evopolicy-measure-") as folder:
        (Path(folder) / "policy.py").write_text(text)
        yield Path(folder)


# --- the rows -------------------------------------------------------------------------------------


def fixed_cost(level: Any, repeats: int, count: int) -> Row:
    """Of an Episode of one step, one after the other."""
    reference, benchmark = BenchmarkReference("measure_engine:null", {"steps": 1}), null(1)
    with program(STEADY_BOX) as folder, engine(reference, level, workers=1, lanes=1) as executor:
        timed(executor, folder, specs(10))

        def measure() -> float:
            loop = bare(benchmark, folder, specs(count))
            return (timed(executor, folder, specs(count)) - loop) / count * 1e3

        value, detail = repeated(repeats, measure)
    return Row("fixed cost of an Episode, one at a time", value, "ms", 5.0, False, detail)


def step_cost(
    level: Any, repeats: int, steps: int, *, frame: bool, lanes: int, reach: float
) -> Row:
    """What a step costs more than in a bare loop."""
    parameters = {"steps": steps, "frame": frame}
    reference, benchmark = BenchmarkReference("measure_engine:null", parameters), null(steps, frame)
    with (
        program(STEADY_BOX) as folder,
        engine(reference, level, workers=1, lanes=lanes) as executor,
    ):
        timed(executor, folder, specs(2))

        def measure() -> float:
            loop = bare(benchmark, folder, specs(lanes))
            return (timed(executor, folder, specs(lanes)) - loop) / lanes / steps * 1e6

        value, detail = repeated(repeats, measure)
    what = "96x96x3 frame" if frame else "17 numbers"
    return Row(
        f"added cost of a step, {what}, {lanes} lane{'s' * (lanes > 1)}",
        value,
        "us",
        reach,
        False,
        detail,
    )


def cheetah(level: Any, repeats: int, episodes: int) -> Row:
    """Isolated Episodes per second over what all cores could do with bare loops."""
    from evopolicy_mujoco import load

    benchmark: Benchmark = load("half_cheetah")
    folder = benchmark.programs["initial"]
    with engine(benchmark.reference, level) as executor:
        timed(executor, folder, specs(2 * cores()))

        def measure() -> float:
            return (
                bare(benchmark, folder, specs(episodes))
                / timed(executor, folder, specs(episodes))
                / cores()
            )

        value, detail = repeated(repeats, measure)
    return Row(
        "HalfCheetah-v5: isolated / (cores x bare), Episodes per second",
        value,
        "",
        0.75,
        True,
        detail,
    )


def cartpole(level: Any, repeats: int, episodes: int) -> Row:
    """Short Episodes, where the fixed cost is all there is."""
    from evopolicy_classic_control import load

    benchmark: Benchmark = load("cartpole")
    with program(STEADY) as folder, engine(benchmark.reference, level) as executor:
        timed(executor, folder, specs(2 * cores()))

        def measure() -> float:
            loop = bare(benchmark, folder, specs(episodes))
            return timed(executor, folder, specs(episodes)) / loop

        value, detail = repeated(repeats, measure)
    return Row("CartPole of ~10 steps: isolated / bare, wall time", value, "x", 20.0, False, detail)


def memory(level: Any, benchmark: Benchmark, folder: Path, episodes: int) -> Row:
    """What the Host's memory grows by in one Evaluation, from the 100th Episode (the half of a
    shorter one) on.

    4 MiB are allowed: see above.
    """
    seen: list[int] = []
    page = resource.getpagesize()

    def progress(_result: object) -> None:
        seen.append(int(Path("/proc/self/statm").read_text().split()[1]) * page)

    with (
        engine(benchmark.reference, level) as executor,
        tempfile.TemporaryDirectory(prefix="evopolicy-measure-") as traces,
    ):
        executor.evaluate(folder, specs(episodes), traces=Path(traces), progress=progress)
    first = min(100, episodes // 2)
    grown = (seen[-1] - seen[first]) / 2**20
    name = f"Host memory, {benchmark.spec.title}, Episode {first} to {episodes}, traced"
    return Row(name, grown, "MiB", 4.0, False)


def memories(level: Any) -> Iterator[Row]:
    from evopolicy_classic_control import load as load_classic
    from evopolicy_mujoco import load as load_mujoco

    cartpole, cheetah = load_classic("cartpole"), load_mujoco("half_cheetah")
    with program(STEADY) as folder:
        yield memory(level, cartpole, folder, 1_000)
    yield memory(level, cheetah, cheetah.programs["initial"], 200)


def overhead(level: Any, cells: int) -> Row:
    """Wall seconds a cell of a sweep takes beside its agent and its Episodes; the command's own
    start is shared out."""
    with tempfile.TemporaryDirectory(prefix="evopolicy-measure-") as output:
        settings = [
            *(
                "agent=baseline",
                "benchmark=cartpole",
                f"seed=range(0,{cells})",
                "protocol=smoke",
                "tracking=off",
            ),
            *(
                "launcher.cells=1",
                f"execution.isolation={level}",
                "execution.allow_unisolated=true",
            ),
        ]
        command = [sys.executable, "-m", "evopolicy.cli.main", *settings, f"output={output}"]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        runs = [
            load_run(record.parent) for record in Path(output, "runs").glob("*/*/*/record.json")
        ]
    if done.returncode or len(runs) != cells or not all(run.valid for run in runs):
        sys.exit(
            "a sweep that should have been run was not: "
            f"{done.stderr[-2000:] or done.stdout[-2000:]}"
        )
    spent = sum(map(_accounted, runs))
    detail = f"{cells} cells, {spent / cells:.3g} s each in them"
    return Row(
        "a cell's overhead outside agent and Episodes",
        (seconds - spent) / cells,
        "s",
        3.0,
        False,
        detail,
    )


def _accounted(run: Run) -> float:
    """Wall seconds of a Run's agent, its Submissions included, and of Validation and Assessment."""
    return (
        run.state.thinking_seconds
        + run.state.evaluating_seconds
        + sum(run.result.wall_seconds.values())
    )


def yardsticks() -> dict[str, float]:
    """What this machine does by itself: a socket round trip between two threads, and a loop."""
    ours, theirs = socket.socketpair()
    count = 5_000

    def echo() -> None:
        while data := theirs.recv(64):
            theirs.send(data)

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    began = time.perf_counter()
    for _ in range(count):
        ours.send(b"x")
        ours.recv(64)
    trip = (time.perf_counter() - began) / count * 1e6
    ours.close()
    began = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number
    return {
        "socket_round_trip_us": trip,
        "million_additions_ms": (time.perf_counter() - began) * 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--isolation", nargs="+", default=["auto"], help="levels, measured one after the other"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer Episodes and no HalfCheetah")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    reports = [measured(level, arguments.repeats, arguments.quick) for level in arguments.isolation]
    machine = {
        "cores": cores(),
        "machine": platform.processor() or platform.machine(),
        **yardsticks(),
    }
    if arguments.json:
        print(
            json.dumps(
                [{**machine, "isolation": level, "rows": _plain(rows)} for level, rows in reports],
                indent=2,
            )
        )
        return
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    for level, rows in reports:
        print(f"isolation {level}")
        for row in rows:
            sign = ">=" if row.at_least else "<="
            print(
                f"{row.name:66} {row.value:9.3g} {row.unit:4} {sign} {row.reach:<6g} "
                f"{row.detail:24} {_verdict(row)}"
            )


def measured(level: Any, repeats: int, quick: bool) -> tuple[str, list[Row]]:
    """The level that really held, and every row at it."""
    with engine(BenchmarkReference("measure_engine:null", {"steps": 1}), level) as executor:
        holds = executor.isolation
    rows = [
        fixed_cost(level, repeats, 30 if quick else 100),
        step_cost(level, repeats, 1_000 if quick else 4_000, frame=False, lanes=1, reach=25.0),
        step_cost(level, repeats, 1_000 if quick else 4_000, frame=False, lanes=4, reach=25.0),
        step_cost(level, repeats, 500 if quick else 2_000, frame=True, lanes=1, reach=100.0),
        cartpole(level, repeats, 50 if quick else 200),
        overhead(holds, 2 if quick else 8),
    ]
    if not quick:
        rows += [cheetah(level, repeats, 8 * cores()), *memories(level)]
    return holds, rows


def _plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{**asdict(row), "met": row.met} for row in rows]


def _verdict(row: Row) -> str:
    return "met" if row.met else "MISSED"


if __name__ == "__main__":
    main()
