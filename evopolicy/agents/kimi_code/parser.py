"""Kimi Code's `stream-json`, with what it keeps in its home, as a Transcript."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evopolicy.agents.kimi_code import wire_log as wires
from evopolicy.agents.kimi_code.wire_log import WireLog
from evopolicy.agents.streams.reasoning import with_reasoning
from evopolicy.agents.streams.stream import (
    Collected,
    arguments_of,
    count_of,
    error_kind_of,
    error_of,
    inner,
    numbered_json_lines,
    stderr_of,
    text_of,
)
from evopolicy.kernel.ports.transcript import ErrorKind, Transcript, Usage

_CODES: tuple[tuple[str, ErrorKind], ...] = (
    ("context.overflow", "context"),
    ("provider.auth_error", "authentication"),
    ("provider.rate_limit", "rate_limit"),
    ("provider.overloaded", "overload"),
    ("provider.connection_error", "network"),
    ("provider.filtered", "refusal"),
    ("safety policy", "refusal"),
)
_FAILED = re.compile(r"Command failed with exit code: \d+\.?\s*$|^Tool \"[^\"]*\" not found")


class _Reader:
    """State of one stream."""

    def __init__(self) -> None:
        self.seen = Collected()
        self.session = ""
        self.retrying: dict[str, Any] | None = None
        """The newest event, where it tells of a request that failed."""

    def take(self, line: int, event: dict[str, Any] | None) -> None:
        if event is None:
            return self.seen.strange(event, None)
        self.retrying = None
        match event:
            case {"role": "meta", "type": "session.resume_hint", "session_id": str(session)}:
                self.session = session
            case {"role": "meta", "type": "turn.step.retrying"}:
                self.retrying = event
                self.seen.step(
                    "system", f"a request failed and is tried again: {_retried(event)}", line=line
                )
            case {"role": "meta", "type": "system.version"}:
                pass
            case {"role": "assistant"}:
                self._message(event, line)
            case {"role": "tool", "tool_call_id": str(id)}:
                result = text_of(event.get("content"))
                self.seen.result(id, result, failed=bool(_FAILED.search(result)), line=line)
            case {"role": "user" | "system" as role}:
                self.seen.step(
                    "user" if role == "user" else "system", text_of(event.get("content")), line=line
                )
            case _:
                self.seen.strange(event, event.get("type") or event.get("role"))
        return None

    def _message(self, event: dict[str, Any], line: int) -> None:
        self.seen.step(
            "agent",
            text_of(event.get("content")),
            text_of(event.get("reasoning_content")),
            line=line,
        )
        calls = event.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            name, id = inner(call, "function", "name"), inner(call, "id")  # noqa: A001 (the protocol's word)
            if isinstance(name, str) and isinstance(id, str):
                self.seen.call(
                    id, name, arguments_of(inner(call, "function", "arguments")), line=line
                )


def _retried(event: dict[str, Any]) -> str:
    return error_of(event.get("error_message")) or error_of(event.get("error_name"))


def read(lines: Iterable[str], logs: Path | None = None) -> Transcript:
    """The transcript of one process; its tokens and reasoning from the collected session, where it
    is there."""
    reader = _Reader()
    for line, event in numbered_json_lines(lines):
        reader.take(line, event)
    wire = wires.of_attempt(logs)
    error, kind = _error(reader, wire, logs)
    transcript = reader.seen.transcript(
        usage=_usage(wire),
        completed=bool(reader.session),
        error=error,
        error_kind=kind,
        session_id=reader.session or wire.session,
    )
    return with_reasoning(transcript, wires.thoughts(wire), wire.failed)


def _error(reader: _Reader, wire: WireLog, logs: Path | None) -> tuple[str, ErrorKind]:
    if reader.session:
        # It takes a stream that breaks off for an answer, and says so nowhere but by a missing
        # reason.
        return (
            ("the answer's stream ended before its end", "network")
            if wire.whole is False
            else ("", "")
        )
    errors = [line for line in stderr_of(logs) if line.startswith("error: ")]
    words = (
        errors[-1].removeprefix("error: ").removeprefix("failed to run prompt: ") if errors else ""
    )
    status: int | None = None
    more = ""
    if wire.error is not None:
        code = error_of(inner(wire.error, "cause", "code") or wire.error.get("code"))
        words = words or f"{code}: {error_of(wire.error.get('message'))}"
        status, more = count_of(inner(wire.error, "details", "statusCode")), code
    elif reader.retrying is not None:
        words = words or _retried(reader.retrying)
        status = count_of(reader.retrying.get("status_code"))
    known = next((kind for mark, kind in _CODES if mark in f"{more} {words}"), None)
    return words[:2000], (known or error_kind_of(words, status)) if words else ""


def _usage(wire: WireLog) -> Usage:
    if wire.tokens is None:
        return Usage()
    fresh, cached, written, output = wire.tokens
    return Usage(fresh, cached, written, output, requests=wire.requests)
