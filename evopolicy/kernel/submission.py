"""One Submission's Evaluation, from the captured Program to Feedback on disk. Knows no agent and no socket."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.benchmark import Benchmark, EpisodeSpec
from evopolicy.kernel.errors import BenchmarkError, EvoPolicyError, RecordError
from evopolicy.kernel.evaluation import Evaluation, Graded, evaluate_program, failure_counts
from evopolicy.kernel.feedback import Artifact, check_artifacts, compose, publish
from evopolicy.kernel.journal import write_durably
from evopolicy.kernel.ports import Executor, RenderJob
from evopolicy.kernel.record import FeedbackConfig, feedback_folder
from evopolicy.kernel.secrets import NO_SECRETS, Masker
from evopolicy.kernel.values import Value, public

OUTCOMES = "outcomes.jsonl"
HOST_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE})
"""What the Host's machine is to blame for, whoever's code met it."""


@dataclass(frozen=True)
class Bench:
    """What any Evaluation of a Run needs."""

    benchmark: Benchmark
    executor: Executor
    feedback: FeedbackConfig
    episode_retries: int
    folder: Path
    """The Run's."""
    mask: Masker = NO_SECRETS
    """Of what a Policy may print."""


def submission_folder(folder: Path, submission: int) -> Path:
    return folder / "submissions" / f"{submission:04d}"


def evaluate_submission(
    bench: Bench,
    submission: int,
    digest: str,
    program: Path,
    episodes: Sequence[EpisodeSpec],
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Evaluate, write Feedback and outcomes under the Run's folder, and return what the `published` event holds.

    Raises ExecutionError or BenchmarkError where the fault is not the Policy's.
    """
    started = time.monotonic()
    folder = submission_folder(bench.folder, submission)
    traces = folder / ".traces" if bench.feedback.visibility == "full" else None
    shutil.rmtree(folder, ignore_errors=True)
    (traces or folder).mkdir(parents=True)
    try:
        evaluation = evaluate_program(
            bench.executor,
            bench.benchmark,
            program,
            episodes,
            retries=bench.episode_retries,
            traces=traces,
            progress=progress,
            mask=bench.mask,
        )
        scored = time.monotonic()
        artifacts = _artifacts(bench, evaluation, episodes, folder / ".artifacts") if traces else []
        summary = _summary(bench.benchmark, evaluation)
        content = compose(bench.feedback.visibility, submission, digest, evaluation, summary, artifacts)
        publish(feedback_folder(bench.folder, submission), content, evaluation, artifacts)
        write_graded(folder / OUTCOMES, evaluation.graded)
    finally:
        for leftover in (".traces", ".artifacts"):
            shutil.rmtree(folder / leftover, ignore_errors=True)
    return {
        "score": evaluation.score,
        "failures": failure_counts(evaluation.outcomes),
        "retried": evaluation.retried,
        "wall_seconds": round(scored - started, 3),
        "feedback_seconds": round(time.monotonic() - scored, 3),
        "policy_seconds": round(evaluation.policy_seconds, 3),
    }


def _summary(benchmark: Benchmark, evaluation: Evaluation) -> dict[str, Value]:
    with _benchmark_code(benchmark, "summarize"):
        summary = public(dict(benchmark.summarize(evaluation.outcomes)), f"{benchmark.spec.slug}: summary")
    assert isinstance(summary, dict)
    return summary


@contextmanager
def _benchmark_code(benchmark: Benchmark, what: str) -> Iterator[None]:
    """A bug in a Benchmark's own code costs its Submission, not the Run; a full disk is not its bug."""
    try:
        yield
    except EvoPolicyError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in HOST_ERRNOS:
            raise
        raise BenchmarkError(f"{benchmark.spec.slug}: {what} raised {type(error).__name__}: {error}") from error


def _artifacts(bench: Bench, evaluation: Evaluation, episodes: Sequence[EpisodeSpec], folder: Path) -> list[Artifact]:
    """Traces by the Benchmark, then replays of the Episodes it finds worth a picture."""
    folder.mkdir(exist_ok=True)
    with _benchmark_code(bench.benchmark, "artifacts"):
        artifacts = list(bench.benchmark.artifacts(evaluation.results, folder))
        pictured = set(bench.benchmark.pictured(evaluation.results)) if bench.feedback.replays else set()
    if pictured:
        jobs = [
            RenderJob(episode, result.trace, folder)
            for episode, result in zip(episodes, evaluation.results, strict=True)
            if episode.index in pictured and result.trace is not None
        ]
        artifacts.extend(bench.executor.render(jobs))
    check_artifacts(artifacts, {episode.index for episode in episodes})
    return artifacts


def write_graded(path: Path, graded: Sequence[Graded]) -> None:
    """One JSON line an Episode: `{"score": ..., "outcome": {...}}`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, b"".join(msgspec.json.encode(one) + b"\n" for one in graded))


def read_graded(path: Path) -> list[Graded]:
    """The Episodes of such a file; none where there is no file. Raises RecordError for one that is corrupt."""
    if not path.exists():
        return []
    try:
        return [msgspec.json.decode(line, type=Graded) for line in path.read_bytes().splitlines()]
    except msgspec.MsgspecError as error:
        raise RecordError(f"{path}: is corrupt ({error}); delete it and its Episodes are measured again") from None
