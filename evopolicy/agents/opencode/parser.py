"""OpenCode's `--format json` as a Transcript."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evopolicy.agents.streams.stream import (
    Collected,
    cost_of,
    count_of,
    error_kind_of,
    error_of,
    inner,
    numbered_json_lines,
    stderr_of,
    text_of,
)
from evopolicy.kernel.ports.transcript import ErrorKind, Transcript, Usage

_COUNTS = (("input",), ("cache", "read"), ("cache", "write"), ("output",), ("reasoning",))


class _Reader:
    """State of one stream."""

    def __init__(self) -> None:
        self.seen = Collected()
        self.session = ""
        self.reason: str | None = None
        """Why the newest message ended."""
        self.error: dict[str, Any] | None = None
        self.tokens: list[int] | None = None
        """As _COUNTS, over all messages."""
        self.cost: float | None = 0.0
        """Over all messages; None where one tells of no number that can be a cost."""
        self._open = False
        """Whether the newest step is the message that is being told."""

    def take(self, line: int, event: dict[str, Any] | None) -> None:
        if event is None:
            return self.seen.strange(event, None)
        if isinstance(session := event.get("sessionID"), str):
            self.session = session
        match event:
            case {"type": "step_start", "part": dict()}:
                # It goes on, so that it has got over whatever came before: a context it has made
                # smaller.
                self._open, self.reason, self.error = False, None, None
            case {"type": "text", "part": {"text": str(text)}}:
                self._message(line)
                self._add(text=text)
            case {"type": "reasoning", "part": {"text": str(text)}}:
                self._message(line)
                self._add(reasoning=text)
            case {
                "type": "tool_use",
                "part": {"callID": str(id), "tool": str(tool), "state": dict(state)},
            }:
                self._message(line)
                self.seen.call(id, tool, state.get("input"), line=line)
                output, failed = _result(tool, state)
                self.seen.result(id, output, failed=failed, line=line)
            case {"type": "step_finish", "part": dict(part)}:
                self._finish(part)
            case {"type": "error", "error": dict(error)}:
                self.error = error
            case _:
                self.seen.strange(event, event.get("type"))
        return None

    def _message(self, line: int) -> None:
        if not self._open:
            self.seen.step("agent", line=line)
            self._open = True

    def _add(self, text: str = "", reasoning: str = "") -> None:
        last = self.seen.last
        between = (
            "\n\n" if last and ((text and last.texts) or (reasoning and last.thoughts)) else ""
        )
        self.seen.add(between + text if text else "", between + reasoning if reasoning else "")

    def _finish(self, part: dict[str, Any]) -> None:
        self.reason, self._open = text_of(part.get("reason")), False
        counts = [count_of(inner(part.get("tokens"), *names)) for names in _COUNTS]
        if counts[0] is not None and counts[3] is not None:
            self.tokens = [
                so_far + (more or 0)
                for so_far, more in zip(self.tokens or [0] * 5, counts, strict=True)
            ]
        more = cost_of(part.get("cost") or 0)
        self.cost = None if more is None or self.cost is None else self.cost + more


def _result(tool: str, state: dict[str, Any]) -> tuple[str, bool]:
    """What a tool gave, and whether it failed: its own state, a command's exit code, or a tool that
    is none."""
    error = state.get("error")
    exit_code = inner(state.get("metadata"), "exit")
    failed = state.get("status") == "error" or exit_code not in (None, 0) or tool == "invalid"
    return text_of(state.get("output") if error is None else error), failed


def read(lines: Iterable[str], logs: Path | None = None) -> Transcript:
    """The transcript of one process. It has no final event: it is complete where its last message
    came to a stop."""
    reader = _Reader()
    for line, event in numbered_json_lines(lines):
        reader.take(line, event)
    error, kind = _error(reader, logs)
    return reader.seen.transcript(
        usage=_usage(reader),
        completed=reader.reason == "stop",
        error=error,
        error_kind=kind,
        session_id=reader.session,
    )


def _error(reader: _Reader, logs: Path | None) -> tuple[str, ErrorKind]:
    if reader.error is not None:
        data = reader.error.get("data")
        words = (
            error_of(inner(data, "message"))
            or error_of(reader.error.get("name"))
            or "it names no error"
        )
        name, status = reader.error.get("name"), count_of(inner(data, "statusCode"))
        if name == "ContextOverflowError":
            return words, "context"
        if name == "ProviderAuthError":
            return words, "authentication"
        if words.startswith(("JSON parsing failed", "Text:")):
            return words, "network"
        return words, error_kind_of(
            f"{words} {text_of(inner(data, 'responseBody'))[:2000]}", status
        )
    match reader.reason:
        case "content-filter":
            return "the provider's filter ended the answer", "refusal"
        case "unknown" | "other":
            return "the answer's stream ended before its end", "network"
        case "error":
            return "the answer ended with an error", "other"
    if not reader.session and not reader.seen.steps:
        errors = [line for line in stderr_of(logs) if line.startswith("Error")]
        return (errors[-1][:2000], "other") if errors else ("", "")
    return "", ""


def _usage(reader: _Reader) -> Usage:
    """Input is without what a cache gave, output without reasoning."""
    if reader.tokens is None:
        return Usage()
    fresh, cached, written, output, reasoning = reader.tokens
    return Usage(
        input_tokens=fresh,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=output + reasoning,
        reasoning_tokens=reasoning,
        cost_usd=reader.cost or None,
    )
