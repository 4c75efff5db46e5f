"""Keeping secrets out of what is logged: the Kernel's own rules, and every text under a key that
names a secret."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any

from evopolicy.kernel.secrecy.masking import Masking
from evopolicy.kernel.secrecy.secrets import MASK, Masker, is_secret_key

_VARIABLE = re.compile(r"(^|_)variables?$")
"""Config keys that name variables of the environment."""
_CHUNK = 1 << 20


def mask(
    value: Any, environment: Mapping[str, str] | None = None, names: Iterable[str] = ()
) -> Any:
    """A copy of a JSON value without secrets.

    A text under a key that names a secret (`api_key`, `token`; not `secret_file`, which names where
    one lies) becomes `***`, and so does, anywhere, what `masker(names, environment)` replaces."""
    return masked_by(masker(names, environment), value)


def masked_by(by: Masker, value: Any) -> Any:
    """As `mask`, with a Masker that is there already."""
    return by.value(_without_named(value))


def masker(names: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> Masker:
    """Replaces the values of variables that are named like secrets or in `names`, and what looks
    like a key."""
    return Masker.of(os.environ if environment is None else environment, names)


def named_variables(config: Any) -> Iterator[str]:
    """The variables that a config names, under keys like `key_variable` and `variables`."""
    if isinstance(config, Mapping):
        for key, item in config.items():
            if _VARIABLE.search(str(key)):
                yield from (
                    name for name in (item if isinstance(item, list | tuple) else [item]) if name
                )
            else:
                yield from named_variables(item)
    elif isinstance(config, list | tuple):
        for item in config:
            yield from named_variables(item)


def copy_masked(source: RawIOBase, target: Path, by: Masker, most: int = sys.maxsize) -> None:
    """Copy an open file of any size, the first `most` bytes of it, without its secrets. Raises
    OSError."""
    masking = Masking(by)
    with target.open("wb") as write:
        while data := source.read(min(_CHUNK, most)):
            most -= len(data)
            write.write(masking.feed(data))
        write.write(masking.end())


def _without_named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: MASK
            if isinstance(item, str) and item and is_secret_key(str(key))
            else _without_named(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_named(item) for item in value]
    return value
