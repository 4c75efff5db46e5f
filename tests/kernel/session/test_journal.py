"""The journal: durable, ordered, held by one Host, and whole after any failure of the disk."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.durable import write_durably
from evopolicy.kernel.session.journal import JOURNAL, Journal, read_journal
from evopolicy.kernel.values import ValueRefused


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def words(folder: Path) -> list[str]:
    return [event["event"] for event in read_journal(folder)]


def test_events_are_numbered_timed_and_read_back_in_order(journal: Journal, tmp_path: Path) -> None:
    for word in ("one", "two", "three"):
        journal.append(word, content={"x": [1.5, None]})
    found = list(read_journal(tmp_path))
    assert [(event["n"], event["event"]) for event in found] == [
        (0, "one"),
        (1, "two"),
        (2, "three"),
    ]
    assert all(event["content"] == {"x": [1.5, None]} and event["time"] > 0 for event in found)
    assert found == journal.events


def test_a_listener_hears_an_event_when_it_is_on_disk_and_may_raise(tmp_path: Path) -> None:
    heard = []

    def listen(event: Any) -> None:
        heard.append(words(tmp_path)[-1] == event["event"])
        raise RuntimeError("a bad listener")

    journal = Journal(tmp_path, listen)
    journal.append("one")
    journal.append("two")
    assert heard == [True, True]


def test_a_second_host_is_refused_while_the_first_lives(journal: Journal, tmp_path: Path) -> None:
    journal.append("one")
    with pytest.raises(RecordError, match="another process is running this Run"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).append("two")
    assert words(tmp_path) == ["one", "two"]


def test_the_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    text = "import sys, os; from pathlib import Path; from evopolicy.kernel.session.journal import Journal; " \
           "Journal(Path(sys.argv[1])).append('one'); os.kill(os.getpid(), 9)"  # fmt: skip
    subprocess.run([sys.executable, "-c", text, str(tmp_path)], check=False, timeout=300)
    Journal(tmp_path).append("two")
    assert words(tmp_path) == ["one", "two"]


@pytest.mark.parametrize("tail", [b'{"n":1,"event":"tw', b"{", b'{"n":1,"time":0,"event":"two"}'])
def test_a_line_the_host_was_killed_inside_of_never_happened(
    journal: Journal, tmp_path: Path, tail: bytes
) -> None:
    journal.append("one")
    journal.close()
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(tail)
    assert words(tmp_path) == ["one"]
    Journal(tmp_path).append("again")
    assert words(tmp_path) == ["one", "again"]


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"n":7,"event":"two","time":0}',
        b'{"n":1,"event":5}',
        b"\xff\xfe",
        b"",
        b"\0" * 40,
    ],
)
def test_a_corrupt_line_is_named_and_never_skipped(
    journal: Journal, tmp_path: Path, line: bytes
) -> None:
    for word in ("one", "two", "three"):
        journal.append(word)
    journal.close()
    lines = (tmp_path / JOURNAL).read_bytes().splitlines()
    (tmp_path / JOURNAL).write_bytes(b"\n".join([lines[0], line, lines[2], b""]))
    with pytest.raises(
        RecordError, match=r"journal.jsonl: line 2 is corrupt.*; restore the Run's folder"
    ):
        list(read_journal(tmp_path))
    for _ in range(2):  # and the lock is free again
        with pytest.raises(RecordError, match="line 2 is corrupt"):
            Journal(tmp_path)


@pytest.mark.parametrize(
    "swap", [lambda lines: [lines[1], lines[0]], lambda lines: [lines[0], lines[0]]]
)
def test_lines_out_of_order_are_corrupt(
    journal: Journal, tmp_path: Path, swap: Callable[[Any], Any]
) -> None:
    journal.append("one")
    journal.append("two")
    journal.close()
    lines = (tmp_path / JOURNAL).read_bytes().splitlines()
    (tmp_path / JOURNAL).write_bytes(b"\n".join([*swap(lines), b""]))
    with pytest.raises(RecordError, match="is corrupt"):
        list(read_journal(tmp_path))


def test_a_folder_without_a_journal_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"has no journal.jsonl, so it is not a Run's folder"):
        list(read_journal(tmp_path))
    (tmp_path / JOURNAL).mkdir()
    with pytest.raises(RecordError, match="cannot be read"):
        list(read_journal(tmp_path))


def test_what_is_not_public_is_refused_and_leaves_the_journal_usable(
    journal: Journal, tmp_path: Path
) -> None:
    with pytest.raises(ValueRefused):
        journal.append("one", bad=float("nan"))
    journal.append("two")
    assert words(tmp_path) == ["two"]


class FullDisk:
    """A journal's file on a disk that takes `room` more bytes; with `locked`, it cannot even be cut
    back."""

    def __init__(self, file: Any, room: int, locked: bool) -> None:
        self._file, self._room, self._locked = file, room, locked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: memoryview) -> int:
        if self._room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._file.write(data[: self._room])
        self._room -= written
        return int(written)

    def truncate(self, size: int) -> int:
        if self._locked:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return int(self._file.truncate(size))


@pytest.mark.parametrize("room", [0, 1, 30])
@pytest.mark.parametrize("locked", [False, True])
def test_a_full_disk_loses_no_event_and_mixes_no_lines(
    tmp_path: Path, room: int, locked: bool
) -> None:
    journal = Journal(tmp_path)
    journal.append("one")
    disk = FullDisk(journal._file, room, locked)
    journal._file = disk  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space left"):
        journal.append("two")
    disk._room = 10**6
    with pytest.raises(
        RecordError, match="could not be written before; mend that and run the command again"
    ):
        journal.append("three")
    journal.close()
    assert words(tmp_path) == ["one"]
    Journal(tmp_path).append("four")
    assert words(tmp_path) == ["one", "four"]


def test_a_write_that_takes_several_goes_is_whole(tmp_path: Path) -> None:
    class Slow(FullDisk):
        def write(self, data: memoryview) -> int:
            return int(self._file.write(data[:7]))

    journal = Journal(tmp_path)
    journal._file = Slow(journal._file, 0, False)  # type: ignore[assignment]
    journal.append("one", text="x" * 100)
    assert words(tmp_path) == ["one"]


def test_write_durably_replaces_whole_and_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_durably(tmp_path / "a", b"one")
    write_durably(tmp_path / "a", b"two")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path / "a", b"three")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"two")]


def test_one_event_is_one_line_of_plain_json(journal: Journal, tmp_path: Path) -> None:
    journal.append("one", text="a\nb\u2028c\ud800")
    (line,) = (tmp_path / JOURNAL).read_bytes().split(b"\n")[:-1]
    assert json.loads(line)["text"] == "a\nb\u2028c?"


# --- a clock that is set back ---------------------------------------------------------------------


def test_times_never_go_back_whatever_the_machines_clock_does(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0, 40.0, 101.0]
    monkeypatch.setattr(
        "evopolicy.kernel.session.journal.time", SimpleNamespace(time=lambda: clock.pop(0))
    )
    journal.append("one")
    journal.append("two")
    journal.close()
    after = Journal(tmp_path)
    clock[:0] = [50.0]
    after.append("three")
    after.append("four")
    assert [event["time"] for event in after.events] == [100.0, 100.0, 100.0, 101.0]


def test_a_journal_in_which_they_do_is_read_as_if_no_time_had_passed(tmp_path: Path) -> None:
    lines = [
        {"n": n, "time": time, "event": "x"}
        for n, time in enumerate((100.0, 103.0, 40.0, 50.0, 104.5))
    ]
    (tmp_path / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [event["time"] for event in read_journal(tmp_path)] == [
        100.0,
        103.0,
        103.0,
        103.0,
        104.5,
    ]
