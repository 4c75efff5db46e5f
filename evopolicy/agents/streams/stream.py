"""Reading what an agent printed: JSON lines that may be truncated, mixed with text, or not JSON at
all."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evopolicy.kernel.ports.transcript import (
    ErrorKind,
    Step,
    StepSource,
    ToolCall,
    Transcript,
    Usage,
)

MAX_STEPS = 100_000
MAX_CALLS = 100_000
"""Of all steps together."""
STDERR_BYTES = 65_536
MAX_ERROR = 10_000
"""Characters of an error that are kept and looked at."""
MAX_COST = 1e6
"""US dollars a stream can tell of; what is more is no cost."""
MAX_DEPTH = 100
"""Objects and lists within each other in one line."""
MAX_KINDS, MAX_KIND = 1000, 200
"""Kinds of unknown events that are told apart, and the characters of each."""


def json_lines(lines: Iterable[str]) -> Iterator[dict[str, Any] | None]:
    """Each non-blank line as the object it holds; None for a line that holds none."""
    return (value for _, value in numbered_json_lines(lines))


def numbered_json_lines(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Likewise, with the number of each line in the raw stream, from 0."""
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            value = json_value(line)
        except ValueError:
            value = None
        yield number, value if isinstance(value, dict) else None


def json_value(text: str) -> Any:
    """What a JSON text holds. Raises ValueError for none, and for one nested deeper than
    MAX_DEPTH."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        level = [value] if isinstance(value, dict | list) else []
        for _ in range(MAX_DEPTH + 1):
            inside = (one.values() if isinstance(one, dict) else one for one in level)
            level = [
                child for children in inside for child in children if isinstance(child, dict | list)
            ]
            if not level:
                break
        else:
            raise ValueError("it is nested too deep")
    return value


def arguments_of(text: Any) -> Any:
    """What the JSON text of a call's arguments holds: None for an empty one, the text itself where
    it is not JSON."""
    try:
        return (json_value(text) if text else None) if isinstance(text, str) else text
    except ValueError:
        return text


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


def error_of(value: Any) -> str:
    """An error's words, as many as are looked at."""
    return text_of(value)[:MAX_ERROR]


def stderr_of(logs: Path | None) -> list[str]:
    """The last non-blank lines an attempt's agent wrote to standard error, of its last
    STDERR_BYTES."""
    try:
        with (logs / "stderr.log" if logs else Path("/dev/null")).open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - STDERR_BYTES))
            return [
                line.strip()
                for line in file.read().decode(errors="replace").splitlines()
                if line.strip()
            ]
    except OSError:
        return []


def count_of(value: Any) -> int | None:
    """`value` where it is a count."""
    return value if type(value) is int and 0 <= value < 2**53 else None


def cost_of(value: Any) -> float | None:
    """`value` where it is a cost in US dollars: a finite number from 0 to MAX_COST."""
    return float(value) if type(value) in (int, float) and 0 <= value <= MAX_COST else None


def _bounded(usage: Usage) -> Usage:
    """`usage` without what a sum has made too great to be a count or a cost."""
    return Usage(
        count_of(usage.input_tokens),
        count_of(usage.cached_tokens),
        count_of(usage.cache_write_tokens),
        count_of(usage.output_tokens),
        count_of(usage.reasoning_tokens),
        cost_of(usage.cost_usd),
        usage.cost_is_estimate,
        count_of(usage.requests),
    )


class Message:
    """A Step in the making. Its parts are joined once, at the end, so that a long one costs no more
    than its length."""

    __slots__ = (
        "calls",
        "line",
        "recorded",
        "source",
        "submission",
        "texts",
        "thoughts",
        "unanswered",
    )

    def __init__(self, source: StepSource, line: int | None, *, recorded: bool = True) -> None:
        self.source, self.line, self.recorded = source, line, recorded
        self.texts: list[str] = []
        """The parts of its text; empty where it has none."""
        self.thoughts: list[str] = []
        """Likewise, of its reasoning."""
        self.calls: list[Call] = []
        self.unanswered = 0
        """Calls without a result so far."""
        self.submission: int | None = None

    def made(self) -> Step:
        calls = tuple(call.made() for call in self.calls)
        return Step(
            self.source,
            "".join(self.texts),
            "".join(self.thoughts),
            calls,
            self.submission,
            self.line,
        )


class Call:
    """A ToolCall in the making."""

    __slots__ = ("arguments", "failed", "id", "line", "message", "name", "result", "result_line")

    def __init__(
        self,
        message: Message,
        id: str,  # noqa: A002
        name: str,
        arguments: Any,
        line: int | None,
    ) -> None:
        given = (
            arguments
            if isinstance(arguments, Mapping)
            else {}
            if arguments is None
            else {"input": arguments}
        )
        self.message, self.id, self.name, self.arguments, self.line = (
            message,
            id,
            name,
            dict(given),
            line,
        )
        self.result: str | None = None
        self.failed = False
        self.result_line: int | None = None

    def made(self) -> ToolCall:
        return ToolCall(
            self.id,
            self.name,
            self.arguments,
            self.result,
            self.failed,
            self.line,
            self.result_line,
        )


