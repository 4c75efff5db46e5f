"""Feedback: a scalar score, bounded public content and artifacts, cut to what the config lets the
agent see."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from evopolicy.kernel.errors import BenchmarkError
from evopolicy.kernel.files import beneath
from evopolicy.kernel.files.durable import make_folder, move_durably, sync_tree
from evopolicy.kernel.files.host_paths import HostPaths
from evopolicy.kernel.files.versioned import FEEDBACK_FORMAT, SCHEMA_KEY
from evopolicy.kernel.ports.benchmark import Artifact
from evopolicy.kernel.ports.evaluation import Evaluation
from evopolicy.kernel.ports.outcome import Graded, failure_counts
from evopolicy.kernel.values import Bounds, Value, public

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")

Visibility = Literal["score", "summary", "episodes", "full"]
VISIBILITIES: tuple[Visibility, ...] = ("score", "summary", "episodes", "full")
FEEDBACK = FEEDBACK_FORMAT.name
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

    `score`: the score and how many Episodes failed, by kind. `summary`: and the Benchmark's
    aggregates. `episodes`: and per index return, length, ending, measures, the Policy's traceback
    and output. `full`: and the artifacts. Raises ValueRefused where the Benchmark's part is not
    public."""
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
    # The Benchmark's own part is bounded whatever the Submission's size; each Episode may add its
    # share.
    plain = public(
        content, "feedback", Bounds(items=Bounds.items + EPISODE_ITEMS * len(evaluation.graded))
    )
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
        row["failure"] = {
            key: value
            for key, value in asdict(failure).items()
            if value is not None and value != ""
        }
    if text := outcome.output.text:
        row["output"] = text if len(text) <= OUTPUT_CHARACTERS else text[:OUTPUT_CHARACTERS] + "..."
        if outcome.output.omitted_bytes or len(text) > OUTPUT_CHARACTERS:
            row["output_file"] = output_name(outcome.index)
            row["output_omitted_bytes"] = outcome.output.omitted_bytes
    return row


def output_name(index: int) -> str:
    """Where the kept output of an Episode lies inside its Feedback, when feedback.json shows only
    its beginning."""
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


def check_artifacts(artifacts: Sequence[Artifact], submitted: Collection[int]) -> None:
    """Raises BenchmarkError for artifacts out of bounds: names, count, size, or an Episode that was
    not asked for."""
    if len(artifacts) > MAX_ARTIFACTS:
        raise BenchmarkError(
            f"feedback: {len(artifacts)} artifacts, at most {MAX_ARTIFACTS} are allowed"
        )
    taken = {FEEDBACK, _OUTPUT}
    for artifact in artifacts:
        _check_name(artifact.name, taken)
        if not artifact.path.is_file():
            raise BenchmarkError(f"feedback: {artifact.name} was named and not written")
        if artifact.path.stat().st_size > MAX_ARTIFACT_BYTES:
            raise BenchmarkError(
                f"feedback: {artifact.name} exceeds {MAX_ARTIFACT_BYTES // 2**20} MiB"
            )
        if artifact.episode is not None and artifact.episode not in submitted:
            raise BenchmarkError(
                f"feedback: {artifact.name} names Episode {artifact.episode}, which was not "
                "submitted on"
            )
    folders = {
        parent.as_posix()
        for artifact in artifacts
        for parent in PurePosixPath(artifact.name).parents
    }
    if clash := sorted(folders & taken):
        raise BenchmarkError(f"feedback: '{clash[0]}' is the name of a file and of a folder")


def _check_name(name: str, taken: set[str]) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME or name in taken:
        raise BenchmarkError(
            f"feedback: the artifact name '{name[:MAX_NAME]}' is taken or not a portable relative "
            "path"
        )
    taken.add(name)


def shown_artifacts(
    artifacts: Sequence[Artifact], folder: Path, paths: HostPaths
) -> list[Artifact]:
    """`artifacts`, those of text by copies in `folder` where they name any of `paths`."""
    shown = []
    for number, artifact in enumerate(artifacts):
        if artifact.media_type.startswith("text/") or artifact.media_type == "application/json":
            content = artifact.path.read_bytes()
            if (hidden := paths.data(content)) != content:
                copy = folder / f".shown-{number}"
                copy.write_bytes(hidden)
                artifact = replace(artifact, path=copy)
        shown.append(artifact)
    return shown


def publish(
    target: Path,
    content: Mapping[str, Any],
    evaluation: Evaluation,
    artifacts: Sequence[Artifact],
    paths: HostPaths,
) -> None:
    """Write one Submission's Feedback to the folder `target`: staged, fsynced, renamed, so that it
    is whole or absent.

    No text of it names any of `paths`.
    """
    staging = target.with_name(f".{target.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)
    make_folder(staging)
    document = {SCHEMA_KEY: FEEDBACK_FORMAT.newest, **paths.hide(content)}
    _write(staging / FEEDBACK, json.dumps(document, indent=2).encode() + b"\n")
    if "by_episode" in content:
        for outcome in evaluation.outcomes:
            if outcome.output.omitted_bytes or len(outcome.output.text) > OUTPUT_CHARACTERS:
                text = paths.text(outcome.output.text)
                _write(staging / output_name(outcome.index), text.encode("utf-8", "replace"))
    for artifact in artifacts:
        _write(staging / artifact.name, artifact.path.read_bytes())
    sync_tree(staging)
    shutil.rmtree(target, ignore_errors=True)
    move_durably(staging, target)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def copy_feedback(source: Path, folder: Path, name: str) -> None:
    """Copy the Feedback at `source` as `folder/name` in the agent's workspace, whole or not at all.

    The agent can rearrange its workspace meanwhile: the copy is made outside it and moved in by
    descriptor, so that a link put in the way is never followed. Where there is one already, or the
    agent spoiled `folder`, it gets no copy, and the `feedback` verb still answers. Raises what the
    disk raises while copying."""
    staging = source.with_name(f".{name}.copy")
    with suppress(OSError), beneath.opened(folder) as fd:
        if beneath.status_of(name, fd) is not None:
            return
    shutil.rmtree(staging, ignore_errors=True)
    try:
        shutil.copytree(source, staging)
        sync_tree(staging)
        with suppress(OSError), beneath.opened(folder) as fd:
            beneath.move_in(staging, name, fd)
            os.fsync(fd)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def discard(folder: Path, name: str, artifact: str) -> None:
    """Remove an evicted artifact from the Feedback `name` in `folder`, following no link; what is
    spoiled is left."""
    if not _NAME.fullmatch(f"{name}/{artifact}"):
        return
    *folders, file = (name, *PurePosixPath(artifact).parts)
    with suppress(OSError), beneath.opened(folder, folders) as fd:
        os.unlink(file, dir_fd=fd)
