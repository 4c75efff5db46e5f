"""A Run on disk that has everything a report shows, with texts of the test's own in every place an
agent writes to."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.files.program import ProgramStore, capture, link_program
from evopolicy.kernel.ports.feedback import FEEDBACK
from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript
from evopolicy.kernel.run.result import graded_path
from evopolicy.kernel.run.stream import write_transcript
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import feedback_folder, write_record
from evopolicy.kernel.session.selection import measure
from evopolicy.kernel.session.submission import OUTCOMES, submission_folder, write_graded
from tests.analysis.conftest import graded, record

GIF = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00"
    b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)
"""One white pixel."""


def png() -> bytes:
    """One grey pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0\x80"))
        + chunk(b"IEND", b"")
    )


@dataclass(frozen=True)
class Sent:
    """One Submission of the Run."""

    files: Mapping[str, str]
    score: float | None = 5.0
    """None: the engine failed."""
    validation: float = 4.0
    failed: int = 0
    feedback: Mapping[str, Any] = field(default_factory=dict)
    """Put over what feedback.json says by itself."""
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    """By name; `replays/0000.gif` is of Episode 0."""
    steps: Sequence[Step] = ()
    """What the agent did before it; the last one leads to it."""


def lay(
    output: Path,
    sent: Sequence[Sent],
    *,
    selected: int = 1,
    heldout: Sequence[float] = (1.0, 2.0, 3.0),
    after: Sequence[Step] = (),
    label: str = "ada",
    initial: Mapping[str, str] | None = None,
    reasons: Sequence[str] = (),
    valid: bool = True,
    **changes: Any,
) -> Path:
    """The Run's folder, finished."""
    folder = output / "runs" / "cartpole" / "ada" / "s0-abc"
    store = ProgramStore(output / "programs")
    first = _program(
        output,
        store,
        folder,
        initial or {"policy.py": "def make_policy(context):\n    return None\n"},
    )
    digests = [_program(output, store, folder, one.files) for one in sent]
    write_record(folder, record(label, "cartpole", 0, first, **changes))
    journal = Journal(folder)
    journal.append("opened", key="k")
    journal.append("agent_started", attempt=1)
    for number, (one, digest) in enumerate(zip(sent, digests, strict=True), start=1):
        _submission(folder, journal, number, one, digest)
    journal.append("closed", by="finish", named=[selected])
    ended = {"thinking_seconds": 75.0, "evaluating_seconds": 4.0, "turns": 12, "tool_calls": 9}
    usage = {"input_tokens": 12_000, "output_tokens": 3_400, "cost_usd": 0.42}
    journal.append("agent_ended", reason="finished", exit_code=0, usage=usage, **ended)
    published = [number for number, one in enumerate(sent, start=1) if one.score is not None]
    journal.append("handoff", candidates=published, reasons=[])
    key = "r" * 64
    for digest, mean in {digests[n - 1]: sent[n - 1].validation for n in published}.items():
        write_graded(graded_path(folder, "validation", digest), graded([mean - 1, mean + 1]))
        measured = msgspec.to_builtins(measure([mean - 1, mean + 1], 0))
        journal.append(
            "validated", result=key, program=digest, measurement=measured, wall_seconds=1.0
        )
    chosen = digests[selected - 1]
    journal.append("selected", result=key, program=chosen, submission=selected)
    write_graded(graded_path(folder, "assessment", chosen), graded(heldout))
    measured = msgspec.to_builtins(measure(heldout, 0))
    journal.append("assessed", result=key, program=chosen, measurement=measured, wall_seconds=3.0)
    journal.append("ended", result=key, valid=valid, reasons=list(reasons))
    journal.close()
    _transcript(folder, sent, after)
    return folder


def _program(output: Path, store: ProgramStore, folder: Path, files: Mapping[str, str]) -> str:
    source = output / "source"
    for old in sorted(source.rglob("*"), reverse=True):
        old.rmdir() if old.is_dir() else old.unlink()
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, newline="")
    program = capture(source)
    store.put(program)
    link_program(folder, store, program.digest)
    return program.digest


def _submission(folder: Path, journal: Journal, number: int, one: Sent, digest: str) -> None:
    journal.append("reserved", submission=number, program=digest, selector="0:4", units=4)
    if one.score is None:
        journal.append("submission_failed", submission=number, reason="the engine was lost")
        return
    episodes = graded([one.score] * 4, one.failed)
    write_graded(submission_folder(folder, number) / OUTCOMES, episodes)
    _feedback(feedback_folder(folder, number), number, one, digest)
    failures = {"exception": one.failed} if one.failed else {}
    took = {"wall_seconds": 2.0, "policy_seconds": 0.5}
    journal.append("published", submission=number, score=one.score, failures=failures, **took)


def _feedback(target: Path, number: int, one: Sent, digest: str) -> None:
    artifacts = []
    for name, data in one.pictures.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)
        kind = {"gif": "image/gif", "png": "image/png", "svg": "image/svg+xml"}[
            name.rpartition(".")[2]
        ]
        row = {"file": name, "media_type": kind, "retention": "bulk", "bytes": len(data)}
        artifacts.append({**row, "episode": int(Path(name).stem)})
    rows: list[dict[str, Any]] = [
        {"index": i, "score": one.score, "length": 10, "ending": "terminated", "measures": {}}
        for i in range(4)
    ]
    content = {
        "submission": number,
        "program": digest,
        "score": one.score,
        "episodes": 4,
        "artifacts": artifacts,
    }
    content |= {"summary": {"return": {"mean": one.score}}, "by_episode": rows, **one.feedback}
    target.mkdir(parents=True, exist_ok=True)
    (target / FEEDBACK).write_text(json.dumps(content))


def _transcript(folder: Path, sent: Sequence[Sent], after: Sequence[Step]) -> None:
    steps: list[Step] = []
    for number, one in enumerate(sent, start=1):
        steps.extend(one.steps)
        if one.steps:
            steps[-1] = replace(steps[-1], submission=number)
    logs = folder / "agent" / "attempt-1"
    logs.mkdir(parents=True)
    write_transcript(logs, Transcript(steps=(*steps, *after), completed=True, seconds=80.0))


def said(text: str, *calls: ToolCall, reasoning: str = "") -> Step:
    """A step of the agent's."""
    return Step("agent", text, reasoning, calls, seconds=1.5)
