"""What every parser of an agent's stream is built on, and that a long or huge stream costs no more
than its length."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evopolicy.agents.streams import stream
from evopolicy.agents.streams.stream import (
    MAX_DEPTH,
    MAX_ERROR,
    MAX_KINDS,
    Collected,
    cost_of,
    json_value,
)
from evopolicy.kernel.ports.protocols import AgentIntegration
from evopolicy.kernel.ports.transcript import Transcript, Usage, tool_calls
from tests.agents.fake_cli import agent, lines

NAMES = ("chat", "claude_code", "codex", "gemini_cli", "kimi_code", "opencode", "qoder")
SERVED = ("chat", "opencode")
CPU_SECONDS = 20.0
"""What a reading may take of a processor before it counts as endless: it takes less than one."""
WRONG_COSTS: tuple[Any, ...] = (
    10**400,
    math.nan,
    math.inf,
    -math.inf,
    -0.01,
    1e308,
    1e6 + 1,
    True,
    "1",
    None,
    [],
    {},
)


@cache
def integration(name: str) -> AgentIntegration:
    options = {"base_url": "http://127.0.0.1:8000/v1"} if name in SERVED else {}
    return agent(name, model="m", **options)


def read(name: str, told: Iterable[str]) -> Transcript:
    return integration(name).read(iter(told))


@contextmanager
def bounded_work() -> Iterator[None]:
    """Fails, rather than hangs, what computes without an end. It counts processor time: waiting
    costs nothing."""

    def stop(*_: object) -> None:
        raise AssertionError("the work grows faster than the stream")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# --- Collected ------------------------------------------------------------------------------------


def made(collected: Collected, usage: Usage | None = None, error: str = "") -> Transcript:
    return collected.transcript(usage=usage or Usage(), completed=False, error=error)


def test_parts_of_a_message_are_joined_in_order() -> None:
    seen = Collected()
    seen.add("of no message")
    seen.step("agent", "a", "x", line=3)
    for text in ("b", "", "c"):
        seen.add(text, text.upper())
    (step,) = made(seen).steps
    assert (step.text, step.reasoning, step.line) == ("abc", "xBC", 3)


def test_a_result_finds_its_call_however_late_and_one_of_nothing_is_a_step() -> None:
    seen = Collected()
    seen.call("a", "shell", {"n": 1}, line=0)
    seen.call("b", "shell", "ls", line=1)
    seen.step("user", "go on")
    seen.result("b", "of b", failed=True, line=3)
    seen.result("c", "of nothing", line=4)
    told, _, alone = made(seen).steps
    assert [(c.id, c.arguments, c.result, c.failed, c.line, c.result_line) for c in told.calls] == [
        ("a", {"n": 1}, None, False, 0, None),
        ("b", {"input": "ls"}, "of b", True, 1, 3),
    ]
    assert (alone.source, alone.text) == ("tool", "of nothing")


def test_calls_of_one_id_get_the_results_in_order_and_those_of_an_earlier_message_none() -> None:
    seen = Collected()
    seen.call("", "early")
    seen.step("agent")
    seen.call("", "first")
    seen.call("", "second")
    for text in ("1", "2", "2 again"):
        seen.result("", text)
    assert [call.result for step in made(seen).steps for call in step.calls] == [
        None,
        "1",
        "2 again",
    ]


def test_steps_beyond_the_limit_are_counted_and_add_nothing_to_the_last_one_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "MAX_STEPS", 2)
    seen = Collected()
    for text in ("a", "b", "c", "d"):
        seen.step("agent", text)
        seen.add("+")
        seen.call(text, "shell")
        seen.result(text, f"of {text}")
    told = made(seen)
    assert [(step.text, len(step.calls)) for step in told.steps] == [("a+", 1), ("b+", 1)]
    assert told.unknown_events == {"step beyond the limit": 2, "call beyond the limit": 2}


def test_calls_beyond_the_limit_are_counted_with_results_that_are_no_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "MAX_CALLS", 2)
    seen = Collected()
    for number in range(5):
        seen.call(str(number), "shell")
    for number in range(5):
        assert seen.called(str(number))
        seen.result(str(number), "done")
    told = made(seen)
    assert [len(step.calls) for step in told.steps] == [2] and tool_calls(told) == 2
    assert told.unknown_events == {"call beyond the limit": 3}


def test_kinds_of_unknown_events_are_bounded_and_all_counted() -> None:
    seen = Collected()
    for number in range(2 * MAX_KINDS):
        seen.strange({}, f"{number} {'x' * 10_000}")
    told = made(seen).unknown_events
    assert len(told) <= MAX_KINDS + 1 and sum(told.values()) == 2 * MAX_KINDS
    assert max(map(len, told)) <= stream.MAX_KIND


def test_an_error_is_cut_before_it_is_kept() -> None:
    told = made(Collected(), error="rate limit " + "x" * 10**6)
    assert (len(told.error), told.error_kind) == (MAX_ERROR, "rate_limit")


def test_sums_too_great_to_be_counts_or_costs_are_not_known() -> None:
    told = made(Collected(), Usage(2**53, 1, -1, 2, 10**400, 1e7, requests=3))
    assert told.usage == Usage(None, 1, None, 2, None, None, requests=3)


@pytest.mark.parametrize("value", WRONG_COSTS, ids=lambda value: repr(value)[:12])
def test_what_is_no_cost_is_none(value: Any) -> None:
    assert cost_of(value) is None


@pytest.mark.parametrize("value", [0, 0.25, 3, 1e6])
def test_a_cost_is_a_number_of_dollars(value: float) -> None:
    assert cost_of(value) == value and type(cost_of(value)) is float


def test_json_is_read_to_a_depth_that_all_that_follows_can_bear() -> None:
    assert json_value("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert json_value("[" + "[]," * 1000 + "{}]")[-1] == {}
    assert json_value('"' + "[" * 1000 + '"') == "[" * 1000
    for depth in (MAX_DEPTH + 2, 500, 100_000):
        with pytest.raises(ValueError):
            json_value("[" * depth + "]" * depth)


def test_of_standard_error_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "STDERR_BYTES", 18)
    (tmp_path / "stderr.log").write_text("".join(f"line {number}\n\n" for number in range(100)))
    assert stream.stderr_of(tmp_path) == ["line 98", "line 99"]
    assert stream.stderr_of(tmp_path / "nowhere") == stream.stderr_of(None) == []


def test_what_ended_with_an_error_is_not_completed() -> None:
    made = Collected()
    assert made.transcript(usage=Usage(), completed=True).completed
    failed = made.transcript(usage=Usage(), completed=True, error="overloaded")
    assert not failed.completed and failed.error_kind == "overload"


# --- Every parser ---------------------------------------------------------------------------------


def test_a_cost_that_is_none_is_not_known_to_any_parser() -> None:
    for cost in WRONG_COSTS[:8]:
        told: dict[str, list[dict[str, Any]]] = {
            "chat": [
                {"type": "message", "text": "a", "usage": {"completion_tokens": 1, "cost": cost}},
                {"type": "done"},
            ],
            "claude_code": [
                {"type": "result", "subtype": "success", "is_error": False, "total_cost_usd": cost}
            ],
            "opencode": [
                {"type": "step_finish", "part": {"reason": "stop", "cost": part}}
                for part in (0.5, cost)
            ],
            "qoder": [
                {"type": "result", "subtype": "success", "is_error": False, "total_cost_usd": cost}
            ],
        }
        for name, events in told.items():
            seen = read(name, lines(*events))
            assert seen.completed and seen.usage.cost_usd is None, (name, cost)


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_that_is_no_text_is_counted(name: str) -> None:
    for kind in ([], {}, [["x"]], {"a": None}, 3, None, True, 10**400):
        inside = {"type": kind, "text": "a", "id": kind, "status": kind, "role": kind}
        events: list[dict[str, Any]] = [
            {"type": kind},
            {"type": kind, "role": kind, "item": inside, "message": inside, "part": inside},
            {"type": "item.started", "item": inside},
            {"type": "item.completed", "item": inside},
            {"type": "assistant", "message": {"id": kind, "content": [inside, kind]}},
            {"type": "user", "message": {"id": kind, "content": [inside, kind]}},
            {"type": "assistant", "role": "assistant", "tool_calls": [inside], "message": inside},
            {"type": "system", "subtype": kind},
            {"type": "error", "kind": kind, "message": kind, "error": inside, "item": inside},
            {
                "type": "result",
                "status": kind,
                "subtype": kind,
                "error": kind,
                "errors": [kind],
                "stats": kind,
            },
            {"type": "tool_use", "part": {"callID": "a", "tool": "bash", "state": inside}},
            {"type": "turn.failed", "error": kind},
            {"type": "turn.completed", "usage": inside},
        ]
        for event in events:
            read(name, lines(event))
        seen = read(name, lines(*events))
        assert seen.unknown_events


# --- Long streams ---------------------------------------------------------------------------------

Shape = Callable[[int], Iterable[str]]
WORDS = "x" * 100


def each(event: dict[str, Any]) -> Shape:
    """`n` lines of `event`; a text '#' in it is the line's number."""
    before, *after = (json.dumps(event) + "\n").split('"#"')
    return lambda n: (f'"{number}"'.join((before, *after)) for number in range(n))


