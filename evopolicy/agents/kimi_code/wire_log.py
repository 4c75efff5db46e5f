"""What Kimi Code keeps of a session in its home: the tokens, reasoning and ends that its stream
does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evopolicy.agents.streams.reasoning import Thought
from evopolicy.agents.streams.stream import count_of, inner, numbered_json_lines, text_of

FOLDER = ".kimi-code"
COLLECTED = f"{FOLDER}/sessions/**/wire.jsonl"
_COUNTS = ("inputOther", "inputCacheRead", "inputCacheCreation", "output")


@dataclass
class Message:
    """One message of the main agent's."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


@dataclass
class WireLog:
    """Everything in one home, of all sessions and their subagents."""

    tokens: tuple[int, ...] | None = None
    """As _COUNTS; None: nothing is told."""
    requests: int = 0
    messages: dict[str, Message] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    """Calls whose result is an error."""
    whole: bool | None = None
    """Whether the newest message was ended by the provider."""
    error: dict[str, Any] | None = None
    """Of the newest turn."""
    session: str = ""


def of_attempt(logs: Path | None) -> WireLog:
    """What the attempt in `logs` added: the home goes on from attempt to attempt, and so do the
    counts in it."""
    if logs is None:
        return WireLog()
    wire = _of_home(logs / "home")
    before = _before(logs)
    if wire.tokens is not None and before is not None and before.tokens is not None:
        wire.tokens = tuple(
            max(0, now - then) for now, then in zip(wire.tokens, before.tokens, strict=True)
        )
        wire.requests = max(0, wire.requests - before.requests)
    return wire


def _before(logs: Path) -> WireLog | None:
    name, _, number = logs.name.rpartition("-")
    for earlier in range(int(number) - 1 if number.isdigit() else 0, 0, -1):
        wire = _of_home(logs.with_name(f"{name}-{earlier}") / "home")
        if wire.tokens is not None:
            return wire
    return None


def _of_home(home: Path) -> WireLog:
    wire, newest = WireLog(), -1
    # A session's main agent last of its own, the newest session last of all.
    for path in sorted(home.glob(COLLECTED), key=lambda path: (path.parent.name == "main", path)):
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            is_main, latest = path.parent.name == "main", 0
            ends = WireLog()
            for _, record in numbered_json_lines(file):
                if record is None:
                    continue
                latest = max(latest, count_of(record.get("time")) or 0)
                _count(wire, record)
                if is_main:
                    _follow(wire, ends, record)
        if is_main and latest > newest and len(path.parts) > 3:
            newest, wire.whole, wire.error, wire.session = (
                latest,
                ends.whole,
                ends.error,
                path.parts[-4],
            )
    return wire


def _count(wire: WireLog, record: dict[str, Any]) -> None:
    if record.get("type") != "usage.record":
        return
    counts = [count_of(inner(record, "usage", name)) or 0 for name in _COUNTS]
    wire.tokens = tuple(
        a + b for a, b in zip(wire.tokens or (0,) * len(_COUNTS), counts, strict=True)
    )
    wire.requests += 1


def _follow(wire: WireLog, ends: WireLog, record: dict[str, Any]) -> None:
    match record:
        case {"type": "context.append_loop_event", "event": dict(event)}:
            _event(wire, ends, text_of(event.get("type")), event)
        case {"type": "turn.prompt"}:
            ends.error, ends.whole = None, None
        case {"type": "turn.ended", "error": dict(error)}:
            ends.error = error


def _event(wire: WireLog, ends: WireLog, kind: str, event: dict[str, Any]) -> None:
    step = text_of(event.get("stepUuid") or event.get("uuid"))
    if kind == "content.part":
        message = wire.messages.setdefault(step, Message())
        message.texts.append(text_of(inner(event, "part", "text")))
        message.thoughts.append(text_of(inner(event, "part", "think")))
    elif kind == "tool.call":
        wire.messages.setdefault(step, Message()).calls.append(text_of(event.get("toolCallId")))
    elif kind == "tool.result" and inner(event, "result", "isError") is True:
        wire.failed.add(text_of(event.get("toolCallId")))
    elif kind == "step.end" and event.get("finishReason") != "error":
        ends.whole = "providerFinishReason" in event


def thoughts(wire: WireLog) -> Iterator[Thought]:
    """The reasoning of each message that has some, in order."""
    for message in wire.messages.values():
        if any(message.thoughts):
            yield Thought(tuple(message.calls), "".join(message.texts), "".join(message.thoughts))
