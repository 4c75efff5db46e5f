"""An attempt of an agent as a trace: a pure function of its transcript and the Run's journal,
without MLflow.

Root is the attempt; below it a span for each message, below that its tool calls, below these the
Submissions they led to and each one's Evaluation. All times are real: those of the journal, and of
the lines of the agent's stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.received import size_of
from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript, turns
from evopolicy.kernel.run.stream import TRANSCRIPT, load_transcript
from evopolicy.kernel.secrecy.secrets import Masker
from evopolicy.kernel.session.failures import invalidates_run
from evopolicy.kernel.session.journal import Event
from evopolicy.kernel.session.record import RunRecord, run_part
from evopolicy.kernel.values import digest
from evopolicy.tracking.files import attempt_target
from evopolicy.tracking.masking import masked_by

TEXT = 8_000
"""Characters of one text of a span; a longer one is cut and says so."""
SHORT_TEXT = 800
"""Likewise, in a transcript of more than TRACE_TEXT."""
TRACE_TEXT = 8_000_000
STEPS = 1_000
"""Messages in a trace; of a longer transcript the middle is left out."""
CALLS = 200
"""Tool calls of one message in a trace."""
PREVIEW = 900
ATTEMPT, TURN, TOOL, SUBMISSION, EVALUATION, NOTE = (
    "AGENT",
    "CHAT_MODEL",
    "TOOL",
    "TASK",
    "EVALUATOR",
    "CHAIN",
)
"""Types of spans, as MLflow names them."""


@dataclass(frozen=True)
class Span:
    """One span. Inputs, outputs and attributes are JSON values."""

    key: str
    """Names it within its trace, the same each time."""
    parent: str
    """Key of the span it is under; '' for the root."""
    name: str
    type: str
    start: float
    """Unix seconds."""
    end: float
    inputs: Any = None
    outputs: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """What failed; None where nothing did."""


@dataclass(frozen=True)
class Trace:
    """One attempt."""

    id: str
    """32 hexadecimal digits, the same each time."""
    name: str
    spans: tuple[Span, ...]
    """The root first."""
    usage: Mapping[str, Any]
    """As `transcript.Usage`."""
    model: str
    request: str
    """What lists of traces show of it."""
    response: str
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Attempt:
    """An attempt that has ended and left a transcript, not yet read."""

    folder: Path
    """The Run's."""
    record: RunRecord
    identity: str
    """Of the MLflow run it belongs to."""
    number: int
    """From 1."""
    events: tuple[Event, ...]
    """The Run's journal, from the attempt's start on to the next one's."""
    version: int
    """Higher once nothing of it can change any more."""

    def trace(self, mask: Masker) -> Trace | None:
        """None where its transcript cannot be read."""
        try:
            transcript = load_transcript(self.folder, self.number)
        except RecordError:
            return None
        return _Writer(self, transcript, mask).trace() if transcript else None


def ended_attempts(
    folder: Path, record: RunRecord, identity: str, events: Sequence[Event]
) -> Iterator[Attempt]:
    """The attempts whose end is in the journal and whose transcript is there, in order.

    The transcript is written after the journal tells of the end and before it tells of anything
    else."""
    starts = [place for place, event in enumerate(events) if event["event"] == "agent_started"]
    for place, stop in pairwise([*starts, len(events)]):
        mine, number = tuple(events[place:stop]), int(events[place]["attempt"])
        last = max(
            (n for n, event in enumerate(mine) if event["event"] == "agent_ended"), default=None
        )
        if (
            last is not None
            and size_of(*run_part(folder, f"agent/attempt-{number}/{TRANSCRIPT}")) is not None
        ):
            yield Attempt(
                folder, record, identity, number, mine, int(place + last + 1 < len(events))
            )


