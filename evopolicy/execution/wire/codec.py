"""Observations and Actions as bytes, by their spaces: arrays as they lie in memory, everything else
as MessagePack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import le
from typing import Any

import numpy as np

from evopolicy.kernel import wire
from evopolicy.kernel.errors import InvalidAction
from evopolicy.kernel.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    cast_action,
)

# Below this an array is copied behind its head in one piece; above it is sent from where it lies.
_SMALL = 1 << 13
_FEW = 32
_DEEP = 16

Encoded = tuple[bytes, memoryview | None]
"""Body of a frame: its first bytes and, for a large array, the rest in place."""


class ObservationRefused(Exception):
    """What an Environment gave is no member of its observation space."""


# --- observations ---------------------------------------------------------------------------------


def observation_encoder(space: Space) -> Callable[[Any], Encoded]:
    """A function from an observation to the body of its frame. It raises ObservationRefused."""
    if isinstance(space, Box | MultiDiscrete | MultiBinary):
        return _array_encoder(space)
    plain = _plain(space)
    return lambda observation: (wire.encode(plain(observation)), None)


def _array_encoder(space: Box | MultiDiscrete | MultiBinary) -> Callable[[Any], Encoded]:
    dtype, shape = space.dtype, space.shape
    prefix = wire.array_prefix(dtype, shape)
    small = dtype.itemsize * int(np.prod(shape, dtype=np.int64)) <= _SMALL

    def encode(observation: Any) -> Encoded:
        array = _as_member(observation, dtype, shape)
        if small:
            return prefix + array.tobytes(), None
        return prefix, np.ascontiguousarray(array).data.cast("B")

    return encode


def _as_member(observation: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    try:
        array = np.asarray(observation, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ObservationRefused(f"an observation is not an array of {dtype}: {error}") from None
    if array.shape != shape:
        raise ObservationRefused(
            f"an observation has the shape {array.shape}, its space says {shape}"
        )
    return array


def _plain(space: Space) -> Callable[[Any], Any]:
    """A function from an observation to what MessagePack can hold of it."""
    match space:
        case Box() | MultiDiscrete() | MultiBinary():
            dtype, shape = space.dtype, space.shape
            return lambda value: _as_member(value, dtype, shape)
        case Discrete():
            return int
        case Text():
            return str
        case Dict():
            parts = {key: _plain(inner) for key, inner in space.spaces.items()}
            return lambda value: {key: part(_member(value, key)) for key, part in parts.items()}
        case Tuple():
            ordered = [_plain(inner) for inner in space.spaces]
            return lambda value: [part(_member(value, at)) for at, part in enumerate(ordered)]


def _member(value: Any, key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        raise ObservationRefused(f"an observation has no member {key!r}") from None


def observation_decoder(space: Space) -> Callable[[memoryview], Any]:
    """A function from a frame's body to what `act` is given: writable arrays, int, str, dict, tuple
    by the space."""
    if isinstance(space, Box | MultiDiscrete | MultiBinary):
        dtype, shape = space.dtype, space.shape
        start = len(wire.array_prefix(dtype, shape))
        if 0 in shape:
            return lambda _body: np.empty(shape, dtype)
        # The array owns its bytes: writable, aligned, and untouched by the next frame.
        return lambda body: np.ndarray(shape, dtype, bytearray(body[start:]))
    restore = _restorer(space)
    return lambda body: restore(wire.decode(body))


def _restorer(space: Space) -> Callable[[Any], Any]:
    match space:
        case Box() | MultiDiscrete() | MultiBinary():
            return np.array
        case Dict():
            parts = {key: _restorer(inner) for key, inner in space.spaces.items()}
            return lambda value: {key: part(value[key]) for key, part in parts.items()}
        case Tuple():
            ordered = [_restorer(inner) for inner in space.spaces]
            return lambda value: tuple(
                part(member) for part, member in zip(ordered, value, strict=True)
            )
        case _:
            return lambda value: value


# --- Actions --------------------------------------------------------------------------------------


def encode_action(action: Any, largest: int) -> bytes:
    """Any natural Python or NumPy spelling, as it is. Raises InvalidAction for others and above
    `largest` bytes.

    What is no array or number is copied first, counted as it is read: nothing an object says of
    itself is believed."""
    kind = type(action)
    if kind is np.ndarray and action.nbytes <= largest:
        try:
            return bytes(wire.array_prefix(action.dtype, action.shape) + action.tobytes())
        except TypeError:
            pass  # No array of numbers: it is read member by member.
    if kind is float or kind is bool:
        plain = action
    elif kind is int:
        plain = _whole(action)
    else:
        plain = _spelled(action, 0, [largest])
    if type(plain) is np.ndarray and plain.nbytes > largest:
        raise InvalidAction(f"an Action of {plain.nbytes} bytes; at most {largest} are allowed")
    try:
        body = wire.encode(plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidAction(f"an Action cannot be sent: {str(error)[:200]}") from None
    if len(body) > largest:
        raise InvalidAction(f"an Action of {len(body)} bytes; at most {largest} are allowed")
    return body


def _spelled(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if depth > _DEEP:
        raise InvalidAction(f"an Action is nested deeper than {_DEEP} levels")
    if left[0] < 0:
        raise InvalidAction("an Action holds more values than its space has room for")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _whole(int(value))
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.generic):
        return _spelled_generic(value)
    if isinstance(value, np.ndarray):
        return _spelled_array(np.asarray(value), depth, left)
    if isinstance(value, list | tuple):
        return [_spelled(member, depth + 1, left) for member in value]
    if isinstance(value, Mapping):
        return {_key(key): _spelled(member, depth + 1, left) for key, member in value.items()}
    return _converted(value, depth, left)


def _spelled_array(array: Any, depth: int, left: list[int]) -> Any:
    if array.dtype.kind in "biuf":
        left[0] -= array.size
        return array
    if array.dtype.kind == "U" and array.ndim == 0:
        return str(array)
    if array.dtype.kind == "O":
        return _spelled(array.tolist(), depth + 1, left)
    raise InvalidAction(f"expected numbers, found an array of {array.dtype}")


def _whole(value: int) -> int:
    if not -(2**63) <= value < 2**64:
        raise InvalidAction("an integer of an Action does not fit 64 bits")
    return value


def _spelled_generic(value: Any) -> Any:
    if value.dtype.kind not in "biufU":
        raise InvalidAction(f"expected a number, found {type(value).__name__}")
    return value.item()


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(key)
    raise InvalidAction(f"the keys of an Action are strings, found {type(key).__name__}")


def _converted(value: Any, depth: int, left: list[int]) -> Any:
    """What offers itself as an array (`__array__`) is taken at its word; the result is checked like
    any other."""
    if not hasattr(value, "__array__"):
        raise InvalidAction(
            f"expected numbers, lists, arrays, text or a dict, found {type(value).__name__}"
        )
    return _spelled_array(np.asarray(value), depth + 1, left)


def action_reader(space: Space, *, clip: bool) -> Callable[[bytes], tuple[Any, bool]]:
    """A function from a frame's body to (member of `space`, clipped). It raises InvalidAction and
    WireError."""

    def read(body: bytes) -> tuple[Any, bool]:
        return cast_action(space, wire.decode(body), clip=clip)

    if isinstance(space, Discrete):
        return _discrete_reader(space, read)
    if isinstance(space, Box) and space.dtype.kind == "f" and 0 not in space.shape:
        return _box_reader(space, read)
    return read


def _discrete_reader(
    space: Discrete, general: Callable[[bytes], Any]
) -> Callable[[bytes], tuple[Any, bool]]:
    first, last = space.start, space.start + space.n - 1

    def read(body: bytes) -> tuple[Any, bool]:
        if len(body) == 1 and body[0] < 128 and first <= body[0] <= last:
            return body[0], False
        return general(body)  # type: ignore[no-any-return]

    return read


def _box_reader(space: Box, general: Callable[[bytes], Any]) -> Callable[[bytes], tuple[Any, bool]]:
    """The usual Action, an array of the space's dtype or float64 inside finite bounds, is checked
    in three calls."""
    wanted, shape, low, high = space.dtype, space.shape, space.low, space.high
    usual = bool(np.isfinite(low).all() and np.isfinite(high).all())
    kinds = {wanted, np.dtype(np.float64)} if usual else set()
    known = {wire.array_prefix(dtype, shape): dtype for dtype in kinds}
    start = len(next(iter(known), b""))
    if any(len(prefix) != start for prefix in known):
        return general
    size, flat = low.size, len(shape) == 1
    lengths = {dtype: start + dtype.itemsize * size for dtype in kinds}
    lows, highs = low.ravel().tolist(), high.ravel().tolist()
    few = size <= _FEW

    def inside(array: Any) -> bool:
        # On a few numbers Python is faster than two comparisons of arrays. NaN is inside of
        # nothing.
        if few:
            numbers = array.tolist()
            return all(map(le, lows, numbers)) and all(map(le, numbers, highs))
        array = array.reshape(shape)
        return bool((low <= array).all() and (array <= high).all())

    def read(body: bytes) -> tuple[Any, bool]:
        dtype = known.get(body[:start])
        if dtype is not None and len(body) == lengths[dtype]:
            array = np.frombuffer(body, dtype, size, start)
            if inside(array):
                member = array.astype(wanted)
                return (member if flat else member.reshape(shape)), False
        return general(body)  # type: ignore[no-any-return]

    return read
