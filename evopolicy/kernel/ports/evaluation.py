"""Program x Episodes -> Evaluation, through an Executor; and what each Episode's end means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from evopolicy.kernel.errors import EvoPolicyError, ExecutionError
from evopolicy.kernel.ports.benchmark import Benchmark, EpisodeSpec
from evopolicy.kernel.ports.outcome import EpisodeResult, Fault, Graded, Outcome, mean_score
from evopolicy.kernel.ports.protocols import Executor
from evopolicy.kernel.secrecy.secrets import NO_SECRETS, Masker


@dataclass(frozen=True)
class Evaluation:
    """A Program on Episodes, in the order they were asked for."""

    graded: tuple[Graded, ...]
    results: tuple[EpisodeResult, ...]
    """As the Executor gave them, traces included."""
    retried: int
    """Episodes that were tried again after a fault."""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(graded.outcome for graded in self.graded)

    @property
    def score(self) -> float:
        """Mean of the Episode scores."""
        return mean_score(self.graded)

    @property
    def policy_seconds(self) -> float:
        return math.fsum(result.policy_seconds for result in self.results)


MOST = 1e100
"""A larger return or score is as good as infinite: neither its square nor a sum of many could be
told from that."""


class EpisodeFault(ExecutionError):
    """Episodes that still fault after every retry; what to know of the first is in the text."""


def grade(benchmark: Benchmark, outcome: Outcome) -> Graded:
    """Score `outcome`. An Episode the Policy failed in scores the lower of the declared failure
    score and its own.

    Raises EpisodeFault for a return or a score that is not finite, or that the Benchmark cannot
    give."""
    if not abs(outcome.episode_return) <= MOST:
        raise EpisodeFault(
            f"Episode {outcome.index}: the return {outcome.episode_return} is not finite, nor at "
            f"most {MOST:g}"
        )
    try:
        score = float(benchmark.score(outcome))
    except Exception as error:
        what = f"{benchmark.spec.slug}: score raised {type(error).__name__}: {error}"
        raise EpisodeFault(f"Episode {outcome.index}: {what}") from error
    if not abs(score) <= MOST:
        raise EpisodeFault(
            f"Episode {outcome.index}: the score {score} is not finite, nor at most {MOST:g}"
        )
    return Graded(
        score if outcome.failure is None else min(float(benchmark.spec.failure_score), score),
        outcome,
    )


def evaluate_program(
    executor: Executor,
    benchmark: Benchmark,
    program: Path,
    episodes: Sequence[EpisodeSpec],
    *,
    retries: int,
    traces: Path | None = None,
    progress: Callable[[int], None] = lambda _: None,
    mask: Masker = NO_SECRETS,
) -> Evaluation:
    """Run and grade `episodes`; those that fault are tried again with the same seeds, up to
    `retries` times.

    A step that raises for the same Actions again, and not for the initial Program's, is the
    Policy's failure instead. `progress` gets the number of Episodes done, `mask` goes over what the
    Policy said. Raises EpisodeFault when faults remain."""
    done: dict[int, EpisodeResult] = {}
    left = list(episodes)
    reason = ""
    retried = 0
    for attempt in range(retries + 1):
        if not left:
            break
        retried += len(left) if attempt else 0
        ended = count(len(done) + 1)
        try:
            results = _run(executor, program, left, traces, lambda _: progress(next(ended)))  # noqa: B023
        except ExecutionError as error:
            reason = str(error)
            continue
        results = _judged(executor, benchmark, left, results)
        done.update(
            {result.index: _masked(result, mask) for result in results if result.fault is None}
        )
        left = [episode for episode in left if episode.index not in done]
        reason = _fault_text(
            [result for result in results if result.fault is not None], len(left), attempt + 1
        )
        progress(len(done))
    if left:
        raise EpisodeFault(reason)
    ordered = tuple(done[episode.index] for episode in episodes)
    return Evaluation(
        tuple(grade(benchmark, _outcome(result)) for result in ordered), ordered, retried
    )


def _run(
    executor: Executor,
    program: Path,
    episodes: Sequence[EpisodeSpec],
    traces: Path | None,
    progress: Callable[[EpisodeResult], None],
) -> list[EpisodeResult]:
    """One round. What an engine raises is its fault, except what the disk or an interrupt raises
    through it."""
    try:
        return executor.evaluate(program, episodes, traces=traces, progress=progress)
    except (EvoPolicyError, OSError):
        raise
    except Exception as error:
        raise ExecutionError(f"the engine raised {type(error).__name__}: {error}") from error


def _judged(
    executor: Executor,
    benchmark: Benchmark,
    episodes: Sequence[EpisodeSpec],
    results: list[EpisodeResult],
) -> list[EpisodeResult]:
    """`results`, in which an Episode that its Policy's Actions make raise is that Policy's failure,
    and no fault.

    It is where the same Actions raise again, while the initial Program's Episode of the same seeds
    passes."""
    raised = {
        result.index: result.fault.raised
        for result in results
        if result.fault and result.fault.raised
    }
    initial = benchmark.programs.get("initial") if raised else None
    if initial is None:
        return results
    raising = [episode for episode in episodes if episode.index in raised]
    try:
        passed = _run(executor, initial, raising, None, lambda _: None)
    except ExecutionError:
        return results
    to_blame = {result.index: raised[result.index] for result in passed if result.fault is None}
    return [
        replace(r, outcome=to_blame[r.index], fault=None) if r.index in to_blame else r
        for r in results
    ]


def _masked(result: EpisodeResult, mask: Masker) -> EpisodeResult:
    """`result` without secrets: a Program that hides one from its capture may still print it."""
    outcome = result.outcome
    if outcome is None:
        return result
    failure, output = outcome.failure, replace(outcome.output, text=mask.text(outcome.output.text))
    if failure is not None:
        failure = replace(
            failure, message=mask.text(failure.message), traceback=mask.text(failure.traceback)
        )
    return replace(result, outcome=replace(outcome, failure=failure, output=output))


def _outcome(result: EpisodeResult) -> Outcome:
    if result.outcome is None:
        raise ExecutionError(
            f"Episode {result.index}: the engine returned neither an outcome nor a fault"
        )
    return result.outcome


def _fault_text(faults: Sequence[EpisodeResult], left: int, times: int) -> str:
    if not faults:
        return f"the engine gave no result for {left} of the Episodes"
    first = faults[0]
    fault = first.fault or Fault("engine", "unknown")
    what = f"Episode {first.index}: {fault.kind} fault: {fault.message}"
    return f"{len(faults)} of the Episodes faulted {times} times; {what}"
