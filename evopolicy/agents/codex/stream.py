"""What `codex exec --json` prints, as a Transcript."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evopolicy.agents.streams.attempts import (
    earlier,
    home_files,
    is_counted,
    lines_with,
    stderr_words,
)
from evopolicy.agents.streams.stream import (
    Collected,
    count_of,
    error_kind_of,
    error_of,
    inner,
    json_lines,
    numbered_json_lines,
    text_of,
)
from evopolicy.kernel.ports.transcript import ErrorKind, Transcript, Usage

_COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)
_STATUS = re.compile(r"status:? (\d{3})\b")
_NO_MODEL = re.compile(
    r"model.{0,120}(does not exist|not (found|exist|supported))|model_not_found", re.IGNORECASE
)
_REFUSED = re.compile(r"cyber_policy|invalid_prompt|flagged|usage polic", re.IGNORECASE)
_TOO_LONG = re.compile(r"reason: max_output_tokens", re.IGNORECASE)
_AGAIN = re.compile(r"^Reconnecting|discovery failed", re.IGNORECASE)
_SPENT = re.compile(r"usage limit|spend limit", re.IGNORECASE)
_CALLS = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search", "todo_list"})


def read_stream(lines: Iterable[str], logs: Path | None = None) -> Transcript:
    """See `AgentIntegration.read`. The usage is what this process added to its thread's."""
    reading = _Reading()
    for number, event in numbered_json_lines(lines):
        reading.take(number, event)
    error = "" if reading.completed else reading.failure or reading.waiting
    if not reading.completed and not error and not reading.answered:
        error = stderr_words(logs)
    return reading.collected.transcript(
        usage=_usage(reading.thread, reading.counts, logs),
        completed=reading.completed,
        error=error,
        error_kind=_kind(error) if error else "",
        session_id=reading.thread,
    )


def _kind(error: str) -> ErrorKind:
    if _NO_MODEL.search(error):
        return "other"  # the model's name is wrong, not the login
    if _REFUSED.search(error):
        return "refusal"
    if _SPENT.search(error):
        return "rate_limit"
    if _TOO_LONG.search(error):
        return "context"
    status = _STATUS.search(error)
    said = error_kind_of(error, int(status[1]) if status else None)
    return "network" if said == "other" and _AGAIN.search(error) else said


@dataclass
class _Reading:
    collected: Collected = field(default_factory=Collected)
    thread: str = ""
    completed: bool = False
    answered: bool = False
    """Whether the model has said anything."""
    failure: str = ""
    """Of a turn that failed."""
    waiting: str = ""
    """Why it is asking again, as long as no answer has come."""
    counts: dict[str, int] | None = None

    def take(self, number: int, event: dict[str, Any] | None) -> None:
        kind = event.get("type") if event else None
        if event is None or not isinstance(kind, str):
            self.collected.strange(event, kind)
        elif kind == "thread.started":
            self.thread = text_of(event.get("thread_id"))
        elif kind == "turn.started":
            self.completed = False
        elif kind == "turn.completed":
            self.completed, self.failure, self.waiting = True, "", ""
            self.counts = counts_of(event.get("usage")) or self.counts
        elif kind == "turn.failed":
            self.completed = False
            self.failure = (
                error_of(inner(event, "error", "message")) or self.waiting or "the turn failed"
            )
        elif kind == "error":
            self.completed = False
            self.waiting = error_of(event.get("message")) or "an error without a word"
        elif kind in ("item.started", "item.updated", "item.completed") and isinstance(
            event.get("item"), dict
        ):
            self._item(number, event, event["item"], done=kind == "item.completed")
        else:
            self.collected.strange(event, kind)

    def _item(
        self, number: int, event: dict[str, Any], item: dict[str, Any], *, done: bool
    ) -> None:
        kind = item.get("type")
        if kind == "error":
            # A warning: an error of the turn is an event of its own.
            self.collected.step("system", text_of(item.get("message")), line=number)
            return
        self.waiting, self.answered = "", True
        if kind in ("agent_message", "reasoning"):
            if done:
                self._message(number, kind, text_of(item.get("text")))
        elif isinstance(kind, str) and kind in _CALLS:
            self._call(number, kind, item, done=done)
        else:
            self.collected.strange(event, f"item {kind}")

    def _message(self, number: int, kind: str, text: str) -> None:
        last = self.collected.last
        if last is None or last.source != "agent" or last.texts or last.calls:
            self.collected.step("agent", line=number)
            last = None
        if kind == "agent_message":
            self.collected.add(text)
        else:
            self.collected.add(reasoning=f"\n\n{text}" if last and last.thoughts else text)

    def _call(self, number: int, kind: str, item: dict[str, Any], *, done: bool) -> None:
        name = text_of(item.get("id")) or f"line {number}"
        if not self.collected.called(name):
            last = self.collected.last
            if last is not None and last.calls and not last.unanswered:
                self.collected.step(
                    "agent", line=number
                )  # what follows a result is another answer of the model
            self.collected.call(name, *_call_of(kind, item), line=number)
        if done:
            failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (
                0,
                None,
            )
            self.collected.result(name, _result(kind, item), failed=failed, line=number)


