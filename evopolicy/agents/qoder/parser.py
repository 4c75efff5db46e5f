"""Qoder CLI's `stream-json` as a Transcript. Written from its format: no run with a login was
seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evopolicy.agents.streams.stream import (
    KIND_OF_WORD,
    Collected,
    count_of,
    error_kind_of,
    error_of,
    inner,
    numbered_json_lines,
    stderr_of,
    text_of,
)
from evopolicy.kernel.ports.transcript import ErrorKind, Transcript, Usage

_COUNTS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)


class _Reader:
    """State of one stream."""

    def __init__(self) -> None:
        self.seen = Collected()
        self.session = ""
        self.result: dict[str, Any] | None = None
        self.fault = ""
        """The newest error a message carries."""
        self._message = ""
        """Id of the message that is being told, a line for each part of it."""

    def take(self, line: int, event: dict[str, Any] | None) -> None:
        if event is None:
            return self.seen.strange(event, None)
        if isinstance(session := event.get("session_id"), str):
            self.session = session
        match event:
            case {"type": "system", "subtype": "init"}:
                pass
            case {"type": "assistant", "message": {"content": list(parts), **message}}:
                self.fault = error_of(event.get("error"))
                self._says(text_of(message.get("id")), parts, line)
            case {"type": "user", "message": {"content": list(parts)}}:
                self._message = ""
                for part in parts:
                    self._part(part, line)
            case {"type": "user", "message": {"content": str(text)}}:
                self._message = ""
                self.seen.step("user", text, line=line)
            case {"type": "result"}:
                self.result = event
            case {"type": "system", "subtype": str(kind)}:
                self.seen.strange(event, f"system/{kind}")
            case _:
                self.seen.strange(event, event.get("type"))
        return None

    def _says(self, message: str, parts: list[Any], line: int) -> None:
        if not message or message != self._message:
            self.seen.step("agent", line=line)
            self._message = message
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)}:
                    self.seen.add(text)
                case {"type": "thinking", "thinking": str(thought)}:
                    self.seen.add(reasoning=thought)
                case {"type": "tool_use", "id": str(id), "name": str(name)}:
                    self.seen.call(id, name, part.get("input"), line=line)
                case _:
                    self.seen.strange({}, inner(part, "type"))

    def _part(self, part: Any, line: int) -> None:
        match part:
            case {"type": "tool_result", "tool_use_id": str(id)}:
                self.seen.result(
                    id, _plain(part.get("content")), failed=part.get("is_error") is True, line=line
                )
            case {"type": "text", "text": str(text)}:
                self.seen.step("user", text, line=line)
            case _:
                self.seen.strange({}, inner(part, "type"))


def _plain(content: Any) -> str:
    """A result's text, which may be in parts."""
    if isinstance(content, list):
        return "\n".join(text_of(inner(part, "text")) for part in content)
    return text_of(content)


def read(lines: Iterable[str], logs: Path | None = None) -> Transcript:
    """The transcript of one process; `subtype` alone says success also of a failure."""
    reader = _Reader()
    for line, event in numbered_json_lines(lines):
        reader.take(line, event)
    result = reader.result or {}
    failed = result.get("is_error") is not False or result.get("subtype") != "success"
    error, kind = _error(reader, failed, logs)
    transcript = reader.seen.transcript(
        usage=_usage(result),
        completed=reader.result is not None and not failed,
        error=error,
        error_kind=kind,
        session_id=reader.session,
    )
    return replace(transcript, session_id="") if kind == "authentication" else transcript


def _error(reader: _Reader, failed: bool, logs: Path | None) -> tuple[str, ErrorKind]:
    if reader.result is not None and not failed:
        return "", ""
    words = error_of((reader.result or {}).get("result"))
    if reader.result is None:
        words = reader.fault
        if not words and not reader.seen.steps:
            words = next(reversed(stderr_of(logs)), "")
        if not words:
            return "", ""
    words = (
        words
        or text_of(reader.result and reader.result.get("subtype"))
        or "it ended with an error it does not name"
    )
    if inner(reader.result, "stop_reason") == "refusal":
        return words[:2000], "refusal"
    status = count_of(inner(reader.result, "api_error_status"))
    return words[:2000], KIND_OF_WORD.get(reader.fault) or error_kind_of(words, status)


def _usage(result: Mapping[str, Any]) -> Usage:
    """Of the last event: those of messages are of their begin. It is paid in credits, so that no
    cost is known."""
    fresh, cached, written, output = (count_of(inner(result, "usage", name)) for name in _COUNTS)
    if fresh is None or output is None:
        return Usage()
    return Usage(fresh, cached or 0, written or 0, output)
