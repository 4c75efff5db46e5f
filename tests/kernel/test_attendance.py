"""Reading what an agent printed, whatever it printed; and the clock that stands still while its calls block."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evopolicy.kernel import stream
from evopolicy.kernel.clock import BlockedClock
from evopolicy.kernel.stream import read_transcript
from evopolicy.kernel.transcript import Transcript


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
    assert lines(tmp_path, b"a\r\nb\x0cc\xff\n\xe2\x80\xa8d") == ["a\r\n", "b\x0cc\ufffd\n", "\u2028d"]


def test_a_line_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_LINE", 10)
    assert max(map(len, lines(tmp_path, b"x" * 35))) == 10


def test_an_agent_that_printed_nothing_has_an_empty_transcript(tmp_path: Path) -> None:
    assert read_transcript(Keeps(), tmp_path).completed  # type: ignore[arg-type]


def test_a_reader_that_fails_is_reported_in_the_transcript(tmp_path: Path) -> None:
    def fail(*_: Any) -> Transcript:
        raise RecursionError("deep")

    transcript = read_transcript(SimpleNamespace(read=fail), tmp_path)  # type: ignore[arg-type]
    assert transcript.error == "the transcript cannot be read: RecursionError: deep"
    assert transcript.error_kind == "other", "not a provider's failure: nothing is retried for it"


def test_the_clock_adds_up_the_time_in_which_at_least_one_call_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
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
