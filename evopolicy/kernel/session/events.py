"""What each event of a journal holds: a line that says something else is corrupt, whoever wrote it.

A field with a default came later than others of its event, or is left out where there is nothing to
say. Every change here is one of the journal's format: see docs/records.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.session.budget import MAX_UNITS
from evopolicy.kernel.session.selection import Measurement

Time = Annotated[float, Meta(ge=0, le=9e9)]
"""Unix seconds, up to the year 2255: what every reader of dates can show."""
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Number = Annotated[int, Meta(ge=1, le=1_000_000)]
"""Of a Submission or an attempt."""
Units = Annotated[int, Meta(ge=1, le=MAX_UNITS)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=-1e12, le=1e12)]
Name = Annotated[str, Meta(max_length=10_000)]


@dataclass(frozen=True)
class Clock:
    """Of the agent that was at work when an event came: seconds since its start."""

    thinking: Seconds
    evaluating: Seconds
    """For which its own calls waited for Evaluations."""


@dataclass(frozen=True)
class _Plain:
    """An event that says no more than that it happened."""

    n: Count
    """Of the line, from 0."""
    time: Time
    event: str


@dataclass(frozen=True)
class Opened(_Plain):
    key: Name = ""


@dataclass(frozen=True)
class AgentStarted(_Plain):
    attempt: Number


@dataclass(frozen=True)
class Reserved(_Plain):
    submission: Number
    program: Digest
    selector: str
    units: Units
    clock: Clock | None = None
    waits: bool = False
    """Whether the call that made it waits for its outcome."""


@dataclass(frozen=True)
class Published(_Plain):
    submission: Number
    score: float
    failures: Mapping[str, Count] = field(default_factory=dict)
    wall_seconds: Seconds = 0.0
    feedback_seconds: Seconds = 0.0
    policy_seconds: Seconds = 0.0
    retried: Count = 0
    clock: Clock | None = None


@dataclass(frozen=True)
class SubmissionFailed(_Plain):
    submission: Number
    reason: str = ""
    clock: Clock | None = None


@dataclass(frozen=True)
class Waits(_Plain):
    """A call begins or ends to wait for a Submission that another one made: its agent's clock
    stands meanwhile."""

    submission: Number
    clock: Clock


@dataclass(frozen=True)
class Refused(_Plain):
    clock: Clock | None = None


@dataclass(frozen=True)
class Evicted(_Plain):
    artifacts: tuple[tuple[str, str], ...] = ()
    clock: Clock | None = None


@dataclass(frozen=True)
class Closed(_Plain):
    by: Name
    named: tuple[Number, ...]
    clock: Clock | None = None


@dataclass(frozen=True)
class AgentEnded(_Plain):
    reason: Name
    exit_code: int | None = None
    thinking_seconds: Seconds = 0.0
    waiting_seconds: Seconds = 0.0
    evaluating_seconds: Seconds = 0.0
    usage: Mapping[str, bool | int | float | None] | None = None
    turns: Count = 0
    tool_calls: Count = 0
    session_id: str | None = ""
    error: str = ""
    error_kind: str = ""
    unexplained_tokens: Count | None = None


@dataclass(frozen=True)
class Handoff(_Plain):
    candidates: tuple[Number, ...]
    reasons: tuple[Name, ...]


@dataclass(frozen=True)
class Measured(_Plain):
    """'validated' and 'assessed'."""

    result: Name
    program: Digest
    measurement: Measurement
    wall_seconds: Seconds = 0.0


@dataclass(frozen=True)
class Selected(_Plain):
    result: Name
    program: Digest
    submission: Number | None


@dataclass(frozen=True)
class Ended(_Plain):
    result: Name
    valid: bool
    reasons: tuple[Name, ...]


KINDS: Mapping[str, type[_Plain]] = {
    "opened": Opened,
    "resumed": _Plain,
    "agent_started": AgentStarted,
    "refused": Refused,
    "reserved": Reserved,
    "wait_began": Waits,
    "wait_ended": Waits,
    "published": Published,
    "submission_failed": SubmissionFailed,
    "evicted": Evicted,
    "closed": Closed,
    "agent_ended": AgentEnded,
    "handoff": Handoff,
    "validated": Measured,
    "selected": Selected,
    "assessed": Measured,
    "fault": _Plain,
    "ended": Ended,
}
"""By the word in the line."""


def check_event(event: Mapping[str, Any], where: str) -> None:
    """Raises RecordError, beginning with `where`, for an event of unknown kind or with a wrong or
    missing field."""
    word, line = str(event["event"])[:100], int(event["n"]) + 1
    kind = KINDS.get(word)
    if kind is None:
        raise RecordError(f"{where}: line {line} has the unknown event '{word}'; update evopolicy")
    try:
        msgspec.convert(event, kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"{where}: line {line} ('{word}') is corrupt: {error}") from None
