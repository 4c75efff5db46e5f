"""Feedback: a scalar score, bounded public content and artifacts, cut to what the config lets the agent see."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from evopolicy.kernel.errors import BenchmarkError
from evopolicy.kernel.evaluation import Evaluation, Graded, failure_counts
from evopolicy.kernel.journal import sync_folder, write_durably
from evopolicy.kernel.values import Bounds, Value, public

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")

Retention = Literal["permanent", "bulk"]
Visibility = Literal["score", "summary", "episodes", "full"]
VISIBILITIES: tuple[Visibility, ...] = ("score", "summary", "episodes", "full")


@dataclass(frozen=True)
class Artifact:
    """A file of Feedback."""

    name: str
    """Portable relative path inside the Feedback's folder: `episodes/0007.csv`."""
    path: Path
    """Where its bytes are now."""
    media_type: str
    """'text/csv', 'application/json', 'image/gif', 'image/png', 'application/x-npz', 'text/plain'."""
    retention: Retention = "permanent"
    """'bulk' artifacts may be evicted, oldest Submission first, when they exceed their budget."""
    episode: int | None = None
    """Public index it belongs to, where it belongs to one."""


FEEDBACK = "feedback.json"
_OUTPUT = "output"
EPISODE_ITEMS = 1_000
"""Values feedback.json may hold of one Episode, on top of what any public value may."""
MAX_ARTIFACTS = 4_096
MAX_ARTIFACT_BYTES = 64 * 2**20
MAX_NAME = 200
"""Characters of an artifact's name."""
OUTPUT_CHARACTERS = 2_000
"""Of a Policy's output inside feedback.json; the rest is in `output/<index>.txt`."""


def compose(
    visibility: str,
    submission: int,
    program: str,
    evaluation: Evaluation,
    summary: Mapping[str, Value],
    artifacts: Sequence[Artifact] = (),
) -> dict[str, Any]:
    """The content of one Submission's feedback.json, cut to `visibility`.

    `score`: the score and how many Episodes failed, by kind. `summary`: and the Benchmark's aggregates. `episodes`:
    and per index return, length, ending, measures, the Policy's traceback and output. `full`: and the artifacts.
    Raises ValueRefused where the Benchmark's part is not public.
    """
    content: dict[str, Any] = {
        "submission": submission,
        "program": program,
        "score": evaluation.score,
        "episodes": len(evaluation.graded),
        "failed_episodes": failure_counts(evaluation.outcomes),
    }
    level = VISIBILITIES.index(visibility)
    if level >= 1:
        content["summary"] = dict(summary)
    if level >= 2:
        content["by_episode"] = [_episode(graded) for graded in evaluation.graded]
    if level >= 3:
        content["artifacts"] = [_artifact(artifact) for artifact in artifacts]
    # The Benchmark's own part is bounded whatever the Submission's size; each Episode may add its share.
    plain = public(content, "feedback", Bounds(items=Bounds.items + EPISODE_ITEMS * len(evaluation.graded)))
    assert isinstance(plain, dict)
    return plain


def _episode(graded: Graded) -> dict[str, Any]:
    outcome = graded.outcome
    row: dict[str, Any] = {
        "index": outcome.index,
        "score": graded.score,
        "return": outcome.episode_return,
        "length": outcome.length,
        "ending": outcome.ending,
        "measures": dict(outcome.measures),
    }
    if outcome.clipped:
        row["clipped_actions"] = outcome.clipped
    if failure := outcome.failure:
        row["failure"] = {key: value for key, value in asdict(failure).items() if value is not None and value != ""}
    if text := outcome.output.text:
        row["output"] = text if len(text) <= OUTPUT_CHARACTERS else text[:OUTPUT_CHARACTERS] + "..."
        if outcome.output.omitted_bytes or len(text) > OUTPUT_CHARACTERS:
            row["output_file"] = output_name(outcome.index)
            row["output_omitted_bytes"] = outcome.output.omitted_bytes
    return row


def output_name(index: int) -> str:
    """Where the kept output of an Episode lies inside its Feedback, when feedback.json shows only its beginning."""
    return f"{_OUTPUT}/{index:04d}.txt"


def _artifact(artifact: Artifact) -> dict[str, Any]:
    row: dict[str, Any] = {
        "file": artifact.name,
        "media_type": artifact.media_type,
        "retention": artifact.retention,
        "bytes": artifact.path.stat().st_size,
    }
    if artifact.episode is not None:
        row["episode"] = artifact.episode
    return row


