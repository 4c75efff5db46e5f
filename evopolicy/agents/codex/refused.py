"""Commands that Codex itself refused to run: its stream says nothing of them, its own record of the
thread does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from evopolicy.agents.streams.attempts import earlier, home_files, lines_with
from evopolicy.agents.streams.stream import arguments_of, inner, json_lines, text_of
from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript

_REFUSED = re.compile(r"^\w+ failed: .{0,80}Rejected\(", re.DOTALL)
MAX_REFUSED = 10_000


def with_refused(transcript: Transcript, logs: Path | None) -> Transcript:
    """`transcript` with the calls that were refused, each at the message it came with; at the end
    where none is."""
    before = {
        call.id for folder in earlier(logs) for _, call in _refused(transcript.session_id, folder)
    }
    steps, index = list(transcript.steps), 0
    for text, call in _refused(transcript.session_id, logs):
        if call.id in before:
            continue
        later = range(index, len(steps))
        same = (n for n in later if text and steps[n].source == "agent" and steps[n].text == text)
        index = next(same, len(steps))
        if index == len(steps):
            steps.append(Step("agent"))
        steps[index] = replace(steps[index], calls=(*steps[index].calls, call))
    return replace(transcript, steps=tuple(steps))


def _refused(thread: str, logs: Path | None) -> Iterator[tuple[str, ToolCall]]:
    """Each with the agent's last words before it."""
    if not re.fullmatch(r"[0-9A-Za-z-]{8,64}", thread):
        return
    words, calls, count = "", dict[str, tuple[str, Any]](), 0
    for path in home_files(logs, f".codex/sessions/**/*{thread}.jsonl"):
        for event in json_lines(lines_with(path, '"function_call', '"assistant"')):
            item = inner(event, "payload")
            kind, name = inner(item, "type"), text_of(inner(item, "call_id"))
            if kind == "message" and inner(item, "role") == "assistant":
                content = inner(item, "content")
                words = (
                    "".join(text_of(inner(part, "text")) for part in content)
                    if isinstance(content, list)
                    else ""
                )
            elif kind == "function_call":
                calls[name] = (words, item)
            elif kind == "function_call_output" and (call := calls.pop(name, None)):
                output = text_of(inner(item, "output"))
                if _REFUSED.match(output) and count < MAX_REFUSED:
                    count += 1
                    yield call[0], _call(name, call[1], output)


def _call(name: str, item: Any, output: str) -> ToolCall:
    value = arguments_of(text_of(inner(item, "arguments")))
    arguments = value if isinstance(value, dict) else {} if value is None else {"input": value}
    return ToolCall(name, text_of(inner(item, "name")), arguments, output, failed=True)
