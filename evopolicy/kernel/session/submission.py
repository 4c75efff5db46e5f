"""One Submission's Evaluation, from the captured Program to Feedback on disk. Knows no agent and no
socket."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.errors import HOST_ERRNOS, BenchmarkError, EvoPolicyError, RecordError
from evopolicy.kernel.files.durable import make_folder, write_durably
from evopolicy.kernel.files.host_paths import HostPaths, host_paths
from evopolicy.kernel.files.received import lines_of, read_part
from evopolicy.kernel.files.versioned import EPISODES_FORMAT, parse_object
from evopolicy.kernel.ports.benchmark import Artifact, Benchmark, EpisodeSpec
from evopolicy.kernel.ports.evaluation import Evaluation, evaluate_program
from evopolicy.kernel.ports.feedback import check_artifacts, compose, publish, shown_artifacts
from evopolicy.kernel.ports.outcome import Graded, Outcome, failure_counts
from evopolicy.kernel.ports.pool import MAX_EPISODES
from evopolicy.kernel.ports.protocols import Executor, RenderJob
from evopolicy.kernel.secrecy.secrets import NO_SECRETS, Masker
from evopolicy.kernel.session.record import FeedbackConfig, feedback_folder
from evopolicy.kernel.values import Value, public

OUTCOMES = EPISODES_FORMAT.name
MAX_COUNT = 2**53
"""No index and no count of an Episode is larger: beyond it, floats leave out whole numbers."""


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
    return folder / submission_name(submission)


def submission_name(submission: int, inside: str = "") -> str:
    """Where a Submission's files lie below a Run's folder, or what `inside` names of them."""
    return f"submissions/{submission:04d}" + (f"/{inside}" if inside else "")


def evaluate_submission(
    bench: Bench,
    submission: int,
    digest: str,
    program: Path,
    episodes: Sequence[EpisodeSpec],
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Evaluate, write Feedback and outcomes under the Run's folder, and return what the `published`
    event holds.

    Raises ExecutionError or BenchmarkError where the fault is not the Policy's.
    """
    started = time.monotonic()
    folder = submission_folder(bench.folder, submission)
    traces = folder / ".traces" if bench.feedback.visibility == "full" else None
    _make_anew(folder, traces)
    try:
        evaluation = evaluate_program(
            bench.executor, bench.benchmark, program, episodes,
            retries=bench.episode_retries, traces=traces, progress=progress, mask=bench.mask,
        )  # fmt: skip
        scored = time.monotonic()
        paths = host_paths(bench.folder, program)
        artifacts = (
            _artifacts(bench, evaluation, episodes, folder / ".artifacts", paths) if traces else []
        )
        summary = _summary(bench.benchmark, evaluation)
        content = compose(
            bench.feedback.visibility, submission, digest, evaluation, summary, artifacts
        )
        publish(feedback_folder(bench.folder, submission), content, evaluation, artifacts, paths)
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


def _make_anew(folder: Path, traces: Path | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    if traces:
        traces.mkdir()


def _summary(benchmark: Benchmark, evaluation: Evaluation) -> dict[str, Value]:
    with _benchmark_code(benchmark, "summarize"):
        summary = public(
            dict(benchmark.summarize(evaluation.outcomes)), f"{benchmark.spec.slug}: summary"
        )
    assert isinstance(summary, dict)
    return summary


@contextmanager
def _benchmark_code(benchmark: Benchmark, what: str) -> Iterator[None]:
    """A bug in a Benchmark's own code costs its Submission, not the Run; a full disk is not its
    bug."""
    try:
        yield
    except EvoPolicyError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in HOST_ERRNOS:
            raise
        raise BenchmarkError(
            f"{benchmark.spec.slug}: {what} raised {type(error).__name__}: {error}"
        ) from error


def _artifacts(
    bench: Bench,
    evaluation: Evaluation,
    episodes: Sequence[EpisodeSpec],
    folder: Path,
    paths: HostPaths,
) -> list[Artifact]:
    """Traces by the Benchmark, then replays of the Episodes it finds worth a picture; no text with
    any of `paths`."""
    folder.mkdir(exist_ok=True)
    with _benchmark_code(bench.benchmark, "artifacts"):
        artifacts = list(bench.benchmark.artifacts(evaluation.results, folder))
        pictured = (
            set(bench.benchmark.pictured(evaluation.results)) if bench.feedback.replays else set()
        )
    if pictured:
        jobs = [
            RenderJob(episode, result.trace, folder)
            for episode, result in zip(episodes, evaluation.results, strict=True)
            if episode.index in pictured and result.trace is not None
        ]
        artifacts.extend(bench.executor.render(jobs))
    check_artifacts(artifacts, {episode.index for episode in episodes})
    return shown_artifacts(artifacts, folder, paths)


def write_graded(path: Path, graded: Sequence[Graded]) -> None:
    """One JSON line an Episode: `{"schema": 1, "score": ..., "outcome": {...}}`."""
    lines = (_Line(EPISODES_FORMAT.newest, one.score, one.outcome) for one in graded)
    write_durably(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def read_graded(path: Path, top: Path | None = None) -> list[Graded]:
    """The Episodes of such a file; none where there is no file.

    No link below `top` (its folder, where none is given) is followed to it. Raises RecordError for
    one that is corrupt."""
    top = top or path.parent
    try:
        data = read_part(top, path.relative_to(top).as_posix(), EPISODES_FORMAT.bytes)
    except FileNotFoundError:
        return []
    try:
        return list(_all_graded(data, path))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RecordError(
            f"{path}: is corrupt ({error}); delete it and its Episodes are measured again"
        ) from None


def _all_graded(data: bytes, path: Path) -> Iterator[Graded]:
    for number, line in enumerate(lines_of(data)):
        if number == MAX_EPISODES:
            raise ValueError(f"more than {MAX_EPISODES:,} Episodes are those of no pool")
        yield _graded(line, path)


@dataclass(frozen=True)
class _Line:
    """Of an Episodes' file."""

    schema: int
    score: float
    outcome: Outcome


class _Version(msgspec.Struct):
    schema: int = 1


def _graded(line: bytes, path: Path) -> Graded:
    if msgspec.json.decode(line, type=_Version).schema == EPISODES_FORMAT.newest:
        graded = msgspec.json.decode(line, type=Graded)
    else:
        graded = msgspec.convert(EPISODES_FORMAT.upgraded(parse_object(line), str(path)), Graded)
    outcome = graded.outcome
    if not all(
        0 <= count <= MAX_COUNT for count in (outcome.index, outcome.length, outcome.clipped)
    ):
        raise ValueError(f"Episode {outcome.index:.0f}: an index or a count is out of bounds")
    return graded
