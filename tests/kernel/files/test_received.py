"""Files of a record, whoever sent it: none beyond its bound is read, and what is read is held a
line at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files import beneath
from evopolicy.kernel.files.received import lines_of, read_part
from evopolicy.kernel.session import submission
from evopolicy.kernel.session.submission import read_graded

LINE = b'{"score":0,"outcome":{"index":%d,"episode_return":0,"length":0,"ending":"terminated"}}'


def test_nothing_is_read_of_a_file_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_part(tmp_path, "a", 5) == b"12345"
    monkeypatch.setattr(beneath, "first_bytes", lambda *_: pytest.fail("it was read"))
    os.truncate(tmp_path / "a", 2**36)
    with pytest.raises(RecordError, match=r"a: has more than 5 bytes, which no such file has"):
        read_part(tmp_path, "a", 5)


@pytest.mark.parametrize("data", [b"", b"\n", b"a", b"a\n", b"a\nb", b"\n\na\n\n", b"a\r\n"])
def test_lines_are_those_of_the_file(data: bytes) -> None:
    assert list(lines_of(data)) == data.removesuffix(b"\n").split(b"\n") * bool(data)


def test_a_file_of_more_episodes_than_a_pool_can_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MAX_EPISODES", 3)
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(LINE % number for number in range(3)))
    assert [one.outcome.index for one in read_graded(tmp_path / "a.jsonl")] == [0, 1, 2]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(LINE % number for number in range(4)))
    with pytest.raises(
        RecordError, match=r"a.jsonl: is corrupt \(more than 3 Episodes are those of no pool\)"
    ):
        read_graded(tmp_path / "a.jsonl")
