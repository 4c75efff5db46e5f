"""What Gemini CLI keeps of a session in its home: the thoughts, tokens and ends that its stream
does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evopolicy.agents.streams.reasoning import Thought
from evopolicy.agents.streams.stream import count_of, inner, numbered_json_lines, text_of
from evopolicy.kernel.ports.transcript import Usage

COLLECTED = ".gemini/tmp/*/chats/*.jsonl"


@dataclass
class Chat:
    """The messages of the model's own, by their id, the newest state of each."""

    messages: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def broke_off(self) -> bool:
        """Whether the newest message has no tokens where others have: its stream ended before they
        came."""
        counted = [message.get("tokens") is not None for message in self.messages.values()]
        return any(counted) and not counted[-1]


def of_session(logs: Path | None, session: str) -> Chat:
    """The chat of `session` in an attempt's collected files."""
    chat = Chat()
    for path in sorted((logs / "home").glob(COLLECTED)) if logs and session else ():
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            records = numbered_json_lines(file)
            _, first = next(records, (0, None))
            if first is None or first.get("sessionId") != session:
                continue
            for _, record in records:
                if record and record.get("type") == "gemini":
                    chat.messages[text_of(record.get("id"))] = record
    return chat


def thoughts(chat: Chat) -> Iterator[Thought]:
    """The reasoning of each message that has some, in order."""
    for message in chat.messages.values():
        counted = message.get("thoughts")
        parts = [_thought(one) for one in counted] if isinstance(counted, list) else []
        calls = message.get("toolCalls")
        ids = tuple(text_of(inner(call, "id")) for call in calls) if isinstance(calls, list) else ()
        if any(parts):
            yield Thought(ids, text_of(message.get("content")), "\n".join(filter(None, parts)))


def _thought(one: Any) -> str:
    return "\n".join(
        filter(None, (text_of(inner(one, "subject")), text_of(inner(one, "description"))))
    )


def failed(chat: Chat) -> set[str]:
    """Calls of commands that ended with another exit code than 0: its stream calls them a
    success."""
    found = set()
    for message in chat.messages.values():
        calls = message.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            results = inner(call, "result")
            for result in results if isinstance(results, list) else ():
                output = text_of(inner(result, "functionResponse", "response", "output"))
                if "\nExit Code: " in output[-400:]:
                    found.add(text_of(inner(call, "id")))
    return found


def usage(chat: Chat, since: str) -> Usage:
    """Tokens of the messages told at `since` or later, a time as the records have it."""
    counts = [
        [
            count_of(inner(message, "tokens", name)) or 0
            for name in ("input", "cached", "output", "thoughts")
        ]
        for message in chat.messages.values()
        if message.get("tokens") is not None and text_of(message.get("timestamp")) >= since
    ]
    if not counts:
        return Usage()
    whole, cached, answered, thought = (sum(kind) for kind in zip(*counts, strict=True))
    return Usage(max(0, whole - cached), cached, None, answered + thought, thought)
