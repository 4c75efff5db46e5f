"""The files a Run or a sweep leaves: which kinds there are, the version of each, and how they are
read.

A file says its version in the key 'schema'; one of a kind that came without it is of version 1. A
newer version than this evopolicy knows is refused by name; an older one is brought up, step by
step, by the kind's `older`. The policy is docs/records.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.files.received import read_part

_T = TypeVar("_T")
SCHEMA_KEY = "schema"
_INTEGERS = 2**63
DEPTH = 64
"""Lists and objects within each other."""
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    name: str
    """Of the file; where it is of each line, of the lines' file."""
    newest: int
    """The version that is written now."""
    bytes: int
    """A larger file is none of this kind."""
    older: Mapping[int, Upgrade] = field(default_factory=dict)
    """By version, what turns a value of it into one of the next."""
    stated: bool = True
    """Whether every file of it says its version; else one that does not is of version 1."""

    def upgraded(self, value: dict[str, Any], where: str) -> dict[str, Any]:
        """`value` as the newest version has it. Raises RecordError for a version there is no reader
        of."""
        found = self.version(value, where)
        for version in range(found, self.newest):
            try:
                value = self.older[version](value)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise RecordError(
                    f"{where}: is corrupt as schema {version} ({type(error).__name__}: {error})"
                ) from None
        return value

    def version(self, value: Mapping[str, Any], where: str) -> int:
        """What `value` says it is of. Raises RecordError for one that this evopolicy does not
        read."""
        found = value.get(SCHEMA_KEY, None if self.stated else 1)
        if type(found) is not int or not (found == self.newest or found in self.older):
            known = (
                f"schema {self.newest}"
                if not self.older
                else f"schemas {min(self.older)} to {self.newest}"
            )
            newer = type(found) is int and found > self.newest
            hint = "; update evopolicy" if newer else ""
            raise RecordError(
                f"{where}: schema {_short(found)} is unknown, this evopolicy reads {known}{hint}"
            )
        return found


RECORD_FORMAT = Format("record.json", 1, 16 << 20)
SWEEP_FORMAT = Format("sweep.json", 1, 64 << 20)
JOURNAL_FORMAT = Format("journal.jsonl", 2, 256 << 20, {1: dict}, stated=False)
"""Of the lines from the one on that says it. Since 2 they say how an agent's clock stood, and when
a call waits."""
EPISODES_FORMAT = Format("outcomes.jsonl", 1, 512 << 20, stated=False)
"""Of each line; also of the files in `evaluations/`."""
FEEDBACK_FORMAT = Format("feedback.json", 1, 32 << 20, stated=False)
TRANSCRIPT_FORMAT = Format("transcript.json", 1, 256 << 20, stated=False)
PROXY_FORMAT = Format("proxy.jsonl", 1, 64 << 20, stated=False)
"""Of each line."""
LIVE_FORMAT = Format("live.json", 1, 1 << 20, stated=False)
JOB_FORMAT = Format("cells/NNNN.json", 1, 16 << 20, stated=False)
REGRADE_FORMAT = Format("asked.json", 1, 1 << 20, stated=False)
STORE_FORMAT = Format("mlflow.json", 1, 64 << 20)
DOWNLOAD_FORMAT = Format("download.json", 1, 1 << 20, stated=False)
FORMATS = (
    RECORD_FORMAT,
    SWEEP_FORMAT,
    JOURNAL_FORMAT,
    EPISODES_FORMAT,
    FEEDBACK_FORMAT,
    TRANSCRIPT_FORMAT,
    PROXY_FORMAT,
    LIVE_FORMAT,
    JOB_FORMAT,
    REGRADE_FORMAT,
    STORE_FORMAT,
    DOWNLOAD_FORMAT,
)
"""Every kind of file that is written to be read later, perhaps by another version."""


def read_versioned(path: Path, kind: type[_T], form: Format, *, absent: str, remedy: str) -> _T:
    """The `kind` in the file `path`, which is of `form`.

    Raises RecordError for a file that is missing (`absent` ends the sentence), corrupt (`remedy`
    ends it) or of a version that is not read here."""
    try:
        value = parse_object(read_part(path.parent, path.name, form.bytes))
    except FileNotFoundError:
        raise RecordError(f"{path.parent}: has no {path.name}, {absent}") from None
    except ValueError as error:
        raise RecordError(f"{path}: cannot be read ({error}); {remedy}") from None
    value = form.upgraded(value, str(path))
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ConfigError) as error:
        raise RecordError(f"{path}: is corrupt ({error}); {remedy}") from None


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object `data` is. Raises ValueError, as `parse` does, and for another value."""
    value = parse(data)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is needed, found {_NAMES.get(type(value), 'a number')}")
    return value


_NAMES = {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}


def parse(data: bytes) -> Any:
    """The JSON value `data` is, as every reader understands it.

    Raises ValueError, in a few words, for what is not JSON, not UTF-8, nested too deeply, and for
    what readers differ about: a key named twice, NaN and infinities, an integer beyond 64 bits,
    half a character."""
    try:
        text = data.decode()
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_number,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}") from None
    if text.count("{") + text.count("[") > DEPTH and _is_deep(value):
        raise ValueError("it is nested too deeply")
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text holds half a character") from None
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH):
        inner = [
            one.values() if isinstance(one, dict) else one
            for one in level
            if isinstance(one, dict | list)
        ]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object names a key twice")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _integer(text: str) -> int:
    if len(text) > 20 or not -_INTEGERS <= (value := int(text)) < _INTEGERS:
        raise ValueError("an integer does not fit 64 bits")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    return value


def _short(found: object) -> str:
    text = (
        repr(found) if isinstance(found, int | str | float | None) else f"a {type(found).__name__}"
    )
    return text if len(text) <= 40 else text[:37] + "..."
