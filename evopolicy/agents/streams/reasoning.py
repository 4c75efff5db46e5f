"""What a CLI keeps of its session in its home, joined to what its stream told."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from evopolicy.kernel.ports.transcript import Transcript


@dataclass(frozen=True)
class Thought:
    """The reasoning of one message."""

    calls: tuple[str, ...]
    """Ids of the calls the message made."""
    text: str
    reasoning: str


def with_reasoning(
    transcript: Transcript, thoughts: Iterable[Thought], failed: Collection[str] = ()
) -> Transcript:
    """`transcript` with reasoning, found by the ids of a message's calls, else by its text, and
    calls that `failed`."""
    by_call: dict[str, str] = {}
    by_text: dict[str, list[str]] = {}
    for thought in thoughts:
        by_call |= dict.fromkeys(thought.calls, thought.reasoning)
        if not thought.calls:
            by_text.setdefault(thought.text, []).append(thought.reasoning)
    steps = []
    for step in transcript.steps:
        reasoning = step.reasoning
        if step.source == "agent" and not reasoning:
            alike = by_text.get(step.text) if not step.calls else None
            reasoning = (
                by_call.get(step.calls[0].id, "") if step.calls else alike.pop() if alike else ""
            )
        calls = tuple(replace(call, failed=call.failed or call.id in failed) for call in step.calls)
        steps.append(replace(step, reasoning=reasoning, calls=calls))
    return replace(transcript, steps=tuple(steps))