class _Writer:
    """Writes the spans of one attempt."""

    def __init__(self, attempt: Attempt, transcript: Transcript, mask: Masker) -> None:
        self._attempt = attempt
        self._transcript = transcript
        self._mask = mask
        self._zero = float(attempt.events[0]["time"])
        self._over: Event = next(e for e in reversed(attempt.events) if e["event"] == "agent_ended")
        self._end = self._ended()
        self._limit = TEXT if _size(transcript) <= TRACE_TEXT else SHORT_TEXT
        self._settled = {
            e["submission"]: e
            for e in attempt.events
            if e["event"] in ("published", "submission_failed")
        }
        self._reserved = {e["submission"]: e for e in attempt.events if e["event"] == "reserved"}

    def trace(self) -> Trace:
        attempt, record = self._attempt, self._attempt.record
        below = [*self._steps()]
        shown = {span.key for span in below}
        below.extend(
            s
            for n in self._reserved
            if f"submission {n}" not in shown
            for s in self._submission(n, "attempt")
        )
        best = max(
            (e["score"] for e in self._settled.values() if e["event"] == "published"), default=None
        )
        ended = f"{self._over['reason']}, {len(self._reserved)} Submissions"
        return Trace(
            id=digest("evopolicy/tracking/trace/1", [attempt.identity, attempt.number])[:32],
            name=f"{record.entry} · {record.benchmark.slug} · s{record.seed} · attempt "
            f"{attempt.number}",
            spans=(self._root(best), *below),
            usage=self._usage(),
            model=record.agent.model,
            request=f"{record.entry} on {record.benchmark.slug}, seed {record.seed}, attempt "
            f"{attempt.number}",
            response=ended if best is None else f"{ended}, best training score {best:.6g}",
            tags={
                "kind": "attempt",
                "attempt": str(attempt.number),
                "agent": record.agent.label,
                "entry": record.entry,
                "benchmark": record.benchmark.slug,
                "seed": str(record.seed),
                "terminal_reason": str(self._over["reason"]),
                "session_id": self._text(
                    self._over.get("session_id") or self._transcript.session_id
                )[:200],
                "identity": attempt.identity,
            },
        )

    # --- Times ------------------------------------------------------------------------------------

    def _at(self, seconds: float | None, otherwise: float) -> float:
        """Unix seconds of what the stream's clock says, or of what came before where it says
        nothing."""
        return otherwise if seconds is None else self._zero + seconds

    def _ended(self) -> float:
        """A killed Host writes of the end only when it is resumed: its agent died with it, after
        its last output."""
        over = self._over
        if "thinking_seconds" in over:
            parts = ("thinking_seconds", "waiting_seconds", "evaluating_seconds")
            seconds = sum(float(over.get(part, 0.0)) for part in parts)
            return min(self._zero + seconds, max(float(over["time"]), self._zero))
        return self._at(self._transcript.seconds, self._zero)

    # --- The attempt ------------------------------------------------------------------------------

    def _usage(self) -> Mapping[str, Any]:
        said: dict[str, Any] = msgspec.to_builtins(self._transcript.usage)
        return self._over.get("usage") or said

    def _root(self, best: float | None) -> Span:
        transcript, over, record = self._transcript, self._over, self._attempt.record
        asked = next(
            (step.text for step in transcript.steps if step.source == "user" and step.text), ""
        )
        said = next(
            (
                step.text
                for step in reversed(transcript.steps)
                if step.source == "agent" and step.text
            ),
            "",
        )
        reason = str(over["reason"])
        error = over.get("error") or transcript.error
        failed = bool(error) or invalidates_run(reason) or reason == "crashed"
        kept = (
            "exit_code",
            "thinking_seconds",
            "waiting_seconds",
            "evaluating_seconds",
            "unexplained_tokens",
            "error_kind",
        )
        attributes = {
            **{f"usage.{key}": value for key, value in self._usage().items() if value is not None},
            **{key: over[key] for key in kept if over.get(key) not in (None, "")},
            "terminal_reason": reason,
            "turns": turns(transcript),
            "tool_calls": sum(len(step.calls) for step in transcript.steps),
            **(
                {"unknown_events": self._text(json.dumps(dict(transcript.unknown_events)))}
                if transcript.unknown_events
                else {}
            ),
            **(
                {"malformed_lines": transcript.malformed_lines}
                if transcript.malformed_lines
                else {}
            ),
            **(
                {"left_out": f"{self._left_out} messages of the middle; {self._whole}"}
                if self._left_out
                else {}
            ),
        }
        inputs: dict[str, Any] = {
            "agent": record.entry, "model": record.agent.model, "benchmark": record.benchmark.slug,
            "seed": record.seed, "attempt": self._attempt.number,
        }  # fmt: skip
        outputs = {"ended": reason, "submissions": len(self._reserved), "best_training_score": best}
        if asked:
            inputs["message"] = self._text(asked)
        if said:
            outputs["last_message"] = self._text(said)
        name, words = (
            f"attempt {self._attempt.number}",
            self._text(error or reason) if failed else None,
        )
        end = max(self._end, self._zero)
        return Span(
            "attempt",
            "",
            name,
            ATTEMPT,
            self._zero,
            end,
            inputs,
            outputs,
            self._value(attributes),
            words,
        )

    # --- Messages and tool calls ------------------------------------------------------------------

    @property
    def _left_out(self) -> int:
        return max(len(self._transcript.steps) - STEPS, 0)

    def _steps(self) -> Iterator[Span]:
        steps = list(enumerate(self._transcript.steps))
        shown = (
            steps
            if not self._left_out
            else [*steps[: STEPS // 2], *steps[len(steps) - STEPS // 2 :]]
        )
        before, turn = self._zero, 0
        for place, step in shown:
            turn += step.source == "agent"
            spans = list(
                self._step(
                    place, step, f"turn {turn}" if step.source == "agent" else step.source, before
                )
            )
            before = spans[0].end
            yield from spans

    def _step(self, place: int, step: Step, name: str, before: float) -> Iterator[Span]:
        """A message's span begins where what came before ended: that is when it was being thought
        of."""
        key = f"step {place}"
        came = max(self._at(step.seconds, before), before)
        calls: list[Span] = []
        at = came
        for number, call in enumerate(step.calls[:CALLS]):
            calls.append(self._call(f"{key} call {number}", key, call, at))
            at = calls[-1].start
        outputs = {"text": self._text(step.text)} if step.text else {}
        if step.calls:
            outputs["tools"] = ", ".join(call.name for call in step.calls[:CALLS])
        attributes: dict[str, Any] = {"source": step.source}
        if step.reasoning:
            attributes["reasoning"] = self._text(step.reasoning)
        if step.submission is not None:
            attributes["submission"] = step.submission
        if len(step.calls) > CALLS:
            attributes["left_out"] = f"{len(step.calls) - CALLS} tool calls; {self._whole}"
        agent = step.source == "agent"
        start = before if agent else came
        end = max([came, *(call.end for call in calls)])
        said, heard = (outputs or None, None) if agent else (None, outputs or None)
        kind = TURN if agent else TOOL if step.source == "tool" else NOTE
        yield Span(key, "attempt", name, kind, start, end, heard, said, attributes)
        yield from calls
        if step.submission is not None and step.submission in self._reserved:
            yield from self._submission(step.submission, _submitting(step, calls) or key)

    def _call(self, key: str, parent: str, call: ToolCall, otherwise: float) -> Span:
        start = self._at(call.started, otherwise)
        end = max(self._at(call.ended, start), start)
        outputs = {
            "result": "(the stream ends before it)"
            if call.result is None
            else self._text(call.result)
        }
        error = self._text(call.result or "failed") if call.failed else None
        attributes = {"tool_call_id": call.id, "tool": call.name}
        name = self._text(call.name)[:200] or "tool"
        return Span(
            key, parent, name, TOOL, start, end, self._arguments(call), outputs, attributes, error
        )

    def _arguments(self, call: ToolCall) -> Any:
        """Flat: the UI takes what looks like a chat's messages for such, and fetches the images
        they name."""
        masked = self._value(call.arguments)
        flat = {
            self._text(key): self._text(
                item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            )
            if isinstance(item, str | list | dict)
            else item
            for key, item in masked.items()
        }
        whole = json.dumps(flat, ensure_ascii=False)
        return flat if len(whole) <= 2 * self._limit else {"arguments": self._text(whole)}

    # --- Submissions ------------------------------------------------------------------------------

    def _submission(self, number: int, parent: str) -> Iterator[Span]:
        """From being charged to being published, and in it the time its Episodes took."""
        reserved, settled = self._reserved[number], self._settled.get(number)
        start = float(reserved["time"])
        end = float(settled["time"]) if settled else max(self._end, start)
        error = None
        outputs: dict[str, Any] = {"status": "no outcome in this attempt"}
        if settled is not None:
            kept = ("score", "failures", "reason")
            outputs = {
                "status": settled["event"],
                **{key: settled[key] for key in kept if key in settled},
            }
            if settled["event"] == "submission_failed":
                error = self._text(str(settled.get("reason", "failed")))
        inputs = {
            key: reserved[key]
            for key in ("submission", "program", "selector", "units")
            if key in reserved
        }
        key, name = f"submission {number}", f"Submission {number}"
        attributes = {k: v for k, v in outputs.items() if k == "score"}
        span = Span(
            key,
            parent,
            name,
            SUBMISSION,
            start,
            end,
            inputs,
            self._value(outputs),
            attributes,
            error,
        )
        yield span
        if settled is None:
            return
        began = max(start, end - float(settled.get("wall_seconds", end - start)))
        seconds = {k: settled[k] for k in ("wall_seconds", "policy_seconds") if k in settled}
        name = f"Evaluation of Submission {number}"
        yield replace(
            span,
            key=f"evaluation {number}", parent=key, name=name, type=EVALUATION, start=began,
            attributes={**attributes, **seconds},
        )  # fmt: skip

    # --- Texts ------------------------------------------------------------------------------------

    @property
    def _whole(self) -> str:
        return f"whole in {attempt_target(self._attempt.number)}/{TRANSCRIPT}"

    def _text(self, text: str) -> str:
        """Masked before it is cut, as half a key looks like none; no image in it, which the UI
        would fetch."""
        masked = self._mask.text(text).replace("![", "! [")
        if len(masked) <= self._limit:
            return masked
        return (
            f"{masked[: self._limit]}\n... (cut: {self._limit:,} of {len(masked):,} "
            f"characters; {self._whole})"
        )

    def _value(self, value: Any) -> Any:
        return masked_by(self._mask, value)


def _submitting(step: Step, calls: Sequence[Span]) -> str:
    """Key of the call of `step` that made its Submission: of those that look like it the one that
    quotes its number."""
    looks = [n for n, call in enumerate(step.calls[:CALLS]) if "submit" in str(call.arguments)]
    quoting = [
        n
        for n in looks
        if f'submission": {step.submission}' in (step.calls[n].result or "").replace("\\", "")
    ]
    found = quoting or looks or range(len(calls))
    return calls[found[-1]].key if found else ""


def _size(transcript: Transcript) -> int:
    """Characters a trace of it has at most, with texts of TEXT."""
    total = 0
    for step in transcript.steps:
        total += min(len(step.text), TEXT) + min(len(step.reasoning), TEXT)
        total += sum(min(len(call.result or ""), TEXT) + TEXT // 8 for call in step.calls)
    return total
