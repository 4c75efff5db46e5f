"""The contract of an Executor: `check_executor(make)`, or a test class that inherits
ExecutorContract.

It brings its own Benchmark, a counting task without dependencies, so that an Executor from outside
is tested alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from evopolicy.kernel import spaces
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.benchmark import (
    Artifact,
    BenchmarkReference,
    BenchmarkSpec,
    EpisodeSpec,
    Split,
    Transition,
)
from evopolicy.kernel.ports.outcome import EpisodeResult, Outcome
from evopolicy.kernel.ports.protocols import ISOLATIONS, Executor, Limits, RenderJob
from evopolicy.kernel.trace import read_trace

STEPS = 6
BROKEN = 3
"""Episodes whose index leaves this remainder by 4 break in their Environment's second step."""
LIMITS = Limits(
    act_seconds=1.0,
    episode_seconds=10.0,
    memory_bytes=512 << 20,
    output_bytes=4096,
    scratch_bytes=4 << 20,
    step_seconds=30.0,
    stall_factor=120.0,
)
_FORMAT = (
    "class P:\n    {state}\n    def act(self, obs):\n        {act}\ndef "
    "make_policy(context): return P()\n"
)

Make = Callable[[BenchmarkReference, Limits], Executor]


class _Counting:
    """Environment: the reward of a step is its Action plus a number drawn from the Episode's
    seed."""

    def __init__(self, episode: EpisodeSpec) -> None:
        self._rng = np.random.default_rng(episode.seed)
        self._breaks = episode.index % 4 == BROKEN
        self._steps = 0

    def reset(self) -> Any:
        return self._rng.random(2)

    def step(self, action: Any) -> Transition:
        self._steps += 1
        if self._breaks and self._steps == 2:
            raise RuntimeError("broken on purpose")
        reward = float(action) + float(self._rng.random())
        return Transition(
            self._rng.random(2), reward, self._steps == STEPS, False, {"count": self._steps}
        )

    def measures(self) -> Mapping[str, Any]:
        return {"count": self._steps}

    def close(self) -> None:
        pass


class _CountingBenchmark:
    """See the module."""

    @property
    def spec(self) -> BenchmarkSpec:
        return BenchmarkSpec(
            id="contract/Counting-v0",
            slug="contract_counting",
            title="Counting",
            goal="Choose 2.",
            scoring="The sum of the Actions and of noise.",
            ending=f"After {STEPS} steps.",
            observation_space=spaces.box(0.0, 1.0, (2,), "float64"),
            action_space=spaces.Discrete(3),
            max_steps=STEPS,
            failure_score=0.0,
        )

    @property
    def reference(self) -> BenchmarkReference:
        return BenchmarkReference("evopolicy.execution.contract:load")

    @property
    def programs(self) -> Mapping[str, Path]:
        return {}

    def plan(self, split: Split, seed: int) -> Mapping[str, Any]:  # noqa: ARG002 (the protocol names them)
        return {}

    def make(self, episode: EpisodeSpec) -> _Counting:
        return _Counting(episode)

    def score(self, outcome: Outcome) -> float:
        return outcome.episode_return

    def summarize(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
        return {"episodes": len(outcomes)}

    def artifacts(self, results: Sequence[EpisodeResult], folder: Path) -> Sequence[Artifact]:  # noqa: ARG002
        return []

    def pictured(self, results: Sequence[EpisodeResult]) -> Sequence[int]:  # noqa: ARG002
        return []

    def render(self, episode: EpisodeSpec, trace: Path, folder: Path) -> Sequence[Artifact]:
        if episode.index == BROKEN:
            raise RuntimeError("cannot be drawn on purpose")
        path = folder / f"{episode.index}.txt"
        path.write_text(trace.name)
        return [Artifact(path.name, path, "text/plain")]


def load() -> _CountingBenchmark:
    """The contract's own Benchmark; its reference names this."""
    return _CountingBenchmark()


def check_executor(make: Make) -> None:
    """Raises ExecutionError with every rule that the Executors of `make` break, one a line."""
    broken = []
    for check in CHECKS:
        executor = make(load().reference, LIMITS)
        try:
            check(executor)
        except (AssertionError, ExecutionError) as error:
            words = " ".join(str(error).split())
            broken.append(
                f"- {(check.__doc__ or check.__name__).splitlines()[0]} {words[:300]}".rstrip()
            )
        finally:
            executor.close()
    if broken:
        raise ExecutionError("the Executor breaks its contract:\n" + "\n".join(broken))


def episodes(count: int) -> list[EpisodeSpec]:
    """Specs 0 ... count - 1, none of which breaks but those that `BROKEN` says."""
    return [EpisodeSpec(index, 100 + index, 10_000 + index) for index in range(count)]


def _sound(count: int) -> list[EpisodeSpec]:
    return [episode for episode in episodes(2 * count) if episode.index % 4 != BROKEN][:count]


@contextmanager
def _program(act: str, state: str = "pass") -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="evopolicy-contract-") as folder:
        (Path(folder) / "policy.py").write_text(_FORMAT.format(act=act, state=state))
        yield Path(folder)


