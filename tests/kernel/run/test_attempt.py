"""Reading what an agent printed, whatever it printed; and the clock that stands still while its
calls block."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evopolicy.kernel.clock import BlockedClock
from evopolicy.kernel.ports.protocols import AgentLimits
from evopolicy.kernel.ports.proxy_usage import ProxyUsage
from evopolicy.kernel.ports.transcript import Step, Transcript, Usage
from evopolicy.kernel.run import attempt, stream
from evopolicy.kernel.run.stream import read_transcript


class Keeps:
    """An integration that keeps the lines it was given."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def read(self, lines: Iterable[str], _logs: Path | None = None) -> Transcript:
        self.lines = list(lines)
        return Transcript(completed=True)


def lines(folder: Path, content: bytes) -> list[str]:
    (folder / "stdout.log").write_bytes(content)
    agent = Keeps()
    assert read_transcript(agent, folder).completed  # type: ignore[arg-type]
    return agent.lines


def test_lines_end_at_line_feeds_only_and_bad_bytes_are_replaced(tmp_path: Path) -> None:
    assert lines(tmp_path, b"a\r\nb\x0cc\xff\n\xe2\x80\xa8d") == [
        "a\r\n",
        "b\x0cc\ufffd\n",
        "\u2028d",
    ]


def test_a_line_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_LINE", 10)
    assert max(map(len, lines(tmp_path, b"x" * 35))) == 10


def test_an_agent_that_printed_nothing_has_an_empty_transcript(tmp_path: Path) -> None:
    assert read_transcript(Keeps(), tmp_path).completed  # type: ignore[arg-type]


def test_a_reader_that_fails_is_reported_in_the_transcript(tmp_path: Path) -> None:
    def fail(*_: Any) -> Transcript:
        raise RecursionError("deep")

    transcript = read_transcript(SimpleNamespace(read=fail), tmp_path)
    assert transcript.error == "the transcript cannot be read: RecursionError: deep"
    assert transcript.error_kind == "other", "not a provider's failure: nothing is retried for it"


def test_the_clock_adds_up_the_time_in_which_at_least_one_call_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("evopolicy.kernel.clock.time", SimpleNamespace(monotonic=lambda: now[0]))
    clock = BlockedClock()
    for enters, at in ((True, 1), (True, 2), (False, 5), (False, 7), (True, 10)):
        now[0] = at
        if enters:
            clock.__enter__()
        else:
            clock.__exit__()
    now[0] = 12
    assert clock.seconds == (7 - 1) + (12 - 10)


def served(trouble: str = "", **usage: Any) -> ProxyUsage:
    return ProxyUsage(Usage(**usage), trouble=trouble)  # type: ignore[arg-type]


def test_usage_is_what_was_served_and_the_streams_own_where_that_is_only_estimated() -> None:
    proxy = served(input_tokens=10, output_tokens=5, requests=3)
    told = attempt.joined_usage(Usage(input_tokens=9, output_tokens=4, cost_usd=0.1), proxy)
    assert (told.input_tokens, told.output_tokens, told.cost_usd, told.requests) == (10, 5, 0.1, 3)
    assert told.cost_is_estimate, "it is the cost of fewer tokens"
    more = attempt.joined_usage(Usage(input_tokens=19, output_tokens=4, cost_usd=0.1), proxy)
    assert (more.input_tokens, more.output_tokens, more.cost_usd) == (10, 5, None), (
        "it counted an earlier attempt's too"
    )
    assert not more.tokens_are_estimate
    same = attempt.joined_usage(Usage(10, 0, 0, 5, 3, cost_usd=0.1), proxy)
    assert (same.reasoning_tokens, same.cost_usd, same.cost_is_estimate) == (3, 0.1, False)
    guessed = ProxyUsage(Usage(input_tokens=10, output_tokens=5, requests=3), estimated=True)
    assert attempt.joined_usage(Usage(input_tokens=9, output_tokens=4), guessed).output_tokens == 4
    assert attempt.joined_usage(Usage(), guessed).tokens_are_estimate
    silent = attempt.joined_usage(Usage(), proxy)
    assert (silent.input_tokens, silent.output_tokens, silent.requests) == (10, 5, 3)
    assert attempt.joined_usage(Usage(output_tokens=1), None) == Usage(output_tokens=1)


def test_requests_a_stream_does_not_tell_of_are_found_by_their_ids_or_by_what_they_used() -> None:
    proxy = ProxyUsage(Usage(input_tokens=100, output_tokens=50), responses={"a": 100, "b": 50})
    whole = Usage(input_tokens=100, output_tokens=50)
    assert (
        attempt.unexplained(Transcript(usage=whole, completed=True, response_ids=("a", "b")), proxy)
        == 0
    )
    assert (
        attempt.unexplained(Transcript(usage=whole, completed=True, response_ids=("a",)), proxy)
        == 0
    ), "they agree"
    less = Usage(input_tokens=80, output_tokens=20)
    assert (
        attempt.unexplained(Transcript(usage=less, completed=True, response_ids=("a",)), proxy)
        == 50
    )
    assert attempt.unexplained(Transcript(usage=whole, response_ids=("a",)), proxy) == 50, (
        "it has no totals"
    )
    assert (
        attempt.unexplained(Transcript(usage=Usage(80, output_tokens=50), completed=True), proxy)
        == 20
    )
    assert attempt.unexplained(Transcript(usage=whole), proxy) is None, (
        "a stream that was cut says nothing"
    )
    assert attempt.unexplained(Transcript(usage=whole, completed=True), None) is None
    assert attempt.is_unexplained(20, {"input_tokens": 100, "output_tokens": 50})
    assert not attempt.is_unexplained(2, {"input_tokens": 100, "output_tokens": 50})
    assert not attempt.is_unexplained(None, {})


@pytest.mark.parametrize(
    ("steps", "answers", "turns"), [(5, 3, 3), (3, 5, 3), (0, 4, 4), (4, None, 4), (4, 0, 4)]
)
def test_parallel_calls_are_one_turn_and_a_stream_without_turns_has_its_answers(
    steps: int, answers: int | None, turns: int
) -> None:
    transcript = Transcript(steps=(Step("agent"),) * steps)
    proxy = ProxyUsage(Usage(), answers=answers)
    assert attempt.counted_turns(transcript, proxy) == turns


@pytest.mark.parametrize(
    ("limit", "running", "printed", "called", "idle"),
    [
        (10.0, False, 89.0, 80.0, True),
        (10.0, False, 90.0, 80.0, False),  # exactly the limit
        (10.0, False, 80.0, 91.0, False),  # a call of its own
        (10.0, True, 0.0, 0.0, False),  # an Evaluation runs, however long it has been silent
        (None, False, 0.0, 0.0, False),
    ],
)
def test_an_agent_is_idle_where_it_neither_prints_nor_calls_nor_has_an_evaluation_running(
    limit: float | None, running: bool, printed: float, called: float, idle: bool
) -> None:
    process, session = (
        SimpleNamespace(last_output=lambda: printed),
        SimpleNamespace(running=running, last_call=called),
    )
    limits = AgentLimits(None, limit, 0.0)
    assert attempt._idle(process, session, limits, 100.0) is idle  # type: ignore[arg-type]
