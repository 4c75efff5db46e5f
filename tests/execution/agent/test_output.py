"""What an agent prints on its way to disk: no secret is written, however it is cut, and it is known
when lines came."""

from __future__ import annotations

import base64
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from evopolicy.execution.agent import output as agent_output
from evopolicy.execution.agent.output import Stream, Times
from evopolicy.kernel.secrecy.masking import PENDING_BYTES, Masking
from evopolicy.kernel.secrecy.secrets import MASK, Masker

VALUE, LINES = 'pa"ss/word+with ä', "first line of it\nsecond line of it\nthird"
MASKER = Masker(tuple(sorted((VALUE, LINES, "plain-value-1", "XoXoXoXoX"), key=len, reverse=True)))
PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\ndefg\n-----END RSA PRIVATE KEY-----"
FORMS = [
    VALUE, json.dumps(VALUE)[1:-1], quote(VALUE, safe=""), LINES, json.dumps(LINES)[1:-1], "plain-value-1",
    "XoXoXoXoX", "sk-" + "a1" * 15, "Bearer " + base64.b64encode(b"user:a long password").decode(), PRIVATE,
    json.dumps(PRIVATE)[1:-1],
]  # fmt: skip


JOINED = [
    "http://bob:secret@h/x", "https://h/x?a=1&token=abcdefgh", "rt_" + "Ab1.-_" * 6, "ya29." + "a0Af_-" * 6,
    "1//0g" + "Cx-_" * 8,
]  # fmt: skip
"""What follows without a space is a part of them."""


@pytest.mark.parametrize("form", [*FORMS, *JOINED])
def test_a_secret_is_masked_wherever_it_is_cut(form: str) -> None:
    whole = f"before {form} after\n".encode()
    for place in range(1, len(whole)):
        for quiet in (False, True):
            masking = Masking(MASKER)
            out = masking.feed(whole[:place]) + (masking.begun() if quiet else b"")
            assert out + masking.feed(whole[place:]) + masking.end() == MASKER.data(whole), place


def test_pieces_of_any_text_are_masked_as_the_whole_is() -> None:
    chance = random.Random(3)
    parts = [
        *FORMS,
        "word ",
        "\n",
        "XoX",
        "plain",
        "text here, ",
        "-----BEGIN ",
        '"',
        "first line of it\n",
    ]
    for _ in range(1500):
        text = "".join(chance.choice(parts) for _ in range(chance.randrange(12))).encode()
        masking, out, place = Masking(MASKER), b"", 0
        while place < len(text):
            size = chance.choice([1, 2, 5, 17, 100])
            out += masking.feed(text[place : place + size])
            out += masking.begun() if chance.random() < 0.3 else b""
            place += size
        assert out + masking.end() == MASKER.data(text), text


def test_the_beginning_of_a_line_is_given_but_for_what_may_begin_a_secret() -> None:
    masking = Masking(MASKER)
    assert masking.feed(b"how is it going? plain-va") == b""
    assert masking.begun() == b"how is it going? "
    assert masking.begun() == b""
    assert masking.feed(b"lue-1!\n") == f"{MASK}!\n".encode()
    assert masking.pending == 0


@pytest.mark.parametrize("place", [-3, 0, 5])
def test_a_secret_across_the_pieces_of_a_very_long_line_is_masked(place: int) -> None:
    before = b"lorem ipsum " * (10_000_000 // 12)
    line = before[: PENDING_BYTES + place - 7] + b"plain-value-1" + before + b"plain-value-1\n"
    masking = Masking(MASKER)
    pieces = [masking.feed(line[start : start + 65536]) for start in range(0, len(line), 65536)]
    out = b"".join(pieces)
    assert b"value-1" not in out and out.count(MASK.encode()) == 2 and masking.pending == 0
    assert len(out) == len(line) - 2 * (len("plain-value-1") - len(MASK))
    assert max(map(len, pieces)) < 2 * PENDING_BYTES


# --- a stream -------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets what time it is for the module."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def at(seconds: float) -> None:
        now[0] = 100.0 + seconds

    return at


class Pipe:
    """A stream with this end to write to."""

    def __init__(self, folder: Path, limit: int = 1 << 20) -> None:
        out, self._fd = os.pipe()
        os.set_blocking(out, False)
        self.log, self.times = folder / "stdout.log", folder / "stdout.times"
        self.stream = Stream(out, self.log, limit, MASKER, Times(self.times, 100.0))

    def says(self, data: bytes) -> None:
        for start in range(0, len(data), 32768):
            os.write(self._fd, data[start : start + 32768])
            assert self.stream.pump()

    def ends(self, data: bytes = b"") -> None:
        os.write(self._fd, data)
        os.close(self._fd)
        self.stream.close()

    def listed(self) -> list[str]:
        return self.times.read_text().splitlines()


def test_lines_are_listed_at_the_tenth_of_a_second_they_came(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    pipe = Pipe(tmp_path)
    for seconds, words in (
        (0.31, b"a\nb\n"),
        (0.34, b"c\n"),
        (0.41, b"d\nhal"),
        (1.26, b"f\n"),
        (2.0, b""),
    ):
        clock(seconds)
        pipe.says(words)
    clock(3.0)
    pipe.ends(b"last")
    assert pipe.log.read_bytes() == b"a\nb\nc\nd\nhalf\nlast"
    assert pipe.listed() == ["0 0.3", "3 0.4", "4 1.2", "5 3.0"]


def test_lines_are_counted_as_they_are_written(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    pipe = Pipe(tmp_path)
    clock(1)
    pipe.says(f"{LINES}\n".encode())
    clock(2)
    pipe.says(b"next\n")
    pipe.ends()
    assert pipe.log.read_text() == f"{MASK}\nnext\n"
    assert pipe.listed() == ["0 1.0", "1 2.0"]


def test_times_of_a_very_long_stream_are_bounded(
    tmp_path: Path, clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_output, "MAX_TIMES", 6)
    pipe = Pipe(tmp_path)
    for tenth in range(0, 100, 5):
        clock(tenth / 10 + 0.01)
        pipe.says(b"x\n")
    pipe.ends()
    assert pipe.listed() == ["0 0.0", "1 0.5", "2 1.0", "4 2.0", "6 3.0", "8 4.0"]


def test_a_quiet_line_is_written_without_its_end_and_its_secret(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    pipe = Pipe(tmp_path)
    pipe.says(b"a question plain-")
    pipe.stream.look()
    assert pipe.log.read_bytes() == b""
    clock(1)
    pipe.stream.look()
    assert pipe.log.read_bytes() == b"a question "
    pipe.says(b"value-1? ")
    clock(2)
    pipe.stream.look()
    assert pipe.log.read_bytes() == f"a question {MASK}? ".encode()
    pipe.ends()


def test_output_that_is_not_written_yet_is_seen_all_the_same(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path)
    os.utime(pipe.log, (0, 0))
    pipe.says(b"plain-")
    assert pipe.log.stat().st_mtime > 0 and pipe.log.read_bytes() == b""
    pipe.ends()
    assert pipe.log.read_bytes() == b"plain-"


def test_the_middle_of_too_much_is_left_out_and_no_secret_is_at_its_edges(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path, limit=1000)
    pipe.says(b"head\n" + b"plain-value-1 " * 1_500_000 + b"\ntail")
    pipe.ends()
    kept = pipe.log.read_bytes()
    assert kept.startswith(b"head\n***") and kept.endswith(b"\ntail") and b"bytes left out" in kept
    assert b"value" not in kept and len(kept) < agent_output.TAIL_BYTES + 2_000_000
