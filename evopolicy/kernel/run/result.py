"""Validation, selection and Assessment: what a Run's Programs are worth once its agent is gone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.errors import EvoPolicyError, ExecutionError
from evopolicy.kernel.files.program import ProgramStore
from evopolicy.kernel.ports.benchmark import EpisodeSpec, PrivateSplit, Split
from evopolicy.kernel.ports.evaluation import evaluate_program
from evopolicy.kernel.ports.outcome import Graded, failure_counts
from evopolicy.kernel.ports.pool import Pool
from evopolicy.kernel.run.notifier import Notifier
from evopolicy.kernel.session.failures import FAILING_PAID, invalidates_run
from evopolicy.kernel.session.record import RunRecord
from evopolicy.kernel.session.selection import Candidate, Measurement, measure, select
from evopolicy.kernel.session.state import Ledger, ResultState, RunState
from evopolicy.kernel.session.submission import (
    OUTCOMES,
    Bench,
    read_graded,
    submission_folder,
    write_graded,
)


@dataclass(frozen=True)
class Grading:
    """What a Run's result is made with."""

    record: RunRecord
    folder: Path
    """The Run's."""
    bench: Bench
    pool: Pool
    store: ProgramStore


def has_ended(record: RunRecord, state: RunState) -> bool:
    """Whether the Run has its result under the record's rule."""
    return state.results.get(record.result_key, ResultState()).ended


def complete(grading: Grading, ledger: Ledger, notifier: Notifier) -> None:
    """Validate, select and assess under the record's rule, as far as that is not done yet.

    Raises ExecutionError where it cannot be completed; what was measured is kept.
    """
    key = grading.record.result_key
    if has_ended(grading.record, ledger.state):
        return
    notifier.state = lambda: ledger.state
    result = ledger.state.results.get(key, ResultState())
    digest = result.selected
    if digest is None:
        digest, submission = _select(grading, ledger, notifier)
        ledger.append("selected", result=key, program=digest, submission=submission)
    if result.assessment is None:
        notifier.progress("assessment", 0, len(grading.pool.assessment))
        measured, seconds = measure_split(grading, ledger, notifier, "assessment", digest)
        ledger.append(
            "assessed",
            result=key,
            program=digest,
            measurement=_plain(measured),
            wall_seconds=seconds,
        )
    reasons = [*ledger.state.handoff_reasons, *grading.bench.benchmark.spec.remarks]
    if failing_paid(grading, ledger.state, digest):
        reasons.append(FAILING_PAID)
    ledger.append(
        "ended", result=key, valid=not any(map(invalidates_run, reasons)), reasons=reasons
    )
    notifier.progress("done", 0, 0)


def failing_paid(grading: Grading, state: RunState, selected: str) -> bool:
    """Whether a finished Episode, of the agent's Feedback or the Run's result, scored less than a
    failure."""
    folder = grading.folder
    files = [submission_folder(folder, submission.id) / OUTCOMES for submission in state.published]
    files += [graded_path(folder, "assessment", selected)]
    most = grading.bench.benchmark.spec.failure_score
    return any(
        episode.outcome.failure is None and episode.score < most
        for file in files
        for episode in read_graded(file)
    )


def _select(grading: Grading, ledger: Ledger, notifier: Notifier) -> tuple[str, int | None]:
    """Digest and number of the selected Submission; the initial Program and None where nothing was
    published."""
    state = ledger.state
    submissions = [s for s in state.published if s.id in (state.candidates or ())]
    if not submissions:
        return grading.record.initial_program, None
    config = grading.record.selection
    programs = (
        list(dict.fromkeys(s.program for s in submissions)) if config.needs_validation else []
    )
    validated: dict[str, Measurement] = {}
    total = len(programs) * len(grading.pool.validation)
    for number, program in enumerate(programs):
        notifier.offset, notifier.total = number * len(grading.pool.validation), total
        validated[program] = validate(grading, ledger, notifier, program)
    notifier.offset = notifier.total = 0
    named = {number: rank for rank, number in enumerate(state.named)}
    candidates = [
        Candidate(s.id, s.program, s.score or 0.0, validated.get(s.program), named.get(s.id))
        for s in submissions
    ]
    chosen = select(candidates, config)
    return chosen.program, chosen.submission


def validate(grading: Grading, ledger: Ledger, notifier: Notifier, program: str) -> Measurement:
    """Measure `program` on Validation and write it down, where the result does not have it yet.

    Raises ExecutionError where it cannot be completed.
    """
    key = grading.record.result_key
    earlier = ledger.state.results.get(key, ResultState()).validation.get(program)
    if earlier is not None:
        return earlier
    measured, seconds = measure_split(grading, ledger, notifier, "validation", program)
    ledger.append(
        "validated", result=key, program=program, measurement=_plain(measured), wall_seconds=seconds
    )
    return measured


def measure_split(
    grading: Grading, ledger: Ledger, notifier: Notifier, split: PrivateSplit, program: str
) -> tuple[Measurement, float]:
    """Measure `program` on `split`. Episodes measured before, by a killed Host or under another
    rule, are not rerun."""
    started = time.monotonic()
    episodes = grading.pool.validation if split == "validation" else grading.pool.assessment
    path = graded_path(grading.folder, split, program)
    by_index = {graded.outcome.index: graded for graded in read_graded(path)}
    missing = [episode for episode in episodes if episode.index not in by_index]
    if missing:
        fresh = _evaluate(grading, ledger, notifier, split, program, missing, len(episodes))
        by_index.update({graded.outcome.index: graded for graded in fresh})
        write_graded(path, [by_index[index] for index in sorted(by_index)])
    graded = [by_index[episode.index] for episode in episodes]
    return measure_graded(graded), round(time.monotonic() - started, 3)


def measure_graded(graded: Sequence[Graded]) -> Measurement:
    """What these Episodes come to. `graded` is not empty."""
    failed = sum(failure_counts([episode.outcome for episode in graded]).values())
    return measure([episode.score for episode in graded], failed)


def graded_path(folder: Path, split: Split, program: str) -> Path:
    """Where the Episodes of a Program on a private split lie inside a Run's folder."""
    return folder / "evaluations" / split / f"{program}.jsonl"


def _evaluate(
    grading: Grading,
    ledger: Ledger,
    notifier: Notifier,
    split: PrivateSplit,
    program: str,
    episodes: Sequence[EpisodeSpec],
    total: int,
) -> tuple[Graded, ...]:
    bench = grading.bench
    before = total - len(episodes)
    try:
        evaluation = evaluate_program(
            bench.executor,
            bench.benchmark,
            grading.store.folder(program),
            episodes,
            retries=bench.episode_retries,
            progress=lambda done: notifier.progress(split, before + done, total),
            mask=bench.mask,
        )
    except EvoPolicyError as error:
        ledger.append("fault", where=split, program=program, message=str(error)[:2_000])
        raise ExecutionError(
            f"{split} of Program {program[:12]} cannot be completed: {error}; the Run is kept: "
            "run the command again"
        ) from error
    return evaluation.graded


def _plain(measurement: Measurement) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(measurement)
    return plain
