"""Files with a schema version: read whole, or refused with the file's name, the reason and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.versioned import read_versioned


@dataclass(frozen=True)
class Note:
    schema: int
    text: str
    count: int = 3

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ConfigError("count: 0 or more is needed")


def read(path: Path) -> Note:
    return read_versioned(path, Note, 2, absent="so it is no notebook", remedy="write it again")


def test_a_field_that_came_later_has_its_default(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text('{"schema": 2, "text": "hello", "newer": true}')
    assert read(tmp_path / "note.json") == Note(2, "hello", 3)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "note.json: cannot be read .*; write it again$"),
        ("\udce9", "note.json: cannot be read .*; write it again$"),
        ("[]", "note.json: schema None is unknown, this evopolicy reads schema 2$"),
        ('{"schema": 3, "text": "x"}', "note.json: schema 3 is unknown, this evopolicy reads schema 2$"),
        ('{"schema": 2}', "note.json: is corrupt .*text.*; write it again$"),
        ('{"schema": 2, "text": "x", "count": -1}', "note.json: is corrupt .*count.*; write it again$"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "note.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=reason):
        read(tmp_path / "note.json")


def test_a_missing_file_says_what_its_folder_is_not(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"has no note\.json, so it is no notebook$"):
        read(tmp_path / "note.json")
