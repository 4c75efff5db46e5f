"""What a report shows of a Run beside its journal: Feedback, transcripts and how Programs
changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.program import Program, archived, diff
from evopolicy.kernel.files.received import read_part, size_of
from evopolicy.kernel.files.versioned import FEEDBACK_FORMAT, parse_object
from evopolicy.kernel.ports.feedback import FEEDBACK
from evopolicy.kernel.ports.transcript import Transcript
from evopolicy.kernel.run.stream import load_transcripts
from evopolicy.kernel.session.record import Run, run_part
from evopolicy.kernel.session.submission import submission_name

FEEDBACK_BYTES = FEEDBACK_FORMAT.bytes
"""A larger feedback.json is named, not read."""
PICTURES: Mapping[str, bytes] = {"image/gif": b"GIF8", "image/png": b"\x89PNG"}
"""Media types that are read as pictures, and how their files begin: no other kind is ever shown by
a browser."""
DIFF_BYTES = 256 << 10
"""Of one file, each before and after: a larger one is named in a diff, not compared."""
DIFF_LINES = 4_000


@dataclass(frozen=True)
class Attached:
    """An artifact of Feedback."""

    name: str
    media_type: str
    size: int
    """Bytes."""
    episode: int | None
    """Public index it belongs to, where it belongs to one."""
    there: bool
    """False where it was evicted or pruned."""
    picture: bytes | None = None
    """Its content, where it is a GIF or PNG that was asked for."""


@dataclass(frozen=True)
class FeedbackFiles:
    """The Feedback of one Submission, as the agent got it."""

    content: Mapping[str, Any]
    """Of feedback.json; empty where it cannot be read."""
    artifacts: tuple[Attached, ...] = ()
    problem: str = ""
    """Why it is not there: one sentence."""


def read_feedback(run: Run, submission: int, picture_bytes: int) -> FeedbackFiles:
    """The Feedback of a published Submission, with the content of pictures of at most
    `picture_bytes` each."""
    try:
        top, name = run_part(run.folder, submission_name(submission, "feedback"))
        content = FEEDBACK_FORMAT.upgraded(
            parse_object(read_part(top, f"{name}/{FEEDBACK}", FEEDBACK_BYTES)), FEEDBACK
        )
        rows = [_attached(top, name, row, picture_bytes) for row in content.get("artifacts", ())]
    except FileNotFoundError:
        return FeedbackFiles({}, problem="its Feedback is not there any more")
    except RecordError as error:
        return FeedbackFiles({}, problem=str(error).replace(f"{run.folder}/", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return FeedbackFiles(
            {}, problem=f"{FEEDBACK} cannot be read ({type(error).__name__}: {error})"
        )
    return FeedbackFiles(content, tuple(rows))


def _attached(top: Path, folder: str, row: Mapping[str, Any], picture_bytes: int) -> Attached:
    name, media_type, episode = str(row["file"]), str(row["media_type"]), row.get("episode")
    place = f"{folder}/{name}"
    size = None if PurePosixPath(name).is_absolute() else size_of(top, place)
    picture = None
    if size is not None and media_type in PICTURES and size <= picture_bytes:
        picture = read_part(top, place, picture_bytes)
        picture = picture if picture.startswith(PICTURES[media_type]) else None
    told = size if size is not None else int(row["bytes"])
    return Attached(
        name, media_type, told, episode if type(episode) is int else None, size is not None, picture
    )


@dataclass(frozen=True)
class Transcripts:
    """What the agent did, an attempt each."""

    attempts: tuple[Transcript, ...] = ()
    problem: str = ""
    """Why they are not there, where they cannot be read: one sentence."""


def read_transcripts(run: Run) -> Transcripts:
    """The transcripts of `run`, in the order of its attempts; one that is missing is left out."""
    try:
        return Transcripts(tuple(load_transcripts(run.folder)))
    except RecordError as error:
        return Transcripts(problem=f"the transcript cannot be read ({error})")


@dataclass(frozen=True)
class Changes:
    """How one Program of a Run differs from another."""

    text: str = ""
    """Unified diff."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By path, why a file that differs is not compared."""
    problem: str = ""
    """Why there is none, where a Program's files are gone."""


def read_changes(run: Run, before: str | None, after: str) -> Changes:
    """The difference from the Program `before` (None: from nothing) to `after`, digests of Programs
    of `run`."""
    if before == after:
        return Changes()
    try:
        programs = [
            archived(run.folder, digest) if digest is not None else None
            for digest in (before, after)
        ]
    except RecordError as error:
        return Changes(problem=str(error).replace(f"{run.folder}/", ""))
    if gone := [
        digest
        for digest, program in zip((before, after), programs, strict=True)
        if digest and not program
    ]:
        return Changes(problem=f"the files of Program {gone[0][:12]} are not there any more")
    old, new = (program.files if program else {} for program in programs)
    left_out, kept = dict[str, str](), (dict[str, bytes](), dict[str, bytes]())
    for name in sorted({*old, *new}):
        contents = (old.get(name), new.get(name))
        if contents[0] == contents[1]:
            continue
        if any(
            len(one or b"") > DIFF_BYTES or (one or b"").count(b"\n") > DIFF_LINES
            for one in contents
        ):
            words = " to ".join(
                "nothing" if one is None else f"{len(one):,} bytes" for one in contents
            )
            left_out[name] = f"from {words}, too large to compare"
            continue
        for files, content in zip(kept, contents, strict=True):
            if content is not None:
                files[name] = content
    return Changes(
        diff(Program(before, kept[0]) if before else None, Program(after, kept[1])), left_out
    )
