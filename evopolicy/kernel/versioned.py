"""JSON files that carry the version of their schema: read whole, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

import msgspec

from evopolicy.kernel.errors import ConfigError, RecordError

_T = TypeVar("_T")


def read_versioned(path: Path, kind: type[_T], schema: int, *, absent: str, remedy: str) -> _T:
    """The `kind` in the file `path`, whose 'schema' must be `schema`.

    Raises RecordError for a file that is missing (`absent` ends the sentence), corrupt (`remedy` ends it) or of another
    schema.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RecordError(f"{path.parent}: has no {path.name}, {absent}") from None
    except (ValueError, OSError) as error:
        raise RecordError(f"{path}: cannot be read ({error}); {remedy}") from None
    found = value.get("schema") if isinstance(value, dict) else None
    if found != schema:
        raise RecordError(f"{path}: schema {found!r} is unknown, this evopolicy reads schema {schema}")
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ConfigError) as error:
        raise RecordError(f"{path}: is corrupt ({error}); {remedy}") from None