def _outcomes(results: Sequence[EpisodeResult]) -> list[Outcome]:
    _rule(
        all(result.outcome is not None and result.fault is None for result in results),
        "an Episode was not played",
    )
    return [result.outcome for result in results if result.outcome is not None]


def _rule(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


# --- the rules ------------------------------------------------------------------------------------


def check_identity(executor: Executor) -> None:
    """It says which isolation level holds and which limits."""
    _rule(executor.isolation in ISOLATIONS, f"isolation is '{executor.isolation}'")
    _rule(executor.limits == LIMITS, "the limits are not the ones it was made with")


def check_order(executor: Executor) -> None:
    """One result for each Episode, in their order, with what happened in it."""
    specs = list(reversed(_sound(9)))
    with _program("return 2") as folder:
        outcomes = _outcomes(executor.evaluate(folder, specs))
        _rule(executor.evaluate(folder, []) == [], "no Episodes did not give no results")
    _rule(
        [outcome.index for outcome in outcomes] == [spec.index for spec in specs],
        "they are in another order",
    )
    for outcome in outcomes:
        _rule((outcome.length, outcome.ending) == (STEPS, "terminated"), f"it ended as {outcome}")
        _rule(dict(outcome.measures) == {"count": STEPS}, "the measures are missing")
        _rule(2 * STEPS <= outcome.episode_return <= 3 * STEPS, "the return is wrong")


def check_repeatable(executor: Executor) -> None:
    """Same Program, index and seeds give the same outcome, whatever was played before."""
    with _program("import random\n        return random.randrange(3)") as folder:
        first = _outcomes(executor.evaluate(folder, _sound(8)))
        again = _outcomes(executor.evaluate(folder, list(reversed(_sound(8)))))
    _rule(first == list(reversed(again)), "they differ")
    _rule(
        len({outcome.episode_return for outcome in first}) == 8,
        "the policy seed reaches no random numbers",
    )


def check_fresh(executor: Executor) -> None:
    """Every Episode has a new process, a new Policy and an empty scratch folder as its working
    folder."""
    act = (
        "self.n += 1; print(self.n, len(os.listdir()), 'K' in os.environ); os.environ['K'] = "
        "'1'; return 0"
    )
    act = f"import os\n        open(str(self.n), 'w').close() if self.n else None\n        {act}"
    with _program(act, "n = 0") as folder:
        texts = {outcome.output.text for outcome in _outcomes(executor.evaluate(folder, _sound(6)))}
    _rule(len(texts) == 1, "Episodes of one Program print different things")
    _rule(
        next(iter(texts)).startswith("1 0 False\n2 1 True\n"),
        f"an Episode found {next(iter(texts))!r}",
    )


def check_failures(executor: Executor) -> None:
    """What a Policy does wrong is its failure, told with kind, phase, step and its own
    traceback."""
    with _program("return 7") as folder:
        failure = _outcomes(executor.evaluate(folder, _sound(1)))[0].failure
    _rule(
        failure is not None and failure.kind == "invalid_action",
        f"an invalid Action gave {failure}",
    )
    with _program("self.n += 1\n        return 0 if self.n < 3 else 1 // 0", "n = 0") as folder:
        outcome = _outcomes(executor.evaluate(folder, _sound(1)))[0]
    failure = outcome.failure
    _rule(
        failure is not None and outcome.ending == "failed",
        "an exception does not count as a failure",
    )
    if failure is not None:
        _rule(
            (failure.kind, failure.phase, failure.step) == ("exception", "act", 2),
            f"an exception gave {failure}",
        )
        _rule(
            '"policy.py", line 5' in failure.traceback,
            "the traceback does not show the Program's own line",
        )
        _rule(
            str(folder) not in failure.traceback + failure.message,
            "it shows a path of this machine",
        )


def check_limits(executor: Executor) -> None:
    """A call over its CPU time, an Episode over its memory and a process that ends are their own
    kinds."""
    for act, kind in (
        ("while True: pass", "act_time"),
        ("x = b'x' * (1 << 34); return len(x)", "memory"),
        ("import os; os._exit(1)", "died"),
    ):
        with _program(act) as folder:
            failure = _outcomes(executor.evaluate(folder, _sound(1)))[0].failure
        _rule(failure is not None and failure.kind == kind, f"'{act}' gave {failure}")
        _rule(
            failure is not None and (failure.limit is not None or kind == "died"),
            f"'{kind}' tells no limit",
        )


def check_faults(executor: Executor) -> None:
    """An Environment's exception is a fault of that Episode alone."""
    with _program("return 1") as folder:
        results = executor.evaluate(folder, episodes(8))
    for result in results:
        if result.index % 4 == BROKEN:
            _rule(
                result.outcome is None and result.fault is not None,
                "a broken Environment gave an outcome",
            )
            _rule(
                result.fault is not None and result.fault.kind == "environment",
                f"the fault is {result.fault}",
            )
        else:
            _rule(result.outcome is not None, f"another Episode was harmed: {result.fault}")


def check_traces(executor: Executor) -> None:
    """A trace holds the reset and every step, and can be read back."""
    with (
        _program("return 1") as folder,
        tempfile.TemporaryDirectory(prefix="evopolicy-contract-") as traces,
    ):
        results = executor.evaluate(folder, _sound(3), traces=Path(traces))
        for result in results:
            _rule(result.trace is not None, "there is no trace")
            rows = list(read_trace(result.trace)) if result.trace else []
            _rule([row.step for row in rows] == list(range(STEPS + 1)), "rows are missing")
            _rule(rows[0].action is None and rows[-1].terminated, "the first or last row is wrong")
            _rule(
                rows[2].action == 1 and rows[2].info == {"count": 2}, "a row does not hold its step"
            )


def check_progress(executor: Executor) -> None:
    """`progress` is told of each Episode once."""
    reported: list[int] = []
    with _program("return 1") as folder:
        executor.evaluate(folder, _sound(5), progress=lambda result: reported.append(result.index))
    _rule(sorted(reported) == [spec.index for spec in _sound(5)], f"it was told of {reported}")


def check_check(executor: Executor) -> None:
    """`check` asks a Program for Actions on observations the seed decides, and tells what an
    Episode would tell."""
    with _program("print(obs)\n        return 1") as folder:
        report, again, other = (
            executor.check(folder, 4),
            executor.check(folder, 4),
            executor.check(folder, 5),
        )
    _rule(
        report.ok and report.failure is None and set(report.actions) == {1},
        f"a sound Program gave {report}",
    )
    _rule(
        report == again and report.output != other.output,
        "the seed does not decide the observations",
    )
    with _program("return nothing") as folder:
        report = executor.check(folder, 4)
    _rule(not report.ok and report.failure is not None, "a Program that raises is called sound")


def check_render(executor: Executor) -> None:
    """`render` gives the pictures that can be made and none for those that cannot."""
    with tempfile.TemporaryDirectory(prefix="evopolicy-contract-") as folder:
        jobs = [
            RenderJob(episode, Path(folder) / "trace", Path(folder) / "out")
            for episode in episodes(5)
        ]
        names = [artifact.name for artifact in executor.render(jobs)]
    _rule(names == ["0.txt", "1.txt", "2.txt", "4.txt"], f"it gave {names}")


def check_close(executor: Executor) -> None:
    """`close` may be called again."""
    with _program("return 1") as folder:
        executor.evaluate(folder, _sound(1))
    executor.close()
    executor.close()


CHECKS: tuple[Callable[[Executor], None], ...] = (
    check_identity,
    check_order,
    check_repeatable,
    check_fresh,
    check_failures,
    check_limits,
    check_faults,
    check_traces,
    check_progress,
    check_check,
    check_render,
    check_close,
)
