"""Gymnasium's spaces as the kernel describes them, their members as plain values, and their columns
in a table."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evopolicy.kernel.errors import BenchmarkError
from evopolicy.kernel.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
)

FLAT_LIMIT = 512
"""A space of more numbers than this is no table, nor one with an array of three axes: its traces
are arrays."""
SENTENCE = 1_000
"""Characters of a member of a space of str that is no `Text`: such spaces have no length of their
own."""


def space_from_gymnasium(space: Any, where: str = "space") -> Space:
    """The plain description of a `gymnasium.spaces.Space`.

    Raises BenchmarkError, naming the kind and the place from `where`, for a kind or form the ABI
    does not carry."""
    from gymnasium import spaces

    match space:
        case spaces.Box():
            return _box(space, where)
        case spaces.Discrete():
            return Discrete(int(space.n), int(space.start))
        case spaces.MultiDiscrete():
            if np.any(space.start):
                raise BenchmarkError(
                    f"{where}: a MultiDiscrete with a start other than 0 is not supported; wrap it"
                )
            return MultiDiscrete(np.asarray(space.nvec, dtype=np.int64))
        case spaces.MultiBinary():
            return MultiBinary(tuple(int(n) for n in space.shape))
        case spaces.Text():
            return Text(int(space.max_length), int(space.min_length), str(space.characters))
        case spaces.Dict():
            for key in space.spaces:
                if not isinstance(key, str):
                    raise BenchmarkError(
                        f"{where}: the key {key!r} of a Dict is not a str; wrap it so that all "
                        "keys are"
                    )
            return Dict(
                {k: space_from_gymnasium(v, f"{where}.{k}") for k, v in space.spaces.items()}
            )
        case spaces.Tuple():
            return Tuple(
                tuple(space_from_gymnasium(v, f"{where}[{i}]") for i, v in enumerate(space.spaces))
            )
        case spaces.Space() if space.dtype is not None and space.dtype.kind == "U":
            return _sentences(space)
    raise BenchmarkError(
        f"{where}: the space kind {type(space).__name__} is not supported; wrap the Environment "
        "so that it uses Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict or Tuple"
    )


def _sentences(space: Any) -> Text:
    """A kind of its own whose members are texts, such as MiniGrid's missions; drawn from a copy
    with a seed."""
    own = copy.deepcopy(space)
    own.seed(0)
    return Text(SENTENCE, examples=tuple(sorted({str(own.sample()) for _ in range(16)})))


def _box(space: Any, where: str) -> Box:
    if space.dtype.kind not in "biuf":
        raise BenchmarkError(
            f"{where}: a Box of {space.dtype} is not supported; wrap it to integers or floats"
        )
    bounds = []
    for bound in (space.low, space.high):
        array = np.array(bound, dtype=space.dtype)
        array.setflags(write=False)
        bounds.append(array)
    return Box(bounds[0], bounds[1], tuple(int(n) for n in space.shape), np.dtype(space.dtype))


def member_of(space: Space) -> Callable[[Any], Any]:
    """A function that makes an Environment's observation the plain member of `space` a Policy is
    given.

    Arrays are copied, so that an Environment may reuse its buffer. Raises ValueError for whole
    numbers that are others once they are cast, and for a choice that is none."""
    match space:
        case Discrete():
            return partial(_choice, space.start, space.start + space.n)
        case Box() | MultiDiscrete() | MultiBinary():
            dtype = space.dtype
            return (
                partial(_whole, dtype)
                if dtype.kind in "biu"
                else lambda value: np.array(value, dtype=dtype)
            )
        case Text():
            return str
        case Dict():
            inner = {key: member_of(part) for key, part in space.spaces.items()}
            return lambda value: {key: convert(value[key]) for key, convert in inner.items()}
        case Tuple():
            parts = [member_of(part) for part in space.spaces]
            return lambda value: tuple(
                convert(item) for convert, item in zip(parts, value, strict=True)
            )


def _choice(start: int, stop: int, value: Any) -> int:
    number = int(value)
    if number != value or not start <= number < stop:
        raise ValueError(f"expected an int from {start} to {stop - 1}, found {value!r:.80}")
    return number


def _whole(dtype: np.dtype[Any], value: Any) -> NDArray[Any]:
    given = np.asarray(value)
    array = np.array(given, dtype=dtype)
    if given.dtype != dtype and not np.array_equal(given, array):
        raise ValueError(f"an array of {given.dtype} changes when it is cast to {dtype}")
    return array


def own_action(space: Any) -> Callable[[Any], Any] | None:
    """A function that gives an Action the dtypes of the Environment's own `space`; None where it
    has them already.

    The plain spaces have one dtype for all MultiDiscrete and MultiBinary; an Environment may know
    another."""
    from gymnasium import spaces

    match space:
        case spaces.MultiDiscrete() | spaces.MultiBinary():
            dtype = space.dtype
            plain = np.int64 if isinstance(space, spaces.MultiDiscrete) else np.int8
            return None if dtype == plain else lambda action: action.astype(dtype)
        case spaces.Dict():
            inner = {
                key: change for key, part in space.spaces.items() if (change := own_action(part))
            }
            if inner:
                return lambda action: (
                    action | {key: change(action[key]) for key, change in inner.items()}
                )
        case spaces.Tuple():
            parts = [own_action(part) for part in space.spaces]
            if any(parts):
                return lambda action: tuple(
                    change(a) if change else a for change, a in zip(parts, action, strict=True)
                )
    return None


def misfit(space: Space, raw: Any) -> tuple[str, str]:
    """Why `raw`, as an Environment gives it, is no member of `space`, or ''; and a remark on one
    that may pass, or ''.

    What is cast without a loss passes, and what lies outside the bounds of floats: they are often
    declared carelessly."""
    match space:
        case Dict():
            if not isinstance(raw, Mapping) or not set(space.spaces) <= set(raw):
                return (
                    f"expected a dict with the keys {sorted(space.spaces)}, found {raw!r:.80}",
                    "",
                )
            parts = [(key, misfit(part, raw[key])) for key, part in space.spaces.items()]
        case Tuple():
            if not isinstance(raw, tuple | list) or len(raw) != len(space.spaces):
                return f"expected a tuple of {len(space.spaces)}, found {raw!r:.80}", ""
            pairs = zip(space.spaces, raw, strict=True)
            parts = [(str(i), misfit(part, item)) for i, (part, item) in enumerate(pairs)]
        case _:
            return _misfit(space, raw)
    fault = next((f"'{key}': {fault}" for key, (fault, _) in parts if fault), "")
    return fault, next((note for _, (_, note) in parts if note), "")


def _misfit(space: Space, raw: Any) -> tuple[str, str]:
    if isinstance(space, Text) != isinstance(raw, str):
        return (
            f"expected {'a str' if isinstance(space, Text) else 'numbers'}, found "
            f"{type(raw).__name__} {raw!r:.40}",
            "",
        )
    try:
        value = member_of(space)(raw)
    except (TypeError, ValueError, OverflowError) as error:
        return f"{type(raw).__name__} {raw!r:.80}: {error}", ""
    if isinstance(space, Box) and space.dtype.kind == "f" and value.shape == space.shape:
        if np.isnan(value).any():
            return "it holds NaN", ""
        outside = (value < space.low) | (value > space.high)
        note = (
            f"Some numbers lie outside these bounds: {value[outside][0]:g} was seen."
            if outside.any()
            else ""
        )
        return "", note
    return belongs(space, value), ""


def belongs(space: Space, value: Any) -> str:
    """Why `value` is no member of `space` as the wire gives it (right type, shape, dtype, bounds),
    or ''."""
    match space:
        case Discrete():
            good = isinstance(value, int) and space.start <= value < space.start + space.n
            return (
                ""
                if good
                else f"expected an int from {space.start} to {space.start + space.n - 1}, found "
                f"{value!r}"
            )
        case Box() | MultiDiscrete() | MultiBinary():
            return _array_belongs(space, value)
        case Text():
            good = isinstance(value, str) and space.min_length <= len(value) <= space.max_length
            return (
                ""
                if good
                else f"expected a str of at most {space.max_length} characters, found {value!r:.80}"
            )
        case Dict():
            if not isinstance(value, dict) or set(value) != set(space.spaces):
                return f"expected a dict with the keys {sorted(space.spaces)}, found {value!r:.80}"
            faults = ((key, belongs(part, value[key])) for key, part in space.spaces.items())
        case Tuple():
            if not isinstance(value, tuple) or len(value) != len(space.spaces):
                return f"expected a tuple of {len(space.spaces)}, found {value!r:.80}"
            faults = (
                (str(i), belongs(part, v))
                for i, (part, v) in enumerate(zip(space.spaces, value, strict=True))
            )
    return next((f"'{key}': {fault}" for key, fault in faults if fault), "")


def _array_belongs(space: Box | MultiDiscrete | MultiBinary, value: Any) -> str:
    if (
        not isinstance(value, np.ndarray)
        or value.shape != space.shape
        or value.dtype != space.dtype
    ):
        found = (
            f"{value.dtype} {value.shape}"
            if isinstance(value, np.ndarray)
            else type(value).__name__
        )
        return f"expected an array of {space.dtype} {space.shape}, found {found}"
    if isinstance(space, Box):
        inside = (value >= space.low) & (value <= space.high)
    else:
        inside = (value >= 0) & (value < (space.nvec if isinstance(space, MultiDiscrete) else 2))
    return (
        ""
        if bool(inside.all())
        else f"expected values inside the bounds, found {np.asarray(value)[~inside][:3]}"
    )


def column_names(space: Space, prefix: str) -> list[str] | None:
    """One name per number of `space`, in the order of `flatten`; None where it is no table (text,
    images, grids)."""
    names = list(_names(space, prefix))
    return names if len(names) <= FLAT_LIMIT and None not in names else None


def _names(space: Space, prefix: str) -> Iterator[Any]:
    match space:
        case Discrete():
            yield prefix
        case Text():
            yield None
        case Dict():
            for key, part in space.spaces.items():
                yield from _names(part, f"{prefix}_{key}")
        case Tuple():
            for i, part in enumerate(space.spaces):
                yield from _names(part, f"{prefix}_{i}")
        case Box() | MultiDiscrete() | MultiBinary():
            size = int(np.prod(space.shape, dtype=np.int64))
            if size > FLAT_LIMIT or len(space.shape) > 2:
                yield None
            elif size == 1:
                yield prefix
            else:
                yield from (
                    "_".join([prefix, *map(str, index)]) for index in np.ndindex(*space.shape)
                )


def flatten(space: Space, value: Any) -> list[Any]:
    """The numbers of a member of `space`, as `column_names` names them; a trace's lists stand for
    tuples."""
    match space:
        case Dict():
            return [x for key, part in space.spaces.items() for x in flatten(part, value[key])]
        case Tuple():
            return [
                x
                for part, item in zip(space.spaces, value, strict=True)
                for x in flatten(part, item)
            ]
        case Box() | MultiDiscrete() | MultiBinary():
            return list(np.asarray(value).ravel().tolist())
    return [value]
