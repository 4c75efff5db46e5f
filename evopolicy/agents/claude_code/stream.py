"""What `claude -p --output-format stream-json` prints, as a Transcript."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evopolicy.agents.streams.attempts import home_files, is_counted, lines_with, stderr_words
from evopolicy.agents.streams.stream import (
    KIND_OF_WORD,
    Collected,
    cost_of,
    count_of,
    error_kind_of,
    error_of,
    inner,
    json_lines,
    numbered_json_lines,
    text_of,
)
from evopolicy.kernel.ports.transcript import ErrorKind, Transcript, Usage

SYNTHETIC = "<synthetic>"
"""The model of messages it writes itself, to tell of an error."""
BROKE_OFF = "the stream ended before the message did"
"""Claude Code takes this for a success. The last message it had whole then called a tool, or there
was none."""
_QUIET = (  # noqa: SIM905
    "init status compact_boundary thinking_tokens task_started task_progress task_updated "
    "task_notification model_refusal_no_fallback hook_started hook_progress hook_response "
    "session_state_changed"
).split()
"""Kinds of `system` events that are no step."""


def read_stream(lines: Iterable[str], logs: Path | None = None) -> Transcript:
    """See `AgentIntegration.read`."""
    reading = _Reading()
    for number, event in numbered_json_lines(lines):
        reading.take(number, event)
    completed, error = reading.ended()
    if not reading.result and not error and not reading.usages:
        error = stderr_words(logs)
    return reading.collected.transcript(
        usage=_usage(reading, logs),
        completed=completed,
        error=error,
        error_kind=reading.kind(error) if error else "",
        session_id=reading.session,
        # It asks for the summary of a long session in a message that its stream does not show.
        response_ids=() if reading.compacted else reading.usages,
    )


@dataclass
class _Reading:
    collected: Collected = field(default_factory=Collected)
    session: str = ""
    result: dict[str, Any] | None = None
    usages: dict[str, Any] = field(default_factory=dict)
    """Of each of the model's messages by its id, as it began."""
    compacted: bool = False
    refused: bool = False
    text: str = ""
    """Its own message of an error."""
    word: str = ""
    """The error's kind, in its word."""
    status: int | None = None
    waiting: str = ""
    """Why it is asking again, as long as no answer has come."""
    _message: str = ""
    """The newest step's message, by id."""

    def take(self, number: int, event: dict[str, Any] | None) -> None:
        kind = event.get("type") if event else None
        if event is None or not isinstance(kind, str):
            self.collected.strange(event, kind)
            return
        if isinstance(event.get("session_id"), str):
            self.session = event["session_id"]
        if kind == "system":
            self._system(event)
        elif kind in ("assistant", "user") and isinstance(event.get("message"), dict):
            content = event["message"].get("content")
            blocks = (
                content
                if isinstance(content, list)
                else [{"type": "text", "text": text_of(content)}]
            )
            if kind == "assistant":
                self._assistant(number, event, blocks)
            else:
                self._user(number, blocks)
        elif kind == "result":
            self.result, self.waiting = event, ""
        else:
            self.collected.strange(event, kind)

    def _system(self, event: dict[str, Any]) -> None:
        kind = event.get("subtype")
        if kind == "api_retry":
            self.word, status = text_of(event.get("error")), event.get("error_status")
            self.status = status if isinstance(status, int) else None
            self.waiting = f"asking again: {self.word} {text_of(status)}".strip()
        elif kind == "compact_boundary":
            self.compacted = True
        elif kind == "model_refusal_no_fallback":
            self.refused = True
        elif not isinstance(kind, str) or kind not in _QUIET:
            self.collected.strange(event, f"system {text_of(kind)}")

    def _assistant(self, number: int, event: dict[str, Any], blocks: list[Any]) -> None:
        message = event["message"]
        name = text_of(message.get("id"))
        if message.get("model") == SYNTHETIC:
            self.text = "\n".join(text_of(inner(block, "text")) for block in blocks)
            self.word = text_of(event.get("error")) or self.word
            self.refused = self.refused or message.get("stop_reason") == "refusal"
            self.collected.step("system", self.text, line=number)
            self._message = ""
            return
        self.waiting = self.text = self.word = ""
        self.status = None
        if name:
            self.usages[name] = message.get("usage")
        last = self.collected.last
        if not name or name != self._message or last is None or last.source != "agent":
            self.collected.step("agent", line=number)
            self._message = name
        for block in blocks:
            self._block(number, block)

    def _block(self, number: int, block: Any) -> None:
        kind = inner(block, "type")
        if kind == "text":
            self.collected.add(text_of(block.get("text")))
        elif kind == "thinking":
            self.collected.add(reasoning=text_of(block.get("thinking")))
        elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            name = text_of(block.get("id")) or f"line {number}"
            self.collected.call(name, text_of(block.get("name")), block.get("input"), line=number)
        elif kind != "redacted_thinking":
            self.collected.strange({}, f"block {text_of(kind)}")

    def _user(self, number: int, blocks: list[Any]) -> None:
        for block in blocks:
            if inner(block, "type") == "tool_result":
                failed = block.get("is_error") is True
                name = text_of(block.get("tool_use_id"))
                self.collected.result(name, _text(block.get("content")), failed=failed, line=number)
            else:
                self.collected.step("user", _text([block]), line=number)

    def ended(self) -> tuple[bool, str]:
        """Whether its final event, and the error field in it, say success; else the error in its
        own words."""
        if self.result is None:
            return False, error_of(self.text or self.waiting)
        result = self.result
        refused = self.refused or result.get("stop_reason") == "refusal"
        if result.get("subtype") == "success" and result.get("is_error") is False and not refused:
            said = result.get("stop_reason", "end_turn")
            return (
                (False, error_of(f"{BROKE_OFF} ({said})"))
                if said in (None, "tool_use")
                else (True, "")
            )
        self.refused = refused
        status = result.get("api_error_status")
        self.status = status if isinstance(status, int) else self.status
        errors = result.get("errors")
        listed = "; ".join(map(text_of, errors)) if isinstance(errors, list) else text_of(errors)
        words = (
            text_of(result.get("result")) or listed or self.text or text_of(result.get("subtype"))
        )
        return False, error_of(words)

    def kind(self, error: str) -> ErrorKind:
        if self.refused:
            return "refusal"
        if self.result is not None and str(self.result.get("subtype")).startswith("error_max"):
            return "other"  # a limit that its own arguments have set
        said = error_kind_of(error, self.status)
        if said == "context":
            return said
        return KIND_OF_WORD.get(self.word) or (
            "network" if self.waiting and self.word == "unknown" else said
        )


