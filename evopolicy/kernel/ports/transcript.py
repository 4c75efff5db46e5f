"""Transcript: what an agent did, in one form for all providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

StepSource = Literal["agent", "tool", "user", "system"]
ErrorKind = Literal[
    "", "rate_limit", "overload", "network", "authentication", "context", "refusal", "other"
]
"""Why a provider did not answer; '' for no error."""


@dataclass(frozen=True)
class ToolCall:
    """One use of a tool, with what it gave back."""

    id: str
    """The provider's own, by which its stream ties the result to the call."""
    name: str
    """The tool's, as the provider calls it."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: str | None = None
    """None where the stream ended before it."""
    failed: bool = False
    line: int | None = None
    """Line of the raw stream, from 0, that told of the call."""
    result_line: int | None = None
    """Likewise, of its result."""
    started: float | None = None
    """Seconds since the agent started, as `line` came; filled in by the Host."""
    ended: float | None = None


@dataclass(frozen=True)
class Step:
    """One message, with the tool calls it made."""

    source: StepSource
    text: str = ""
    reasoning: str = ""
    """Where the provider gives it."""
    calls: tuple[ToolCall, ...] = ()
    submission: int | None = None
    """The Submission this step led to; filled in by the Host."""
    line: int | None = None
    """Line of the raw stream, from 0, that it begins with."""
    seconds: float | None = None
    """Since the agent started, as `line` came; filled in by the Host."""


@dataclass(frozen=True)
class Usage:
    """Totals over the Run. None: the provider does not say."""

    input_tokens: int | None = None
    """Not read from a cache."""
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    """Reasoning included."""
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    cost_is_estimate: bool = False
    requests: int | None = None
    tokens_are_estimate: bool = False
    """Whether some of the tokens are the Host's own estimate, by the length of texts."""


TOKENS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
"""The fields of Usage that together are all tokens; those of reasoning are part of the output."""
ESTIMATED: Mapping[str, str] = {
    "cost_usd": "cost_is_estimate",
    **dict.fromkeys((*TOKENS, "reasoning_tokens"), "tokens_are_estimate"),
}
"""By field of Usage, the flag that says whether it is, or has in it, an estimate."""


MOST = 2**53
"""Larger counts are no counts: JSON's readers do not agree on them, and the journal holds no
integer above 64 bits."""
MOST_COST = 1e9
"""US dollars, likewise."""


def bounded(usage: Usage) -> Usage:
    """`usage` without what cannot be: negative, not finite, no number, or above any count there
    could be."""
    counts = {name: getattr(usage, name) for name in _COUNTS}
    cost = usage.cost_usd
    known = type(cost) in (int, float) and 0 <= cost <= MOST_COST  # type: ignore[operator]
    return Usage(
        **{
            name: count if type(count) is int and 0 <= count <= MOST else None
            for name, count in counts.items()
        },
        cost_usd=float(cost) if known and cost is not None else None,
        cost_is_estimate=usage.cost_is_estimate is True,
        tokens_are_estimate=usage.tokens_are_estimate is True,
    )


_COUNTS = (*TOKENS, "reasoning_tokens", "requests")


def usage_numbers(usage: Mapping[str, Any]) -> dict[str, float]:
    """What the provider reported of a Usage as a mapping, numbers only: None and flags are left
    out."""
    return {
        key: float(value)
        for key, value in usage.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


@dataclass(frozen=True)
class Transcript:
    """All that an agent's stream says: its steps in order, what they used, and how it ended."""

    steps: tuple[Step, ...] = ()
    usage: Usage = Usage()
    completed: bool | None = False
    """The stream's own final event says success; None: it has none, so the exit code alone
    tells."""
    error: str = ""
    """The provider's own words where it did not."""
    error_kind: ErrorKind = ""
    session_id: str = ""
    """What the provider needs to resume."""
    response_ids: tuple[str, ...] = ()
    """The provider's ids of all answers the stream tells of, where it names them: others are not
    explained by it."""
    seconds: float | None = None
    """From the agent's start to its last output; filled in by the Host."""
    unknown_events: Mapping[str, int] = field(default_factory=dict)
    """Types of events the parser did not know, counted."""
    malformed_lines: int = 0


def turns(transcript: Transcript) -> int:
    """Messages of the agent's own."""
    return sum(step.source == "agent" for step in transcript.steps)


def tool_calls(transcript: Transcript) -> int:
    return sum(len(step.calls) for step in transcript.steps)
