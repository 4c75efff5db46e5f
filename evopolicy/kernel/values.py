"""Bounded public values: what may cross from a Benchmark to an agent, into a record and back."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np

from evopolicy.kernel.errors import EvoPolicyError

Value: TypeAlias = None | bool | int | float | str | list[Any] | dict[str, Any]
"""A JSON value: None, bool, int (64 bits), finite float, str, list or dict with str keys."""


class ValueRefused(EvoPolicyError):
    """A value that is not public: wrong type, not finite, too deep or too large."""


@dataclass(frozen=True)
class Bounds:
    """How large one public value may be."""

    depth: int = 12
    """Levels of lists and dicts inside each other."""
    items: int = 100_000
    """Values in all, containers included."""
    text: int = 262_144
    """Characters of one string."""


_BOUNDS = Bounds()
_encoder = msgspec.json.Encoder(order="sorted")


def public(value: object, where: str = "value", bounds: Bounds = _BOUNDS) -> Value:
    """A plain copy of `value`: NumPy scalars and arrays become numbers and lists, tuples become
    lists.

    Raises ValueRefused, naming the path from `where`, for what is not public, not finite or over
    `bounds`."""
    count = [0]
    return _public(value, where, bounds, 0, count)


def _public(value: object, where: str, bounds: Bounds, depth: int, count: list[int]) -> Value:
    count[0] += 1
    if count[0] > bounds.items:
        raise ValueRefused(f"{where}: holds more than {bounds.items} values; leave some out")
    if depth > bounds.depth:
        raise ValueRefused(f"{where}: is nested deeper than {bounds.depth} levels")
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            # Not the number itself: Python refuses to print one of more than 4,300 digits.
            raise ValueRefused(
                f"{where}: an integer of {int(value).bit_length()} bits does not fit 64 bits"
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueRefused(f"{where}: {value} is not finite")
        return float(value)
    if isinstance(value, str):
        return _text(value, where, bounds)
    if isinstance(value, list | tuple):
        return [_public(v, f"{where}[{i}]", bounds, depth + 1, count) for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        members = ((_key(k, where, bounds), v) for k, v in value.items())
        return {k: _public(v, f"{where}.{k}", bounds, depth + 1, count) for k, v in members}
    raise ValueRefused(
        f"{where}: a {type(value).__name__} is not a public value (None, bool, int, float, str, "
        "list, dict)"
    )


def _text(value: str, where: str, bounds: Bounds) -> str:
    if len(value) > bounds.text:
        raise ValueRefused(
            f"{where}: the text has {len(value)} characters, at most {bounds.text} are allowed"
        )
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _key(key: object, where: str, bounds: Bounds) -> str:
    if isinstance(key, str):
        return _text(key, f"{where}: a key", bounds)
    raise ValueRefused(f"{where}: a key is a {type(key).__name__}, keys are strings")


def canonical_json(value: object) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces: equal values give equal bytes."""
    return _encoder.encode(public(value))


def digest(domain: str, value: object) -> str:
    """64 hex digits: SHA-256 over the domain tag and the canonical JSON of `value`."""
    text = domain.encode()
    return hashlib.sha256(len(text).to_bytes(8, "big") + text + canonical_json(value)).hexdigest()
