"""Gemini CLI's `stream-json` as a Transcript."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evopolicy.agents.gemini_cli import chats
from evopolicy.agents.streams.reasoning import with_reasoning
from evopolicy.agents.streams.stream import (
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


class _Reader:
    """State of one stream."""

    def __init__(self) -> None:
        self.seen = Collected()
        self.session = self.began = ""
        self.warned = ""
        """The newest error event's words."""
        self.result: dict[str, Any] | None = None
        self._open = False
        """Whether the newest step is a message of the agent's that goes on."""

    def take(self, line: int, event: dict[str, Any] | None) -> None:
        if event is None:
            return self.seen.strange(event, None)
        match event:
            case {"type": "init", "session_id": str(session)}:
                self.session, self.began = session, text_of(event.get("timestamp"))
            case {"type": "message", "role": "assistant", "content": content}:
                self._says(text_of(content), line)
            case {"type": "message", "role": "user" | "system" as role, "content": content}:
                self.seen.step("user" if role == "user" else "system", text_of(content), line=line)
                self._open = False
            case {"type": "tool_use", "tool_id": str(id), "tool_name": str(name)}:
                if not self._open:
                    self.seen.step("agent", line=line)
                    self._open = True
                self.seen.call(id, name, event.get("parameters"), line=line)
            case {"type": "tool_result", "tool_id": str(id)}:
                output = text_of(event.get("output")) or text_of(
                    inner(event.get("error"), "message")
                )
                self.seen.result(id, output, failed=event.get("status") == "error", line=line)
                self._open = False
            case {"type": "error", "message": message}:
                self.seen.step("system", text_of(message), line=line)
                self._open = False
                if event.get("severity") != "warning":
                    self.warned = error_of(message)
            case {"type": "result", "status": _}:
                self.result = event
            case _:
                self.seen.strange(event, event.get("type"))
        return None

    def _says(self, text: str, line: int) -> None:
        last = self.seen.last
        if not self._open or last is None or last.calls or last.source != "agent":
            self.seen.step("agent", text, line=line)
            self._open = True
        else:
            self.seen.add(text)


def read(lines: Iterable[str], logs: Path | None = None) -> Transcript:
    """The transcript of one process; reasoning, and a killed one's tokens, from the collected
    session."""
    reader = _Reader()
    for line, event in numbered_json_lines(lines):
        reader.take(line, event)
    chat = chats.of_session(logs, reader.session)
    error, kind = _error(reader, logs)
    if reader.result is not None and not error and chat.broke_off:
        # After a tool's result it takes a stream that breaks off for an answer.
        error, kind = "the answer's stream ended before its end", "network"
    worked = any(step.source == "agent" for step in reader.seen.steps)
    transcript = reader.seen.transcript(
        usage=_usage(reader.result.get("stats"))
        if reader.result
        else chats.usage(chat, reader.began),
        completed=reader.result is not None and reader.result.get("status") == "success",
        error=error,
        error_kind=kind,
        # One that never answered is not kept by the program: nothing could be resumed.
        session_id=reader.session if worked else "",
    )
    return with_reasoning(transcript, chats.thoughts(chat), chats.failed(chat))


def _error(reader: _Reader, logs: Path | None) -> tuple[str, ErrorKind]:
    result = reader.result
    if result is not None and result.get("status") == "success":
        return "", ""
    words = error_of(inner(result, "error", "message")) or reader.warned
    if not words and result is None:
        words = _exit_error(logs) if not reader.seen.steps else ""
    if not words and result is None:
        return "", ""
    words = words or "it ended with an error it does not name"
    status = re.search(r'"code\\?":\s*(\d{3})', words) or re.search(r"\bstatus:? (\d{3})", words)
    if words.startswith(("Model stream ended", "Invalid stream", "Incomplete JSON")):
        return words, "network"
    if status and status[1] == "400":
        return words, error_kind_of(words)
    return words, error_kind_of(words, int(status[1]) if status else None)


def _exit_error(logs: Path | None) -> str:
    """What standard error ends with, where the stream says nothing at all: a refused login, a
    session not found."""
    noise = ("Warning:", "YOLO mode", "Ripgrep is not", "at ", "Loaded cached")
    lines = [line for line in stderr_of(logs) if not line.startswith(noise)]
    return lines[-1][:2000] if lines else ""


def _usage(stats: Any) -> Usage:
    """`input_tokens` holds the cached ones; thoughts are in the total alone."""
    if not isinstance(stats, Mapping):
        return Usage()
    total, whole = count_of(stats.get("total_tokens")), count_of(stats.get("input_tokens"))
    output_tokens, cached = count_of(stats.get("output_tokens")), count_of(stats.get("cached")) or 0
    if whole is None or output_tokens is None:
        return Usage()
    output = max(output_tokens, (total or 0) - whole)
    return Usage(
        input_tokens=max(0, whole - cached),
        cached_tokens=cached,
        output_tokens=output,
        reasoning_tokens=output - output_tokens,
    )
