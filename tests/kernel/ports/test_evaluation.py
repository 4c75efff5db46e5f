"""Program x Episodes -> Evaluation: order, retries, and what each end is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import ExecutionError, IsolationError
from evopolicy.kernel.ports.benchmark import EpisodeSpec
from evopolicy.kernel.ports.evaluation import EpisodeFault, evaluate_program, grade
from evopolicy.kernel.ports.outcome import (
    EpisodeResult,
    Fault,
    Outcome,
    PolicyFailure,
    failure_counts,
)
from tests.kernel.bench import FAILURE_SCORE, InlineExecutor, Tally, write_program

EPISODES = tuple(EpisodeSpec(n, 100 + n, n, {"offset": n / 8}) for n in (4, 0, 2))
FAULT = Fault("environment", "the simulator broke")


@pytest.fixture
def executor() -> InlineExecutor:
    return InlineExecutor(Tally())


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return write_program(tmp_path / "p", 3)


def evaluate(executor: Any, program: Path, retries: int = 2, **more: Any) -> Any:
    return evaluate_program(
        executor, executor.benchmark, program, EPISODES, retries=retries, **more
    )


def faulting(times: int, seed: int) -> Callable[[Path, EpisodeSpec], Fault | None]:
    left = [times]

    def fault(_program: Path, episode: EpisodeSpec) -> Fault | None:
        if episode.seed == seed and left[0]:
            left[0] -= 1
            return FAULT
        return None

    return fault


def test_results_come_in_the_order_they_were_asked_for(
    executor: InlineExecutor, program: Path
) -> None:
    evaluation = evaluate(executor, program)
    assert [outcome.index for outcome in evaluation.outcomes] == [4, 0, 2]
    assert [graded.score for graded in evaluation.graded] == [14.0, 12.0, 13.0]
    assert evaluation.score == 13.0
    assert evaluation.policy_seconds == 0.75
    assert evaluation.retried == 0


def test_only_what_faulted_is_tried_again_with_the_same_seed(
    executor: InlineExecutor, program: Path
) -> None:
    executor.fault = faulting(2, seed=100)
    evaluation = evaluate(executor, program)
    assert [seed for _, seed in executor.ran] == [104, 100, 102, 100, 100]
    assert [graded.score for graded in evaluation.graded] == [14.0, 12.0, 13.0]
    assert evaluation.retried == 2


BLAMED = Outcome(0, 2.0, 1, "failed", PolicyFailure("invalid_action", "raises KeyError", "act", 1))


@pytest.fixture
def judging(executor: InlineExecutor, tmp_path: Path) -> InlineExecutor:
    """Its Benchmark has an initial Program."""
    executor.benchmark.programs = {"initial": write_program(tmp_path / "initial", 0)}
    return executor


def test_actions_that_make_the_environment_raise_are_the_policys_failure(
    judging: Any, program: Path
) -> None:
    """They were charged to nobody: the worst Policies were left out of tables."""
    raising = replace(FAULT, raised=BLAMED)
    judging.fault = lambda folder, episode: (
        raising if folder == program and episode.index == 0 else None
    )
    evaluation = evaluate(judging, program)
    assert evaluation.outcomes[1] == BLAMED
    assert [graded.score for graded in evaluation.graded] == [14.0, FAILURE_SCORE, 13.0]
    assert evaluation.retried == 0
    assert judging.ran[3:] == [("initial", 100)]


def test_an_environment_that_raises_for_the_initial_program_too_is_at_fault(
    judging: Any, program: Path
) -> None:
    raising = replace(FAULT, raised=BLAMED)
    judging.fault = lambda _, episode: raising if episode.index == 0 else None
    with pytest.raises(
        EpisodeFault, match="faulted 3 times; Episode 0: environment fault: the simul"
    ):
        evaluate(judging, program)


def test_a_fault_that_stays_is_told_with_its_cause(executor: InlineExecutor, program: Path) -> None:
    executor.fault = faulting(99, seed=100)
    with pytest.raises(
        EpisodeFault,
        match="1 of the Episodes faulted 3 times; Episode 0: environment fault: the simul",
    ):
        evaluate(executor, program)


def test_without_retries_the_first_fault_is_the_last(
    executor: InlineExecutor, program: Path
) -> None:
    executor.fault = faulting(1, seed=100)
    with pytest.raises(EpisodeFault, match="faulted 1 times"):
        evaluate(executor, program, retries=0)


class Engine(InlineExecutor):
    """Raises or answers what a test says, as often as it says, then works."""

    def __init__(
        self, times: int, answer: Exception | Callable[[list[EpisodeResult]], list[EpisodeResult]]
    ) -> None:
        super().__init__(Tally())
        self.times, self.answer = times, answer

    def evaluate(
        self, program: Path, episodes: Sequence[EpisodeSpec], **more: Any
    ) -> list[EpisodeResult]:
        if not self.times:
            return super().evaluate(program, episodes, **more)
        self.times -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(super().evaluate(program, episodes, **more))


@pytest.mark.parametrize(
    "error", [ExecutionError("no worker starts"), IsolationError("no level"), KeyError("bug")]
)
def test_an_engine_that_cannot_run_is_tried_again(error: Exception, program: Path) -> None:
    assert evaluate(Engine(2, error), program).score == 13.0
    with pytest.raises(
        ExecutionError, match=r"no worker starts|no level|the engine raised KeyError: 'bug'"
    ):
        evaluate(Engine(3, error), program)


def test_a_full_disk_is_the_hosts_own_and_goes_through(program: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        evaluate(Engine(1, OSError(28, "No space left on device")), program)


def test_results_that_are_missing_are_asked_for_again_and_then_a_fault(program: Path) -> None:
    assert evaluate(Engine(1, lambda results: results[:1]), program).score == 13.0
    with pytest.raises(EpisodeFault, match="the engine gave no result for 3 of the Episodes"):
        evaluate(Engine(9, lambda _: []), program)


def test_a_result_that_is_neither_is_the_engines_fault(program: Path) -> None:
    with pytest.raises(
        ExecutionError, match="Episode 4: the engine returned neither an outcome nor a fault"
    ):
        evaluate(
            Engine(9, lambda results: [EpisodeResult(result.index) for result in results]), program
        )


def test_progress_counts_up_to_all(executor: InlineExecutor, program: Path) -> None:
    executor.fault = faulting(1, seed=100)
    seen: list[int] = []
    evaluate(executor, program, progress=seen.append)
    assert seen[-1] == 3
    assert max(seen) == 3


def outcome(episode_return: float, failure: PolicyFailure | None = None) -> Outcome:
    return Outcome(1, episode_return, 2, "failed" if failure else "terminated", failure)


RAISED = PolicyFailure("exception", "boom")


def test_a_failed_episode_scores_the_lower_of_failure_score_and_return() -> None:
    assert grade(Tally(), outcome(5.0, RAISED)).score == FAILURE_SCORE
    assert grade(Tally(), outcome(-9.0, RAISED)).score == -9.0


def test_failing_never_pays() -> None:
    """However high a Policy climbs before it fails, its score is at most the declared failure
    score."""
    for gained in (-100.0, FAILURE_SCORE, 0.0, 1e9):
        assert grade(Tally(), outcome(gained, RAISED)).score <= FAILURE_SCORE


def test_a_failed_episode_is_graded_by_the_benchmarks_own_score_not_by_its_return() -> None:
    """Rewards of -200 beside scores from 0 to 1: one failed Episode weighed as much as two hundred
    good ones."""
    solved = Tally(score_of=lambda outcome: float(outcome.ending == "terminated"))
    assert grade(solved, outcome(-200.0, RAISED)).score == min(FAILURE_SCORE, 0.0)
    lost = Tally(score_of=lambda outcome: -10 * outcome.length)
    assert grade(lost, outcome(5.0, RAISED)).score == -20.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("failure", [None, RAISED])
def test_a_return_that_is_not_finite_is_a_fault_even_where_the_policy_failed(
    bad: float, failure: PolicyFailure | None
) -> None:
    with pytest.raises(EpisodeFault, match=r"Episode 1: the return .* is not finite"):
        grade(Tally(), outcome(bad, failure))


def test_a_score_that_is_not_finite_or_cannot_be_given_is_a_fault() -> None:
    with pytest.raises(EpisodeFault, match="Episode 1: the score nan is not finite"):
        grade(Tally(score_of=lambda _: math.nan), outcome(1.0))
    with pytest.raises(EpisodeFault, match="Episode 1: tally: score raised ZeroDivisionError"):
        grade(Tally(score_of=lambda _: 1 / 0), outcome(1.0))


def test_failures_are_counted_by_kind_in_a_fixed_order() -> None:
    kinds = ["died", "exception", "memory", "exception"]
    outcomes = [outcome(0, PolicyFailure(kind, "")) for kind in kinds]  # type: ignore[arg-type]
    counts = failure_counts([*outcomes, outcome(1)])
    assert list(counts.items()) == [("exception", 2), ("memory", 1), ("died", 1)]
    assert failure_counts([outcome(1)]) == {}