def _call_of(kind: str, item: Mapping[str, Any]) -> tuple[str, Any]:
    """Name and arguments of a call."""
    if kind == "mcp_tool_call":
        return f"mcp__{text_of(item.get('server'))}__{text_of(item.get('tool'))}", item.get(
            "arguments"
        )
    named = {
        "command_execution": "command",
        "file_change": "changes",
        "web_search": "query",
        "todo_list": "items",
    }
    return kind, {named[kind]: item.get(named[kind])}


def _result(kind: str, item: Mapping[str, Any]) -> str:
    if kind == "command_execution":
        return text_of(item.get("aggregated_output"))
    if kind != "mcp_tool_call":
        return text_of(item.get("status"))
    if item.get("error") is not None:
        return text_of(inner(item, "error", "message") or item["error"])
    content = inner(item, "result", "content")
    if not isinstance(content, list):
        return text_of(item.get("result"))
    return "\n".join(
        text_of(inner(part, "text") if inner(part, "type") == "text" else part) for part in content
    )


# --- Usage: cumulative over a thread, which several attempts may share ----------------------------


def counts_of(usage: Any) -> dict[str, int] | None:
    """The counts of a usage object; None where it tells of no output."""
    if count_of(inner(usage, "output_tokens")) is None:
        return None
    return {name: count_of(usage.get(name)) or 0 for name in _COUNTS}


def _usage(thread: str, counts: dict[str, int] | None, logs: Path | None) -> Usage:
    if counts is None and not is_counted(logs):
        counts = _of_home(thread, logs)
    if counts is None:
        return Usage()
    before = next((found for folder in earlier(logs) if (found := _of_attempt(thread, folder))), {})
    spent = {name: max(0, count - before.get(name, 0)) for name, count in counts.items()}
    cached, written = spent["cached_input_tokens"], spent["cache_write_input_tokens"]
    return Usage(
        input_tokens=max(0, spent["input_tokens"] - cached - written),
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=spent["output_tokens"],
        reasoning_tokens=spent["reasoning_output_tokens"],
    )


def _of_attempt(thread: str, logs: Path) -> dict[str, int] | None:
    """What `thread` had used when the attempt in `logs` ended; None where that one had another
    thread."""
    own_thread, counts = "", None
    for event in json_lines(
        lines_with(logs / "stdout.log", '"thread.started"', '"turn.completed"')
    ):
        if inner(event, "type") == "thread.started":
            own_thread = text_of(inner(event, "thread_id"))
        elif inner(event, "type") == "turn.completed":
            counts = counts_of(inner(event, "usage")) or counts
    if not thread or own_thread != thread:
        return None
    return counts or _of_home(thread, logs)


def _of_home(thread: str, logs: Path | None) -> dict[str, int] | None:
    """The same from Codex's own record of the thread: it counts each answer, also those of a turn
    that never ended."""
    if not re.fullmatch(r"[0-9A-Za-z-]{8,64}", thread):
        return None
    counts = None
    for path in home_files(logs, f".codex/sessions/**/*{thread}.jsonl"):
        for event in json_lines(lines_with(path, '"token_count"')):
            counts = counts_of(inner(event, "payload", "info", "total_token_usage")) or counts
    return counts
