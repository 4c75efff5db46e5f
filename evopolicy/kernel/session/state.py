"""What a Run's journal adds up to: each event's effect, in one place for recovery, loading,
tracking and analysis."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from evopolicy.kernel.errors import RecordError, Refused
from evopolicy.kernel.ports.pool import parse_selector, selected_units
from evopolicy.kernel.session.budget import MAX_SUBMISSIONS, MAX_UNITS, Account, Budget
from evopolicy.kernel.session.events import check_event
from evopolicy.kernel.session.failures import ENGINE_FAULT
from evopolicy.kernel.session.journal import Event, Journal
from evopolicy.kernel.session.selection import Measurement

MAX_STEPS = 60_000
"""Events of a journal that change something: each Submission has two."""
_SHOWN_FAULT = 300
"""Characters of a fault that a reader is told beside the word for it."""


@dataclass(frozen=True)
class SubmissionState:
    """One Submission, as far as the journal tells."""

    id: int
    """From 1."""
    program: str
    indices: tuple[int, ...]
    status: str = "running"
    """'running', 'published' or 'failed' (an engine fault; its units stay spent)."""
    score: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failed Episodes by kind."""
    reason: str = ""
    units_used: int = 0
    """Episode units of the Run consumed up to and with this one."""
    time: float = 0.0
    wall_seconds: float = 0.0
    policy_seconds: float = 0.0


@dataclass(frozen=True)
class ResultState:
    """Selection and Assessment under one `result_key`."""

    validation: Mapping[str, Measurement] = field(default_factory=dict)
    """By Program digest."""
    selected: str | None = None
    selected_submission: int | None = None
    """None for the initial Program."""
    assessment: Measurement | None = None
    ended: bool = False
    valid: bool | None = None
    reasons: tuple[str, ...] = ()
    """Why it is invalid, or what is to be known of it ('nothing_published')."""
    wall_seconds: Mapping[str, float] = field(default_factory=dict)
    """'validation', 'assessment'."""


@dataclass(frozen=True)
class AttemptClock:
    """The time of the attempt under way, as the newest event told it that its agent led to."""

    thinking: float = 0.0
    evaluating: float = 0.0
    waiting: bool = False
    """Whether its own call waited for an Evaluation from then on."""

    def at(self, seconds: float | None) -> AttemptClock:
        """As it stood so many seconds after the agent's start, when it was last heard; None: never
        since."""
        more = (seconds or 0.0) - self.thinking - self.evaluating
        return self if self.waiting or more <= 0 else replace(self, thinking=self.thinking + more)


@dataclass(frozen=True)
class RunState:
    """Everything a Run's journal adds up to."""

    opened: float | None = None
    """Unix seconds of the journal's beginning: of a regrade, its parent's; None where it does not
    tell."""
    submissions: tuple[SubmissionState, ...] = ()
    closed_by: str = ""
    """'' while the Session is open; 'finish', 'budget', or why the Host closed it."""
    named: tuple[int, ...] = ()
    """Submissions the agent's `finish` named."""
    agent_attempts: int = 0
    agent_ended: str = ""
    """Terminal reason: 'finished', 'exited', 'crashed', 'wall_time', 'idle', 'provider', ...; ''
    while it runs."""
    agent_exit_code: int | None = None
    thinking_seconds: float = 0.0
    waiting_seconds: float = 0.0
    """While its provider failed: no part of the thinking."""
    evaluating_seconds: float = 0.0
    attempt: AttemptClock = AttemptClock()
    """Of an attempt that has not ended; the three above are of those that have."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """As `transcript.Usage`, added up over the attempts."""
    turns: int = 0
    tool_calls: int = 0
    agent_session: str = ""
    """The provider's session of the newest attempt that named one."""
    agent_error: str = ""
    """The provider's own words, where the newest attempt failed."""
    agent_error_kind: str = ""
    """Which of the provider's faults that was: 'overload', 'credentials', ...; '' where its
    integration cannot tell."""
    unexplained_tokens: int | None = None
    """Tokens the Host's proxy passed on that the agent's streams do not tell of; None where no
    attempt can say."""
    candidates: tuple[int, ...] | None = None
    """Handed off; None before the handoff."""
    handoff_reasons: tuple[str, ...] = ()
    refusals: int = 0
    fault: str = ""
    """What kept Validation or Assessment from an end, the last time."""
    results: Mapping[str, ResultState] = field(default_factory=dict)

    @property
    def published(self) -> tuple[SubmissionState, ...]:
        return tuple(s for s in self.submissions if s.status == "published")

    @property
    def pending(self) -> SubmissionState | None:
        """A Submission that was charged and has no outcome yet."""
        return next((s for s in self.submissions if s.status == "running"), None)

    def explained(self, reasons: Sequence[str]) -> str:
        """`reasons` of a result for a reader: 'wall_time, engine_fault: Episode 0: environment
        fault: ...'."""
        words = ", ".join(sorted(reasons, key=lambda word: word == ENGINE_FAULT))
        failed = next((s.reason for s in self.submissions if s.status == "failed" and s.reason), "")
        return f"{words}: {failed[:_SHOWN_FAULT]}" if failed and ENGINE_FAULT in reasons else words

    def account(self, budget: Budget, pool_size: int) -> Account:
        units = sum(len(s.indices) for s in self.submissions)
        return Account(budget, pool_size, len(self.submissions), units)