def then(*shapes: Shape) -> Shape:
    """A part of the `n` lines of each shape."""
    return lambda n: (line for shape in shapes for line in shape(n // len(shapes)))


def says(block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": "m", "content": [block]}}


TEXT = {"type": "text", "text": WORDS}
USED = then(
    each(says({"type": "tool_use", "id": "#", "name": "x", "input": {}})),
    each(
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "#", "content": "o"}]},
        }
    ),
)
COMMAND = {"type": "command_execution", "id": "#", "command": "x", "aggregated_output": "o"}
DELTAS: dict[str, Shape] = {
    "claude_code": each(says(TEXT)),
    "codex": each({"type": "item.completed", "item": {"type": "reasoning", "text": WORDS}}),
    "gemini_cli": each({"type": "message", "role": "assistant", "content": WORDS, "delta": True}),
    "opencode": each({"type": "text", "part": {"text": WORDS}}),
    "qoder": each(says(TEXT)),
}
"""One message in as many parts as there are lines."""
CALLS: dict[str, Shape] = {
    "chat": then(
        each({"type": "tool_call", "id": "#", "name": "shell", "arguments": {}}),
        each({"type": "tool_result", "id": "#", "text": "o"}),
    ),
    "claude_code": USED,
    "codex": then(
        each({"type": "item.started", "item": COMMAND}),
        each({"type": "item.completed", "item": COMMAND}),
    ),
    "gemini_cli": then(
        each({"type": "tool_use", "tool_id": "#", "tool_name": "x", "parameters": {}}),
        each({"type": "tool_result", "tool_id": "#", "output": "o"}),
    ),
    "opencode": each(
        {"type": "tool_use", "part": {"callID": "#", "tool": "bash", "state": {"output": "o"}}}
    ),
    "qoder": USED,
}
"""One message with calls, and their results after all of them."""


