"""What an agent did, step by step, as a list that opens call by call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evopolicy.analysis.report.shape import Limits
from evopolicy.kernel.ports.transcript import Step, ToolCall
from evopolicy.present.markup import Html, block, cut, fold, join, line, tag
from evopolicy.present.numbers import duration, plural

_SOURCES = {"agent": "agent", "user": "task", "tool": "tool", "system": "system"}


@dataclass
class Room:
    """Characters of transcripts that still fit into the report."""

    left: int

    def take(self, text: str, limit: int) -> int:
        """How many characters of `text` may be shown."""
        share = max(min(limit, self.left), 0)
        self.left -= min(len(text), share)
        return share


def transcript(steps: Sequence[Step], limits: Limits, room: Room, label: str) -> Html:
    """The steps in order; the middle of more than `limits.steps` is left out and counted."""
    first = limits.steps // 3
    last = limits.steps - first
    left_out = max(len(steps) - limits.steps, 0)
    shown = [*steps[:first], *steps[-last:]] if left_out else list(steps)
    items = [_step(step, limits, room) for step in shown]
    if left_out:
        items.insert(
            first, tag("li", tag("p", f"{plural(left_out, 'step')} left out", class_="cut"))
        )
    return tag("ol", *items, class_="steps", tabindex=0, aria_label=label)


def summary(steps: Sequence[Step]) -> str:
    """`12 steps, 14 tool calls (2 failed)`."""
    calls = [call for step in steps for call in step.calls]
    failed = sum(call.failed for call in calls)
    words = f"{plural(len(steps), 'step')}, {plural(len(calls), 'tool call')}"
    return f"{words} ({failed} failed)" if failed else words


def _step(step: Step, limits: Limits, room: Room) -> Html:
    led = f" · led to Submission {step.submission}" if step.submission is not None else ""
    at = f" · {duration(step.seconds)}" if step.seconds is not None else ""
    parts: list[Html | None] = [
        tag("p", f"{_SOURCES.get(step.source, 'other')}{at}{led}", class_="who")
    ]
    if step.reasoning:
        parts.append(fold("reasoning", _said(step.reasoning, limits, room)))
    if step.text:
        said = _said(step.text, limits, room)
        parts.append(said if step.source == "agent" else fold(line(step.text, 90), said))
    parts.extend(_call(call, limits, room) for call in step.calls)
    return tag("li", *parts, class_="agent" if step.source == "agent" else None)


def _said(text: str, limits: Limits, room: Room) -> Html:
    shown, missing = cut(text, room.take(text, limits.text))
    return join(
        tag("p", shown, class_="said"), tag("p", missing, class_="cut") if missing else None
    )


def _call(call: ToolCall, limits: Limits, room: Room) -> Html:
    took = (
        call.ended - call.started if call.started is not None and call.ended is not None else None
    )
    head = join(
        tag("code", line(call.name, 60)),
        f" {brief(call.arguments)}",
        tag("span", f" · {duration(took)}", class_="soft") if took else None,
        " " if call.failed else None,
        tag("span", "failed", class_="mark bad") if call.failed else None,
    )
    parts = [
        _argument(key, value, limits, room) for key, value in list(call.arguments.items())[:20]
    ]
    if len(call.arguments) > 20:
        parts.append(tag("p", f"{len(call.arguments) - 20} arguments left out", class_="cut"))
    result: Html
    if call.result is None:
        result = tag("p", "The stream ended before its result.", class_="cut")
    else:
        result = block(call.result, room.take(call.result, limits.text), label="result")
    return fold(head, *parts, tag("p", "result", class_="who"), result, class_="call")


def _argument(key: str, value: Any, limits: Limits, room: Room) -> Html:
    text = value if isinstance(value, str) else as_json(value)
    return join(
        tag("p", line(str(key), 60), class_="who"),
        block(text, room.take(text, limits.text), label=line(str(key), 60)),
    )


def brief(arguments: Mapping[str, Any]) -> str:
    """A call's arguments on one line."""
    values = list(arguments.values())
    if (
        len(values) == 1
        and isinstance(values[0], list)
        and all(isinstance(one, str) for one in values[0])
    ):
        return line(" ".join(values[0][:20]), 90)
    return line(
        values[0]
        if values and isinstance(values[0], str)
        else as_json(arguments)
        if arguments
        else "",
        90,
    )


def as_json(value: Any) -> str:
    """`value` as JSON people read; what is none as its own words."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)