def check_artifacts(artifacts: Sequence[Artifact], asked: Collection[int]) -> None:
    """Raises BenchmarkError for artifacts out of bounds: names, count, size, or an Episode that was not asked for."""
    if len(artifacts) > MAX_ARTIFACTS:
        raise BenchmarkError(f"feedback: {len(artifacts)} artifacts, at most {MAX_ARTIFACTS} are allowed")
    taken = {FEEDBACK, _OUTPUT}
    for artifact in artifacts:
        _check_name(artifact.name, taken)
        if not artifact.path.is_file():
            raise BenchmarkError(f"feedback: {artifact.name} was named and not written")
        if artifact.path.stat().st_size > MAX_ARTIFACT_BYTES:
            raise BenchmarkError(f"feedback: {artifact.name} exceeds {MAX_ARTIFACT_BYTES // 2**20} MiB")
        if artifact.episode is not None and artifact.episode not in asked:
            raise BenchmarkError(
                f"feedback: {artifact.name} names Episode {artifact.episode}, which was not submitted on"
            )
    folders = {parent.as_posix() for artifact in artifacts for parent in PurePosixPath(artifact.name).parents}
    if clash := sorted(folders & taken):
        raise BenchmarkError(f"feedback: '{clash[0]}' is the name of a file and of a folder")


def _check_name(name: str, taken: set[str]) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME or name in taken:
        raise BenchmarkError(
            f"feedback: the artifact name '{name[:MAX_NAME]}' is taken or not a portable relative path"
        )
    taken.add(name)


def publish(target: Path, content: Mapping[str, Any], evaluation: Evaluation, artifacts: Sequence[Artifact]) -> None:
    """Lay one Submission's Feedback at the folder `target`: staged, fsynced, renamed, so that it is whole or absent."""
    staging = target.with_name(f".{target.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    write_durably(staging / FEEDBACK, json.dumps(content, indent=2).encode() + b"\n")
    if "by_episode" in content:
        for outcome in evaluation.outcomes:
            if outcome.output.omitted_bytes or len(outcome.output.text) > OUTPUT_CHARACTERS:
                _lay(staging / output_name(outcome.index), outcome.output.text.encode("utf-8", "replace"))
    for artifact in artifacts:
        _lay(staging / artifact.name, artifact.path.read_bytes())
    shutil.rmtree(target, ignore_errors=True)
    staging.rename(target)
    sync_folder(target.parent)


def _lay(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, content)


def copy_feedback(source: Path, folder: Path, name: str) -> None:
    """Lay a copy of the Feedback at `source` as `folder/name` in the agent's workspace, whole or not at all.

    The agent can rearrange its workspace meanwhile: the copy is made outside it and moved in by descriptor, so that a
    link put in the way is never followed. Where there is one already, or the agent spoiled `folder`, it gets no copy,
    and the `feedback` verb still answers. Raises what the disk raises while copying.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    staging = source.with_name(f".{name}.copy")
    try:
        shutil.rmtree(staging, ignore_errors=True)
        if not _lies_in(handle, name):
            shutil.copytree(source, staging)
            with suppress(OSError):
                os.rename(staging, name, dst_dir_fd=handle)
                os.fsync(handle)
    finally:
        os.close(handle)
        shutil.rmtree(staging, ignore_errors=True)


def _lies_in(handle: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def discard_copy(folder: Path, name: str, artifact: str) -> None:
    """Remove an evicted artifact from the agent's copy, following no link; a spoiled copy is left alone."""
    handles: list[int] = []
    try:
        handles.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
        *folders, file = (name, *PurePosixPath(artifact).parts)
        for part in folders:
            handles.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handles[-1]))
        os.unlink(file, dir_fd=handles[-1])
    except OSError:
        pass
    finally:
        for handle in handles:
            os.close(handle)


def evict(folders: Sequence[Path], budget_bytes: int) -> list[tuple[str, str]]:
    """Remove bulk artifacts, oldest Submission first, until all of `folders` hold at most `budget_bytes` of them.

    `folders` are Feedback folders from oldest to newest; the newest is never touched. Returns what was removed as
    (Submission's folder, artifact); feedback.json keeps naming it.
    """
    bulk = [(folder, name, size) for folder in folders for name, size in _bulk(folder)]
    total = sum(size for _, _, size in bulk)
    removed: list[tuple[str, str]] = []
    for folder, name, size in bulk:
        if total <= budget_bytes or folder == folders[-1]:
            break
        (folder / name).unlink(missing_ok=True)
        total -= size
        removed.append((folder.parent.name, name))
    return removed


def _bulk(folder: Path) -> list[tuple[str, int]]:
    content = json.loads((folder / FEEDBACK).read_bytes())
    named = [row["file"] for row in content.get("artifacts", ()) if row["retention"] == "bulk"]
    return [(name, (folder / name).stat().st_size) for name in named if (folder / name).exists()]