def _text(content: Any) -> str:
    """The texts of a message's content; what is none of them by its kind."""
    if not isinstance(content, list):
        return text_of(content)
    parts = (
        text_of(inner(part, "text"))
        if inner(part, "type") == "text"
        else f"[{text_of(inner(part, 'type')) or part}]"
        for part in content
    )
    return "\n".join(parts)


# --- Usage ----------------------------------------------------------------------------------------


def _usage(reading: _Reading, logs: Path | None) -> Usage:
    """Of this process alone: its own totals; where it was ended before them, what it kept of each
    message."""
    result = reading.result
    if result is None:
        of_home = {} if is_counted(logs) else _of_home(reading, logs)
        usages = list({**reading.usages, **of_home}.values())
        # A message's beginning does not know its output.
        with_output = bool(of_home) and of_home.keys() >= reading.usages.keys()
        return _summed(usages, output=with_output) if reading.usages else Usage()
    models = result.get("modelUsage")
    cost = cost_of(result.get("total_cost_usd"))
    # What each model was asked counts its own side calls too, which `usage` leaves out.
    by_model: list[Any] = (
        [_of_model(usage) for usage in models.values()] if isinstance(models, dict) else []
    )
    return _summed(by_model or [result.get("usage")], output=True, cost=cost)


_COUNTS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)


def _of_model(usage: Any) -> dict[str, Any]:
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    return {count: inner(usage, name) for count, name in zip(_COUNTS, names, strict=True)}


def _summed(usages: list[Any], *, output: bool, cost: float | None = None) -> Usage:
    counts = [[count_of(inner(usage, name)) for usage in usages] for name in _COUNTS]
    sums = [
        sum(known) if (known := [value for value in column if value is not None]) else None
        for column in counts
    ]
    return Usage(
        input_tokens=sums[0],
        cached_tokens=sums[1],
        cache_write_tokens=sums[2],
        output_tokens=sums[3] if output else None,
        cost_usd=cost,
    )


def _of_home(reading: _Reading, logs: Path | None) -> dict[str, Any]:
    """The usage of each message of this process in Claude Code's own record of the session."""
    if not re.fullmatch(r"[0-9A-Za-z-]{8,64}", reading.session):
        return {}
    found: dict[str, Any] = {}
    for path in home_files(logs, ".claude/projects/**/*.jsonl"):
        for event in json_lines(lines_with(path, '"usage"')):
            name = inner(event, "message", "id")
            if isinstance(name, str) and name in reading.usages:
                found[name] = inner(event, "message", "usage")
    return found
