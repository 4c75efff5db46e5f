"""Which files of a Run's folder are logged, and under which names.

An agent's file that a browser would run (HTML, SVG, XML) gets `.txt` behind its name, so that it is shown as the text
it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evopolicy.kernel.attendance import attempt_logs
from evopolicy.kernel.feedback import FEEDBACK
from evopolicy.kernel.record import feedback_folder
from evopolicy.kernel.secrets import Masker
from evopolicy.kernel.stream import PROXY_LOG, STDOUT, TRANSCRIPT
from evopolicy.kernel.submission import OUTCOMES, submission_folder
from evopolicy.tracking.masking import copy_masked

ACTIVE = frozenset(
    {".html", ".htm", ".xhtml", ".shtml", ".svg", ".xml", ".xsl", ".mht", ".mhtml", ".js", ".mjs", ".pdf"}
)

OUTCOME_FILES = "outcomes"
"""Folder of the Submissions' graded Episodes among the artifacts."""
EVALUATIONS = "evaluations"
"""Folder of the private splits' graded Episodes, in a Run's folder and among the artifacts."""
PRIVATE = ("validation", "assessment")
INITIAL = "initial"
"""Folder of the Program a Run began with, among those of its Submissions."""
STREAMS = (STDOUT, "stderr.log", PROXY_LOG)
"""What an attempt's agent and the Host's proxy wrote, as it came."""
STREAM_BYTES = 1 << 20
"""A longer raw stream is bulk."""


@dataclass(frozen=True)
class Upload:
    """One file of a run's artifacts: a file on disk, or content that is made."""

    target: str
    """POSIX path inside the artifacts."""
    source: Path | None = None
    content: bytes = b""
    version: int = 0
    """Higher for a file that grew since it was logged."""


def program_uploads(folder: Path, program: str, target: str) -> Iterator[Upload]:
    """The files of the Program with digest `program`, under `target`; none where it is gone."""
    root = folder / "programs" / program
    for path in _regular_files(root):
        name = path.relative_to(root).as_posix()
        yield Upload(_join(target, _shown(name)), source=path)


def feedback_uploads(folder: Path, submission: int, target: str, bulk: bool) -> Iterator[Upload]:
    """The Feedback of a Submission, under `target`: its content and permanent artifacts, with `bulk` all there are."""
    root = feedback_folder(folder, submission)
    left_out = frozenset() if bulk else _bulk(root / FEEDBACK)
    for path in _regular_files(root):
        name = path.relative_to(root).as_posix()
        if name not in left_out:
            yield Upload(_join(target, _shown(name)), source=path)


def attempt_target(attempt: int) -> str:
    """Where the files of an attempt lie among the artifacts."""
    return f"agent/attempt-{attempt}"


def attempt_uploads(folder: Path, attempt: int, version: int, bulk: bool) -> Iterator[Upload]:
    """The transcript of an attempt that has ended, and its raw streams; those that are bulk with `bulk` only."""
    logs = attempt_logs(folder / "agent", attempt)
    for name in (TRANSCRIPT, *STREAMS):
        path = logs / name
        if not path.is_file() or path.is_symlink():
            continue
        if bulk or name == TRANSCRIPT or path.stat().st_size <= STREAM_BYTES:
            yield Upload(_join(attempt_target(attempt), name), source=path, version=version)


def outcome_uploads(folder: Path, submission: int) -> Iterator[Upload]:
    """The graded Episodes of a published Submission."""
    path = submission_folder(folder, submission) / OUTCOMES
    if path.is_file() and not path.is_symlink():
        yield Upload(f"{OUTCOME_FILES}/{submission:04d}.jsonl", source=path)


def evaluation_uploads(folder: Path, version: int) -> Iterator[Upload]:
    """The graded Episodes of Programs on the private splits."""
    for split in PRIVATE:
        for path in _regular_files(folder / EVALUATIONS / split):
            if path.suffix == ".jsonl":
                yield Upload(f"{EVALUATIONS}/{split}/{path.name}", source=path, version=version)


def stage(uploads: Iterable[Upload], folder: Path, mask: Masker) -> None:
    """Lay `uploads` under `folder` by their target names, without secrets; a file that has vanished is left out."""
    for upload in uploads:
        path = folder / upload.target
        path.parent.mkdir(parents=True, exist_ok=True)
        if upload.source is None:
            path.write_bytes(mask.data(upload.content))
            continue
        try:
            copy_masked(upload.source, path, mask)
        except FileNotFoundError:
            path.unlink(missing_ok=True)


def _regular_files(root: Path) -> list[Path]:
    """Files below `root` in order, no links among them; `root` itself may be a link (a Run's Programs are)."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def _bulk(feedback: Path) -> frozenset[str]:
    try:
        content = json.loads(feedback.read_bytes())
        return frozenset(a["file"] for a in content.get("artifacts", ()) if a.get("retention") == "bulk")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return frozenset()


def _shown(name: str) -> str:
    return f"{name}.txt" if PurePosixPath(name).suffix.lower() in ACTIVE else name


def _join(target: str, name: str) -> str:
    return f"{target}/{name}" if target else name
