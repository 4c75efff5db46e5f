"""Reading what an agent printed: JSON lines that may be truncated, mixed with text, or not JSON at all."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evopolicy.kernel.transcript import ErrorKind, Step, StepSource, ToolCall, Transcript, Usage

MAX_STEPS = 100_000


def json_lines(lines: Iterable[str]) -> Iterator[dict[str, Any] | None]:
    """Each non-blank line as the object it holds; None for a line that holds none."""
    return (value for _, value in numbered_json_lines(lines))


def numbered_json_lines(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Likewise, with the number of each line in the raw stream, from 0."""
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        yield number, value if isinstance(value, dict) else None


def inner(value: Any, *names: str) -> Any:
    """`value[a][b]...` through nested objects; None where one is missing or no object."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_of(value: Any) -> str:
    """`value` where it is a text, '' for None, else its JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def stderr_of(logs: Path | None, most: int = 65_536) -> list[str]:
    """The last non-blank lines an attempt's agent wrote to standard error, of `most` bytes at most."""
    try:
        with (logs / "stderr.log" if logs else Path("/dev/null")).open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - most))
            return [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []


def count_of(value: Any) -> int | None:
    """`value` where it is a count."""
    return value if type(value) is int and 0 <= value < 2**53 else None


@dataclass
class Collected:
    """A transcript in the making: events of one stream in the order they came, calls and results tied by id."""

    steps: list[Step] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    _calls: dict[str, int] = field(default_factory=dict)
    """Step of each call, by the provider's id."""

    def step(self, source: StepSource, text: str = "", reasoning: str = "", *, line: int | None = None) -> None:
        """One message. Beyond MAX_STEPS it is only counted."""
        if len(self.steps) < MAX_STEPS:
            self.steps.append(Step(source, text, reasoning, line=line))
        else:
            self.unknown["step beyond the limit"] += 1

    def add(self, text: str = "", reasoning: str = "") -> None:
        """More of the newest message."""
        last = self.steps[-1]
        self.steps[-1] = replace(last, text=last.text + text, reasoning=last.reasoning + reasoning)

    def call(self, id: str, name: str, arguments: Any = None, *, line: int | None = None) -> None:  # noqa: A002
        """A use of a tool by the newest message of the agent's; one is made where there is none."""
        if not self.steps or self.steps[-1].source != "agent":
            self.step("agent", line=line)
        last = self.steps[-1]
        given = arguments if isinstance(arguments, Mapping) else {} if arguments is None else {"input": arguments}
        self.steps[-1] = replace(last, calls=(*last.calls, ToolCall(id, name, dict(given), line=line)))
        self._calls[id] = len(self.steps) - 1

    def called(self, id: str) -> bool:  # noqa: A002
        return id in self._calls

    def result(self, id: str, result: str, *, failed: bool = False, line: int | None = None) -> None:  # noqa: A002
        """What the call `id` gave; one that nothing called is a step of its own."""
        place = self._calls.get(id)
        if place is None:
            self.step("tool", result, line=line)
            return
        step = self.steps[place]
        calls = [
            replace(call, result=result, failed=failed, result_line=line) if call.id == id else call
            for call in step.calls
        ]
        self.steps[place] = replace(step, calls=tuple(calls))

    def strange(self, event: Any, kind: Any) -> None:
        """A line that holds no event, or an event of a kind that is not known: counted."""
        if isinstance(event, dict):
            self.unknown[kind if isinstance(kind, str) and kind else "(no type)"] += 1
        else:
            self.malformed += 1

    def transcript(
        self,
        *,
        usage: Usage,
        completed: bool,
        error: str = "",
        error_kind: ErrorKind = "",
        session_id: str = "",
        response_ids: Iterable[str] = (),
    ) -> Transcript:
        """All of it. Without an error's kind it is found from its words."""
        return Transcript(
            tuple(self.steps),
            usage,
            completed and not error,
            error,
            (error_kind or error_kind_of(error)) if error else "",
            session_id,
            tuple(dict.fromkeys(response_ids)),
            unknown_events=dict(self.unknown),
            malformed_lines=self.malformed,
        )


_KINDS: tuple[tuple[ErrorKind, str], ...] = (
    ("refusal", r"content.?filter"),  # an answer that a filter cut off is also said to be incomplete
    (
        "context",
        r"context.{0,3}(length|window)|context_length_exceeded|prompt is too long|too many tokens|maximum context"
        r"|input.{0,40}(too long|exceeds)|string_above_max_length",
    ),
    (
        "authentication",
        r"authenticat|unauthori[sz]ed|invalid.{0,12}(api.?key|x-api-key|token)|not logged in|log ?in\b|permission_error"
        r"|forbidden|\b401\b|\b403\b|missing.{0,30}(key|environment variable)|credit balance|insufficient_quota"
        r"|usage_limit_reached|billing",
    ),
    ("rate_limit", r"rate.?limit|too many requests|\b429\b|quota|resource.?exhausted"),
    ("overload", r"overload|high demand|\b(500|502|503|504|529)\b|internal server error|server.?error|unavailable"),
    (
        "network",
        r"connection|network|disconnect|econn\w+|socket|timed? ?out|timeout|fetch failed|unreachable"
        r"|error sending request|stream (error|ended|closed)|dns|incomplete|terminated|api_error",
    ),
    ("refusal", r"refus(al|ed to)|content.?(policy|filter)|safety|violat|prohibited"),
)


def error_kind_of(words: str, status: int | None = None) -> ErrorKind:
    """What kind of failure a provider's HTTP status, else its words, tell of."""
    if status in (401, 402, 403):
        return "authentication"
    if status == 429:
        return "rate_limit"
    if status is not None and status >= 500:
        return "overload"
    for kind, pattern in _KINDS:
        if re.search(pattern, words[:4000], re.IGNORECASE):
            return kind
    return "other"