@dataclass
class Collected:
    """A transcript in the making: events of one stream in the order they came, calls and results
    tied by id."""

    steps: list[Message] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    last: Message | None = None
    """The newest message, also one beyond MAX_STEPS."""
    _made: int = 0
    """Calls kept so far."""
    _calls: dict[str, Call | None] = field(default_factory=dict)
    """By id, the call whose result comes next; None for one beyond MAX_CALLS."""
    _alike: dict[str, deque[Call]] = field(default_factory=dict)
    """By id, what the same message called after it."""

    def step(
        self, source: StepSource, text: str = "", reasoning: str = "", *, line: int | None = None
    ) -> None:
        """One message. Beyond MAX_STEPS it is only counted."""
        self.last = Message(source, line, recorded=len(self.steps) < MAX_STEPS)
        if self.last.recorded:
            self.steps.append(self.last)
        else:
            self.unknown["step beyond the limit"] += 1
        self.add(text, reasoning)

    def add(self, text: str = "", reasoning: str = "") -> None:
        """More of the newest message, where there is one."""
        if self.last is not None and self.last.recorded:
            if text:
                self.last.texts.append(text)
            if reasoning:
                self.last.thoughts.append(reasoning)

    def call(self, id: str, name: str, arguments: Any = None, *, line: int | None = None) -> None:  # noqa: A002
        """A use of a tool by the newest message of the agent's; one is made where there is none.

        Beyond MAX_CALLS, all messages together, it is only counted.
        """
        if self.last is None or self.last.source != "agent":
            self.step("agent", line=line)
        last = self.last
        if last is None or not last.recorded or self._made >= MAX_CALLS:
            self.unknown["call beyond the limit"] += 1
            self._calls[id] = None
            self._alike.pop(id, None)
            return
        call, before = Call(last, id, name, arguments, line), self._calls.get(id)
        if before is not None and before.message is last:
            self._alike.setdefault(id, deque()).append(call)
        else:
            self._calls[id] = call
            self._alike.pop(id, None)
        last.calls.append(call)
        last.unanswered += 1
        self._made += 1

    def called(self, id: str) -> bool:  # noqa: A002
        return id in self._calls

    def result(
        self,
        id: str,  # noqa: A002
        result: str,
        *,
        failed: bool = False,
        line: int | None = None,
    ) -> None:
        """What the call `id` gave, of several the first without a result; one that nothing called
        is a step."""
        if id not in self._calls:
            self.step("tool", result, line=line)
        elif (call := self._calls[id]) is not None:
            call.message.unanswered -= call.result is None
            call.result, call.failed, call.result_line = result, failed, line
            if alike := self._alike.get(id):
                self._calls[id] = alike.popleft()

    def strange(self, event: Any, kind: Any) -> None:
        """A line that holds no event, or an event of a kind that is not known: counted."""
        if isinstance(event, dict):
            name = kind[:MAX_KIND] if isinstance(kind, str) and kind else "(no type)"
            self.unknown[
                name if name in self.unknown or len(self.unknown) < MAX_KINDS else "(other types)"
            ] += 1
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
        error = error[:MAX_ERROR]
        return Transcript(
            tuple(message.made() for message in self.steps),
            _bounded(usage),
            completed and not error,
            error,
            (error_kind or error_kind_of(error)) if error else "",
            session_id,
            tuple(dict.fromkeys(response_ids)),
            unknown_events=dict(self.unknown),
            malformed_lines=self.malformed,
        )


_KINDS: tuple[tuple[ErrorKind, str], ...] = (
    (
        "refusal",
        r"content.?filter",
    ),  # an answer that a filter cut off is also said to be incomplete
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
    (
        "overload",
        r"overload|high demand|\b(500|502|503|504|529)\b|internal server error|server.?error|unavailable",
    ),
    (
        "network",
        r"connection|network|disconnect|econn\w+|socket|timed? ?out|timeout|fetch failed|unreachable"
        r"|error sending request|stream (error|ended|closed)|dns|incomplete|terminated|api_error",
    ),
    ("refusal", r"refus(al|ed to)|content.?(policy|filter)|safety|violat|prohibited"),
)


KIND_OF_WORD: Mapping[str, ErrorKind] = {
    "authentication_failed": "authentication",
    "oauth_org_not_allowed": "authentication",
    "billing_error": "authentication",
    "model_not_found": "other",  # its name is wrong, not the login
    "rate_limit": "rate_limit",
    "overloaded": "overload",
    "server_error": "overload",
}
"""By the word that errors of Claude Code's form bring. A vaguer one is not here: what the error
says tells more."""


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