def fold(events: Iterable[Event], where: str = "journal") -> RunState:
    """The state `events` add up to.

    Raises RecordError, beginning with `where`, for an event that is corrupt or of an unknown type,
    and for more of them than a Run can have."""
    state, changes = RunState(), 0
    for event in events:
        changes += _STEPS.get(event["event"]) is not _unchanged
        if changes - state.refusals > MAX_STEPS:
            raise RecordError(
                f"{where}: line {event['n'] + 1}: more than {MAX_STEPS:,} events are those of no "
                "Run"
            )
        state = advance(state, event, where)
    return state


def advance(state: RunState, event: Event, where: str = "journal") -> RunState:
    """The state after one more event."""
    check_event(event, where)
    try:
        return _timed_attempt(_STEPS[event["event"]](state, event), event)
    except (KeyError, TypeError, ValueError, AttributeError, Refused) as error:
        raise RecordError(
            f"{where}: line {event['n'] + 1} ('{event['event']}') is corrupt: {error!r}"
        ) from None


def check_references(state: RunState, where: str) -> None:
    """Raises RecordError, beginning with `where`, for a state in which a Submission is named that
    there is not."""
    submissions = {s.id for s in state.submissions}
    for what, numbers in (("finish", state.named), ("the handoff", state.candidates or ())):
        if unknown := [number for number in numbers if number not in submissions]:
            raise RecordError(f"{where}: {what} names Submission {unknown[0]}, which there is not")
    for result in state.results.values():
        if result.selected_submission is not None and result.selected_submission not in submissions:
            raise RecordError(
                f"{where}: Submission {result.selected_submission} is selected, which there is not"
            )


