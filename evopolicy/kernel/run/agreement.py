"""Whether a record agrees with itself: the scores its journal tells, and the Episode files they
were made of.

A score is computed here as it was when it was written down. A file that is not there contradicts
nothing (it may have been shed), nor does one that cannot be read, which is named by whoever reads
it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.received import read_part
from evopolicy.kernel.files.versioned import FEEDBACK_FORMAT, parse_object
from evopolicy.kernel.ports.benchmark import PrivateSplit
from evopolicy.kernel.ports.feedback import FEEDBACK
from evopolicy.kernel.ports.outcome import Graded, failure_counts, mean_score
from evopolicy.kernel.ports.pool import format_selector
from evopolicy.kernel.run.result import graded_path, measure_graded
from evopolicy.kernel.session.journal import JOURNAL
from evopolicy.kernel.session.record import Run, run_part
from evopolicy.kernel.session.selection import Measurement
from evopolicy.kernel.session.state import SubmissionState
from evopolicy.kernel.session.submission import OUTCOMES, read_graded, submission_name

_REMEDY = "one of them was changed: restore the Run's folder from a copy, or leave it out"


def heldout_contradiction(run: Run, result_key: str = "") -> str:
    """In one sentence, how the held-out score of `run` differs from its Episodes; '' where it does
    not.

    What every table shows, so one file is read. `run` as it was loaded, `result_key` as of
    `Run.under`."""
    key = result_key or run.record.result_key
    result = run.under(key).result
    if result.selected is None or result.assessment is None:
        return ""
    return next(_measured(run, key, "assessment", result.selected, result.assessment), "")


def contradictions(run: Run) -> Iterator[str]:
    """Each score of `run` that its files contradict, in one sentence: of Submissions and under
    every rule it had.

    `run` as it was loaded.
    """
    for submission in run.state.published:
        yield from _published(run, submission)
    for key, result in run.state.results.items():
        for program, measured in result.validation.items():
            yield from _measured(run, key, "validation", program, measured)
        if recorded := heldout_contradiction(run, key):
            yield recorded


def _published(run: Run, submission: SubmissionState) -> Iterator[str]:
    what = f"Submission {submission.id}"
    if shown := _shown_score(run, submission.id):
        name, score = shown
        if score != submission.score:
            yield _differ(run, f"{what} scored {submission.score!r}", name, f"shows {score!r}")
    name = submission_name(submission.id, OUTCOMES)
    graded = _graded(run, name)
    if not graded:
        return
    indices = tuple(episode.outcome.index for episode in graded)
    if indices != submission.indices:
        expected, actual = _selector(submission.indices), _selector(indices)
        yield _differ(run, f"{what} was of the Episodes {expected}", name, f"holds {actual}")
    elif (score := mean_score(graded)) != submission.score:
        yield _differ(run, f"{what} scored {submission.score!r}", name, f"comes to {score!r}")
    elif (failures := failure_counts([episode.outcome for episode in graded])) != dict(
        submission.failures
    ):
        yield _differ(
            run, f"{what} had the failures {dict(submission.failures)}", name, f"tells {failures}"
        )


def _shown_score(run: Run, submission: int) -> tuple[str, object] | None:
    """The name of a Submission's Feedback, and the score it tells; None where it does not tell."""
    name = submission_name(submission, f"feedback/{FEEDBACK}")
    try:
        content = parse_object(read_part(*run_part(run.folder, name), FEEDBACK_FORMAT.bytes))
    except (FileNotFoundError, RecordError, ValueError):
        return None
    return (name, content["score"]) if "score" in content else None


def _measured(
    run: Run, key: str, split: PrivateSplit, program: str, recorded: Measurement
) -> Iterator[str]:
    what = f"{split.capitalize()} of the Program {program[:12]}"
    name = graded_path(Path(), split, program).as_posix()
    by_index = {episode.outcome.index: episode for episode in _graded(run, name)}
    if run.record.knows(key):  # what a larger split of another rule has added is no part of it
        size = run.record.under(key).pool.size(split)
        by_index = {index: episode for index, episode in by_index.items() if index < size}
    else:
        by_index = {
            index: episode for index, episode in by_index.items() if index < recorded.episodes
        }
    if not by_index:
        return
    if len(by_index) != recorded.episodes:
        yield _differ(
            run, f"{what} had {recorded.episodes} Episodes", name, f"holds {len(by_index)} of them"
        )
        return
    measured = measure_graded([by_index[index] for index in sorted(by_index)])
    if measured.mean != recorded.mean:
        yield _differ(run, f"{what} came to {recorded.mean!r}", name, f"comes to {measured.mean!r}")
    elif measured.failed != recorded.failed:
        yield _differ(
            run, f"{what} had {recorded.failed} failed Episodes", name, f"tells {measured.failed}"
        )
    elif not _as_close(measured.standard_error, recorded.standard_error):
        error = f"the standard error {recorded.standard_error!r}"
        yield _differ(run, f"{what} had {error}", name, f"comes to {measured.standard_error!r}")


def _as_close(computed: float | None, recorded: float | None) -> bool:
    """Squares may differ in their last digit from one C library to another; a mean does not."""
    if computed is None or recorded is None:
        return computed is recorded
    return math.isclose(computed, recorded, rel_tol=1e-9)


def _graded(run: Run, name: str) -> list[Graded]:
    try:
        top, part = run_part(run.folder, name)
        return read_graded(top / part, top)
    except RecordError:
        return []


def _selector(indices: Sequence[int]) -> str:
    text = format_selector(tuple(indices))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _differ(run: Run, recorded: str, name: str, contradiction: str) -> str:
    return f"{run.folder / JOURNAL}: says that {recorded}, but {name} {contradiction}; {_REMEDY}"
