"""Files with a schema version: read whole, brought up from an older version, or refused by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.files.versioned import FORMATS, Format, parse, read_versioned


@dataclass(frozen=True)
class Note:
    schema: int
    text: str
    count: int = 3

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ConfigError("count: 0 or more is needed")


def renamed(value: dict[str, Any]) -> dict[str, Any]:
    """From version 1, which called its text 'words'."""
    return {"text": value["words"], "schema": 2}


NOTE = Format("note.json", 2, 1000, {1: renamed})


def read(path: Path) -> Note:
    return read_versioned(path, Note, NOTE, absent="so it is no notebook", remedy="write it again")


def test_a_field_that_came_later_has_its_default(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text('{"schema": 2, "text": "hello", "newer": true}')
    assert read(tmp_path / "note.json") == Note(2, "hello", 3)


def test_an_older_version_is_brought_up_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text('{"schema": 1, "words": "hello"}')
    assert read(tmp_path / "note.json") == Note(2, "hello", 3)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "note.json: cannot be read .*; write it again$"),
        ("\udce9", "note.json: cannot be read .*; write it again$"),
        (
            "[]",
            r"note.json: cannot be read \(a JSON object is needed, found a list\); write it again$",
        ),
        ("{}", "note.json: schema None is unknown, this evopolicy reads schemas 1 to 2$"),
        (
            '{"schema": 3}',
            "note.json: schema 3 is unknown, this evopolicy reads schemas 1 to 2; update "
            "evopolicy$",
        ),
        ('{"schema": 0}', "note.json: schema 0 is unknown, this evopolicy reads schemas 1 to 2$"),
        ('{"schema": true}', "note.json: schema True is unknown"),
        ('{"schema": 1, "text": "x"}', "note.json: is corrupt as schema 1 .*words"),
        ('{"schema": 2}', "note.json: is corrupt .*text.*; write it again$"),
        (
            '{"schema": 2, "text": "x", "count": -1}',
            "note.json: is corrupt .*count.*; write it again$",
        ),
        (
            '{"schema": 2, "text": "' + "x" * 1000 + '"}',
            "note.json: has more than 1,000 bytes, which no such file has$",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "note.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=reason):
        read(tmp_path / "note.json")


def test_a_missing_file_says_what_its_folder_is_not(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"has no note\.json, so it is no notebook$"):
        read(tmp_path / "note.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"a": 1, "a": 2}', "names a key twice"),
        (b"[NaN]", "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b"[1e999]", "not finite"),
        (b"[9223372036854775808]", "does not fit 64 bits"),
        (b"[" + b"9" * 5000 + b"]", "does not fit 64 bits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested too deeply"),
        (b'"\xff"', "not UTF-8"),
        (b'["\\ud800"]', "half a character"),
        (b"{", "not JSON"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    ],
)
def test_what_readers_of_json_differ_about_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


def test_every_kind_of_file_and_its_version_stand_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "records.md").read_text()
    told = dict(re.findall(r"^\| `([^`]+)` \| (\d+) \|", page, re.MULTILINE))
    assert told == {form.name: str(form.newest) for form in FORMATS}