class Ledger:
    """A Run's journal and the state it adds up to, moved together. Safe to use from several
    threads."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self.state = fold(journal.events)

    @property
    def events(self) -> tuple[Event, ...]:
        """The journal so far."""
        with self._lock:
            return tuple(self._journal.events)

    def append(self, event: str, **content: Any) -> None:
        """Durable when this returns; only then may its effect be announced."""
        with self._lock:
            self.state = advance(self.state, self._journal.append(event, **content))


def _timed_attempt(state: RunState, event: Event) -> RunState:
    """An event that came while an agent was at work says how its clock stood, and some how it went
    on."""
    clock = event.get("clock")
    if clock is None:
        return state
    waiting = event.get("waits", _WAITING.get(event["event"], state.attempt.waiting))
    attempt = AttemptClock(float(clock["thinking"]), float(clock["evaluating"]), bool(waiting))
    return replace(state, attempt=attempt)


_WAITING = {"wait_began": True, "wait_ended": False, "published": False, "submission_failed": False}


def _unchanged(state: RunState, _: Event) -> RunState:
    return state


def _opened(state: RunState, event: Event) -> RunState:
    return replace(state, opened=event["time"])


def _refused(state: RunState, _: Event) -> RunState:
    return replace(state, refusals=state.refusals + 1)


def _reserved(state: RunState, event: Event) -> RunState:
    used = (state.submissions[-1].units_used if state.submissions else 0) + event["units"]
    if event["submission"] != len(state.submissions) + 1 or event["submission"] > MAX_SUBMISSIONS:
        raise ValueError(f"Submission {event['submission']} cannot come here")
    # Counted before it is spelled out: ten letters may name a billion Episodes.
    if selected_units(event["selector"]) != event["units"] or used > MAX_UNITS:
        raise ValueError(
            f"its selector names other than {event['units']} Episodes, or more than a Run can have"
        )
    indices = parse_selector(event["selector"], 10**9)
    submission = SubmissionState(
        event["submission"], event["program"], indices, units_used=used, time=event["time"]
    )
    return replace(state, submissions=(*state.submissions, submission))


def _settled(state: RunState, event: Event) -> RunState:
    status = "published" if event["event"] == "published" else "failed"
    update = {
        k: event[k]
        for k in ("score", "failures", "reason", "wall_seconds", "policy_seconds")
        if k in event
    }
    index = event["submission"] - 1
    if index >= len(state.submissions):
        raise ValueError(f"there is no Submission {index + 1}")
    settled = replace(state.submissions[index], status=status, time=event["time"], **update)
    return replace(
        state, submissions=(*state.submissions[:index], settled, *state.submissions[index + 1 :])
    )


def _closed(state: RunState, event: Event) -> RunState:
    return replace(state, closed_by=event["by"], named=tuple(event["named"]))


def _agent_started(state: RunState, event: Event) -> RunState:
    return replace(state, agent_attempts=event["attempt"], agent_ended="", attempt=AttemptClock())


def _agent_ended(state: RunState, event: Event) -> RunState:
    return replace(
        state,
        agent_ended=event["reason"],
        agent_exit_code=event.get("exit_code"),
        thinking_seconds=state.thinking_seconds + event.get("thinking_seconds", 0.0),
        waiting_seconds=state.waiting_seconds + event.get("waiting_seconds", 0.0),
        evaluating_seconds=state.evaluating_seconds + event.get("evaluating_seconds", 0.0),
        attempt=AttemptClock(),
        usage=add_usage(state.usage, event.get("usage") or {}),
        turns=state.turns + event.get("turns", 0),
        tool_calls=state.tool_calls + event.get("tool_calls", 0),
        agent_session=event.get("session_id") or state.agent_session,
        agent_error=event.get("error", ""),
        agent_error_kind=event.get("error_kind", ""),
        unexplained_tokens=_sum(state.unexplained_tokens, event.get("unexplained_tokens")),
    )


def add_usage(total: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """Usage of all attempts: numbers added, flags joined, None where no attempt says."""
    added = dict(total)
    for key, value in usage.items():
        before = added.get(key)
        if isinstance(value, bool):
            added[key] = bool(before) or value
        elif isinstance(value, int | float) and before is not None:
            added[key] = before + value
        elif value is not None or before is None:
            added[key] = value
    return added


def _sum(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more


def _handoff(state: RunState, event: Event) -> RunState:
    return replace(
        state, candidates=tuple(event["candidates"]), handoff_reasons=tuple(event["reasons"])
    )


def _in_result(state: RunState, event: Event, **changes: Any) -> RunState:
    old = state.results.get(event["result"], ResultState())
    return replace(state, results={**state.results, event["result"]: replace(old, **changes)})


def _timed(state: RunState, event: Event, phase: str) -> dict[str, float]:
    old = state.results.get(event["result"], ResultState()).wall_seconds
    return {**old, phase: old.get(phase, 0.0) + event.get("wall_seconds", 0.0)}


def _validated(state: RunState, event: Event) -> RunState:
    old = state.results.get(event["result"], ResultState())
    measured = {
        **old.validation,
        event["program"]: msgspec.convert(event["measurement"], Measurement),
    }
    return _in_result(
        state, event, validation=measured, wall_seconds=_timed(state, event, "validation")
    )


def _selected(state: RunState, event: Event) -> RunState:
    number = event["submission"]
    if number is not None and not any(
        s.id == number and s.program == event["program"] for s in state.published
    ):
        raise ValueError(
            f"the Program of Submission {number} is another one, or was never published"
        )
    return _in_result(
        state, event, selected=event["program"], selected_submission=event["submission"]
    )


def _assessed(state: RunState, event: Event) -> RunState:
    measured = msgspec.convert(event["measurement"], Measurement)
    if event["program"] != state.results.get(event["result"], ResultState()).selected:
        raise ValueError("its Program is not the one that was selected")
    return _in_result(
        state, event, assessment=measured, wall_seconds=_timed(state, event, "assessment")
    )


def _ended(state: RunState, event: Event) -> RunState:
    return _in_result(
        state, event, ended=True, valid=event["valid"], reasons=tuple(event["reasons"])
    )


_STEPS: dict[str, Callable[[RunState, Event], RunState]] = {
    "opened": _opened,
    "resumed": _unchanged,
    "agent_started": _agent_started,
    "refused": _refused,
    "reserved": _reserved,
    "wait_began": _unchanged,
    "wait_ended": _unchanged,
    "published": _settled,
    "submission_failed": _settled,
    "evicted": _unchanged,
    "closed": _closed,
    "agent_ended": _agent_ended,
    "handoff": _handoff,
    "validated": _validated,
    "selected": _selected,
    "assessed": _assessed,
    "fault": lambda state, event: replace(
        state, fault=str(event.get("message", ""))[:_SHOWN_FAULT]
    ),
    "ended": _ended,
}
"""What each journal event does. The write order and content are in session.py and run.py."""