@pytest.mark.parametrize("name", DELTAS)
def test_a_message_in_a_hundred_thousand_parts_is_read_whole(name: str) -> None:
    with bounded_work():
        (step,) = read(name, DELTAS[name](100_000)).steps
    assert (step.text + step.reasoning).count(WORDS) == 100_000


@pytest.mark.parametrize("name", CALLS)
def test_a_message_with_ten_thousand_calls_and_their_results_is_read_whole(name: str) -> None:
    for n in (2_000, 20_000):
        with bounded_work():
            (step,) = read(name, CALLS[name](n)).steps
        assert len(step.calls) == (n if name == "opencode" else n // 2)
        assert all(call.result == "o" for call in step.calls)


def test_one_line_of_ten_megabytes_of_calls_is_read_and_those_beyond_the_limit_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "MAX_CALLS", 10_000)
    use = json.dumps({"type": "tool_use", "id": "#", "name": "x", "input": {"x": "y" * 500}})
    function = json.dumps({"id": "#", "function": {"name": "x", "arguments": "{}" + " " * 500}})
    told = {
        "claude_code": ('{"type": "assistant", "message": {"id": "m", "content": [', use, "]}}"),
        "kimi_code": ('{"role": "assistant", "tool_calls": [', function, "]}"),
    }
    for name, (begin, one, end) in told.items():
        line = begin + ",".join(one.replace("#", str(number)) for number in range(18_000)) + end
        assert len(line) > 9 << 20
        with bounded_work():
            seen = read(name, [line])
        assert tool_calls(seen) == 10_000 and seen.unknown_events == {
            "call beyond the limit": 8_000
        }


@pytest.mark.parametrize(
    ("words", "size"), [("model ", 10 << 20), ("input ", 1 << 20), ('"code": ', 1 << 20)]
)
def test_an_error_of_ten_megabytes_is_cut_before_it_is_understood(words: str, size: int) -> None:
    whole = words * (size // len(words))
    told: dict[str, dict[str, Any]] = {
        "chat": {"type": "error", "text": whole},
        "claude_code": {"type": "result", "subtype": "error", "is_error": True, "result": whole},
        "codex": {"type": "turn.failed", "error": {"message": whole}},
        "gemini_cli": {"type": "result", "status": "error", "error": {"message": whole}},
        "opencode": {"type": "error", "error": {"name": "APIError", "data": {"message": whole}}},
        "qoder": {"type": "result", "subtype": "error", "is_error": True, "result": whole},
    }
    for name, event in told.items():
        with bounded_work():
            seen = read(name, lines(event))
        assert (
            0 < len(seen.error) <= MAX_ERROR and whole.startswith(seen.error) and not seen.completed
        )
