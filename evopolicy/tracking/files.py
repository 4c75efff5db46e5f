"""Which files of a Run's folder are logged, and under which names.

An agent's file that a browser would run (HTML, SVG, XML) gets `.txt` behind its name, so that it is
shown as the text it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.program import MAX_FILE_BYTES, archived
from evopolicy.kernel.files.received import open_part, parts_below, read_part, size_of, too_large
from evopolicy.kernel.files.versioned import (
    EPISODES_FORMAT,
    FEEDBACK_FORMAT,
    PROXY_FORMAT,
    TRANSCRIPT_FORMAT,
    parse_object,
)
from evopolicy.kernel.ports.feedback import FEEDBACK, MAX_ARTIFACT_BYTES
from evopolicy.kernel.run.stream import PROXY_LOG, STDOUT, TRANSCRIPT
from evopolicy.kernel.secrecy.secrets import Masker
from evopolicy.kernel.session.record import run_part
from evopolicy.kernel.session.submission import OUTCOMES, submission_name
from evopolicy.tracking.masking import copy_masked

_ACTIVE = frozenset(
    (
        ".html",
        ".htm",
        ".xhtml",
        ".xht",
        ".shtml",
        ".hta",
        ".htc",
        ".mht",
        ".mhtml",
        ".svg",
        ".svgz",
        ".js",
        ".mjs",
    )
    + (".xml", ".xsl", ".xslt", ".rdf", ".atom", ".rss", ".mml", ".mathml", ".swf", ".pdf")
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
FILES = 50_000
"""Of one Run, here and in all below: what has more is not downloaded again either."""
FILE_BYTES = 256 << 20
RUN_BYTES = 4 << 30


@dataclass(frozen=True)
class Upload:
    """One file of a run's artifacts: a file on disk, or content that is made."""

    target: str
    """POSIX path inside the artifacts."""
    source: str | None = None
    """POSIX path below `top`; no link below it is followed."""
    top: Path = Path()
    most: int = FILE_BYTES
    """Bytes of a file: a larger one is none of its kind, and is left out."""
    content: bytes = b""
    version: int = 0
    """Higher for a file that grew since it was logged."""


def program_uploads(folder: Path, program: str, target: str) -> Iterator[Upload]:
    """The files of the Program with digest `program`, under `target`; none where it is gone or not
    that Program."""
    try:
        found = archived(folder, program)
    except RecordError:
        return
    root = (folder / "programs" / program).resolve()
    for name in found.files if found else ():
        yield Upload(_join(target, _shown(name)), top=root, source=name, most=MAX_FILE_BYTES)


def feedback_uploads(folder: Path, submission: int, target: str, bulk: bool) -> Iterator[Upload]:
    """The Feedback of a Submission, under `target`: its content and permanent artifacts, with
    `bulk` all there are."""
    top, root = run_part(folder, submission_name(submission, "feedback"))
    left_out = frozenset() if bulk else _bulk(top, f"{root}/{FEEDBACK}")
    for part in parts_below(top, root):
        name = part.name.removeprefix(f"{root}/")
        if name not in left_out:
            most = FEEDBACK_FORMAT.bytes if name == FEEDBACK else MAX_ARTIFACT_BYTES
            yield Upload(_join(target, _shown(name)), top=top, source=part.name, most=most)


def attempt_target(attempt: int) -> str:
    """Where the files of an attempt lie among the artifacts."""
    return f"agent/attempt-{attempt}"


def attempt_uploads(folder: Path, attempt: int, version: int, bulk: bool) -> Iterator[Upload]:
    """The transcript of an attempt that has ended, and its raw streams; those that are bulk with
    `bulk` only."""
    for name in (TRANSCRIPT, *STREAMS):
        top, part = run_part(folder, f"agent/attempt-{attempt}/{name}")
        size = size_of(top, part)
        if size is not None and (bulk or name == TRANSCRIPT or size <= STREAM_BYTES):
            target, most = (
                _join(attempt_target(attempt), name),
                _STREAM_LIMITS.get(name, FILE_BYTES),
            )
            yield Upload(target, top=top, source=part, version=version, most=most)


def outcome_uploads(folder: Path, submission: int) -> Iterator[Upload]:
    """The graded Episodes of a published Submission."""
    top, part = run_part(folder, submission_name(submission, OUTCOMES))
    if size_of(top, part) is not None:
        yield Upload(
            f"{OUTCOME_FILES}/{submission:04d}.jsonl",
            top=top,
            source=part,
            most=EPISODES_FORMAT.bytes,
        )


def evaluation_uploads(folder: Path, version: int) -> Iterator[Upload]:
    """The graded Episodes of Programs on the private splits."""
    for split in PRIVATE:
        for part in parts_below(folder, f"{EVALUATIONS}/{split}"):
            if part.name.endswith(".jsonl"):
                yield Upload(
                    part.name,
                    top=folder,
                    source=part.name,
                    version=version,
                    most=EPISODES_FORMAT.bytes,
                )


def stage(uploads: Iterable[Upload], folder: Path, mask: Masker) -> list[str]:
    """Lay `uploads` under `folder` by their target names, without secrets. Returns what was left
    out, and why.

    That is what is larger than such a file may be, and what is beyond FILES and RUN_BYTES: nothing
    of it is read. A file that has vanished, and one that is none, is left out without a word."""
    left_out, files, room = list[str](), 0, RUN_BYTES
    for upload in uploads:
        path = folder / upload.target
        path.parent.mkdir(parents=True, exist_ok=True)
        if upload.source is None:
            path.write_bytes(mask.data(upload.content))
            continue
        size, most = size_of(upload.top, upload.source), min(upload.most, FILE_BYTES)
        if size is None:
            continue
        if size > most:
            left_out.append(str(too_large(upload.top / upload.source, most)))
        elif size > room or files == FILES:
            left_out.append(
                f"{upload.top / upload.source}: a Run's files have {RUN_BYTES:,} bytes at most, "
                f"and are {FILES:,}"
            )
        else:
            files, room = files + 1, room - size
            _copy(upload.top, upload.source, path, mask, size)
    return left_out


def _copy(top: Path, source: str, path: Path, mask: Masker, size: int) -> None:
    try:
        with open_part(top, source) as file:
            copy_masked(file, path, mask, size)
    except (FileNotFoundError, RecordError):
        path.unlink(missing_ok=True)


_STREAM_LIMITS = {TRANSCRIPT: TRANSCRIPT_FORMAT.bytes, PROXY_LOG: PROXY_FORMAT.bytes}


def _bulk(top: Path, feedback: str) -> frozenset[str]:
    try:
        content = parse_object(read_part(top, feedback, FEEDBACK_FORMAT.bytes))
        return frozenset(
            a["file"] for a in content.get("artifacts", ()) if a.get("retention") == "bulk"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecordError):
        return frozenset()


def is_active(name: str) -> bool:
    """Whether a browser may run a file of that name: by any of its endings, as servers look past
    `.gz`."""
    return any(suffix.lower() in _ACTIVE for suffix in PurePosixPath(name).suffixes)


def _shown(name: str) -> str:
    return f"{name}.txt" if is_active(name) else name


def _join(target: str, name: str) -> str:
    return f"{target}/{name}" if target else name
