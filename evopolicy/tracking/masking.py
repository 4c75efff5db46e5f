"""Keeping secrets out of what is logged: the Kernel's own rules, and every text under a key that names a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from evopolicy.kernel.secrets import MASK, MASKED_BYTES, Masker

_SECRET_KEY = re.compile(r"(^|_)(api_?key|access_?key|secret|token|password|passwd|credentials?)$", re.IGNORECASE)
_VARIABLE = re.compile(r"(^|_)variables?$")
"""Config keys that name variables of the environment."""
_LINE_BYTES = 16 << 20


def mask(value: Any, environment: Mapping[str, str] | None = None, names: Iterable[str] = ()) -> Any:
    """A copy of a JSON value without secrets.

    A text under a key that names a secret (`api_key`, `token`; not `secret_file`, which names where one lies) becomes
    `***`, and so does, anywhere, what `masker(names, environment)` replaces.
    """
    return masked_by(masker(names, environment), value)


def masked_by(by: Masker, value: Any) -> Any:
    """As `mask`, with a Masker that is there already."""
    return by.value(_without_named(value))


def masker(names: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> Masker:
    """Replaces the values of variables that are named like secrets or in `names`, and what looks like a key."""
    return Masker.of(os.environ if environment is None else environment, names)


def named_variables(config: Any) -> Iterator[str]:
    """The variables that a config names, under keys like `key_variable` and `variables`."""
    if isinstance(config, Mapping):
        for key, item in config.items():
            if _VARIABLE.search(str(key)):
                yield from (name for name in (item if isinstance(item, list | tuple) else [item]) if name)
            else:
                yield from named_variables(item)
    elif isinstance(config, list | tuple):
        for item in config:
            yield from named_variables(item)


def copy_masked(source: Path, target: Path, by: Masker) -> None:
    """Copy a file without its secrets; one above MASKED_BYTES line by line. Raises OSError."""
    if source.stat().st_size <= MASKED_BYTES:
        target.write_bytes(by.data(source.read_bytes()))
        return
    with source.open("rb") as read, target.open("wb") as write:
        while line := read.readline(_LINE_BYTES):
            write.write(by.data(line))


def _without_named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(item, str) and item and _SECRET_KEY.search(str(key)) else _without_named(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_named(item) for item in value]
    return value


def mask_uri(uri: str) -> str:
    """`uri` without user and password."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=f"{MASK}@{parts.netloc.rpartition('@')[2]}"))
