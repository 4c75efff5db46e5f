"""How the output of a command may be read, by name: as text, or as a program's stream that there is
a reader for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from evopolicy.agents.claude_code import stream as claude_code
from evopolicy.agents.codex import stream as codex
from evopolicy.agents.gemini_cli import parser as gemini_cli
from evopolicy.agents.kimi_code import parser as kimi_code
from evopolicy.agents.opencode import parser as opencode
from evopolicy.agents.streams.attempts import home_files
from evopolicy.agents.streams.stream import (
    MAX_ERROR,
    Collected,
    arguments_of,
    inner,
    json_value,
    numbered_json_lines,
    text_of,
)
from evopolicy.kernel.ports.transcript import Transcript, Usage

Reader = Callable[[Iterable[str], Path | None], Transcript]
MAX_TRAJECTORY = 256 << 20
"""Bytes of a file of messages that are read."""


def read_text(lines: Iterable[str], logs: Path | None = None) -> Transcript:  # noqa: ARG001 (a Reader's)
    """A JSON line with a "text" is a message of the agent's; other lines that follow each other are
    one output of its.

    There is no final event: the exit code alone tells how it ended.
    """
    seen = Collected()
    plain = False
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        ((_, event),) = numbered_json_lines([line])
        text = event.get("text") if event else None
        if isinstance(text, str):
            seen.step("agent", text, line=number)
        elif plain:
            seen.add("\n" + line.rstrip("\r\n"))
        else:
            seen.step("tool", line.rstrip("\r\n"), line=number)
        plain = not isinstance(text, str)
    return Transcript(seen.transcript(usage=Usage(), completed=True).steps, completed=None)


def read_messages(lines: Iterable[str], logs: Path | None = None) -> Transcript:
    """The newest kept file with `messages` as OpenAI's chat has them, as mini-swe-agent's
    trajectory; else its text."""
    paths = [
        path for path in home_files(logs, "**/*.json") if path.is_file() and not path.is_symlink()
    ]
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        if path.stat().st_size > MAX_TRAJECTORY:
            continue
        try:
            value = json_value(path.read_text(encoding="utf-8", errors="replace"))
        except ValueError:
            continue
        messages = inner(value, "messages")
        if isinstance(messages, list):
            status = text_of(inner(value, "info", "exit_status"))
            return _of_messages(messages, status)
    return read_text(lines)


def _of_messages(messages: list[object], status: str) -> Transcript:
    seen = Collected()
    for message in messages:
        role, content = inner(message, "role"), inner(message, "content")
        text = content if isinstance(content, str) else text_of(content)
        if role == "assistant":
            seen.step("agent", text, text_of(inner(message, "reasoning_content")))
            calls = inner(message, "tool_calls")
            for call in calls if isinstance(calls, list) else ():
                given = text_of(inner(call, "function", "arguments"))
                seen.call(
                    text_of(inner(call, "id")),
                    text_of(inner(call, "function", "name")),
                    arguments_of(given),
                )
        elif role == "tool":
            seen.result(text_of(inner(message, "tool_call_id")), text)
        elif role in ("user", "system"):
            seen.step("user" if role == "user" else "system", text)
        elif role != "exit":  # mini-swe-agent's own last word, which its status says too
            seen.strange(message, role)
    ended_well = status == "Submitted"
    read = seen.transcript(
        usage=Usage(), completed=ended_well, error="" if ended_well or not status else status
    )
    return (
        read
        if status
        else Transcript(read.steps, completed=None, unknown_events=read.unknown_events)
    )


def read_qwen(lines: Iterable[str], logs: Path | None = None) -> Transcript:
    """Qwen Code prints Claude Code's events: each part of an answer as one of its own, cached
    tokens in the input."""
    read = claude_code.read_stream(_whole_answers(lines), logs)
    usage, cached = read.usage, read.usage.cached_tokens or 0
    fresh = None if usage.input_tokens is None else max(0, usage.input_tokens - cached)
    # The ids are its own, not the provider's.
    read = replace(read, usage=replace(usage, input_tokens=fresh), response_ids=())
    last = read.steps[-1].text if read.steps else ""
    if read.completed and last.startswith(
        "[API Error: "
    ):  # which it calls a success; the proxy knows of what kind it is
        return replace(read, completed=False, error=last[:MAX_ERROR], error_kind="other")
    return read


def _whole_answers(lines: Iterable[str]) -> Iterator[str]:
    """All that comes before the next result of a tool is one answer."""
    answer = 0
    for line in lines:
        ((_, event),) = numbered_json_lines([line]) if line.strip() else ((0, None),)
        message = inner(event, "message")
        if event is not None and event.get("type") == "assistant" and isinstance(message, dict):
            line = json.dumps({**event, "message": {**message, "id": f"answer-{answer}"}})
        answer += event is not None and event.get("type") == "user"
        yield line


PARSERS: dict[str, Reader] = {
    "text": read_text,
    "messages": read_messages,
    "claude_code": claude_code.read_stream,
    "codex": codex.read_stream,
    "gemini_cli": gemini_cli.read,
    "kimi_code": kimi_code.read,
    "opencode": opencode.read,
    "qwen_code": read_qwen,
}
"""Readers of streams by name; of mini-swe-agent the trajectory it leaves is read (`messages`)."""
