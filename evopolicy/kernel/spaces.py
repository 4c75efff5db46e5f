"""Plain descriptions of Gymnasium's spaces, and the one check an Action passes.

A description has Gymnasium's attribute names (`shape`, `dtype`, `low`, `high`, `n`, `start`,
`nvec`, `spaces`) and needs only NumPy, so that a Policy is given the same object a Benchmark's
author wrote."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evopolicy.kernel.errors import BenchmarkError, InvalidAction


@dataclass(frozen=True, eq=False)
class Box:
    """A closed box of real numbers: `low <= x <= high` elementwise. Bounds may be infinite."""

    low: NDArray[Any]
    high: NDArray[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def sample(self, rng: np.random.Generator | None = None) -> NDArray[Any]:
        """Array: uniform where bounded, else normal or shifted exponential, as Gymnasium draws."""
        rng = _generator(rng)
        high = self.high if self.dtype.kind == "f" else self.high.astype("int64") + 1
        below, above = np.isfinite(self.low), np.isfinite(self.high)
        draw = np.empty(self.shape)
        free, both = ~below & ~above, below & above
        upper, lower = ~below & above, below & ~above
        draw[free] = rng.normal(size=free[free].shape)
        draw[lower] = rng.exponential(size=lower[lower].shape) + self.low[lower]
        draw[upper] = -rng.exponential(size=upper[upper].shape) + self.high[upper]
        draw[both] = rng.uniform(low=self.low[both], high=high[both], size=both[both].shape)
        return np.asarray(np.floor(draw) if self.dtype.kind in "biu" else draw).astype(self.dtype)


@dataclass(frozen=True)
class Discrete:
    """The integers `start ... start + n - 1`."""

    n: int
    start: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64)

    def sample(self, rng: np.random.Generator | None = None) -> int:
        return self.start + int(_generator(rng).integers(self.n))


@dataclass(frozen=True, eq=False)
class MultiDiscrete:
    """Array of integers, `0 <= x[i] < nvec[i]`."""

    nvec: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.nvec.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64)

    def sample(self, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
        return (_generator(rng).random(self.nvec.shape) * self.nvec).astype(np.int64)


@dataclass(frozen=True)
class MultiBinary:
    """Array of zeros and ones of `shape`, int8."""

    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int8)

    def sample(self, rng: np.random.Generator | None = None) -> NDArray[np.int8]:
        return _generator(rng).integers(0, 2, size=self.shape, dtype=np.int8)


@dataclass(frozen=True)
class Text:
    """A string of `min_length ... max_length` characters out of `charset` (empty: any).

    `examples` are members `sample` draws from, where most strings would mean nothing (sentences,
    names)."""

    max_length: int
    min_length: int = 0
    charset: str = ""
    examples: tuple[str, ...] = ()

    def sample(self, rng: np.random.Generator | None = None) -> str:
        rng = _generator(rng)
        if self.examples:
            return self.examples[int(rng.integers(len(self.examples)))]
        letters = self.charset or "abcdefghijklmnopqrstuvwxyz"
        length = int(rng.integers(self.min_length, self.max_length + 1))
        return "".join(letters[int(i)] for i in rng.integers(len(letters), size=length))


@dataclass(frozen=True)
class Dict:
    """A dict with exactly these keys."""

    spaces: Mapping[str, Space] = field(default_factory=dict)

    def sample(self, rng: np.random.Generator | None = None) -> dict[str, Any]:
        rng = _generator(rng)
        return {key: space.sample(rng) for key, space in self.spaces.items()}


@dataclass(frozen=True)
class Tuple:
    """A tuple with one member per space."""

    spaces: tuple[Space, ...] = ()

    def sample(self, rng: np.random.Generator | None = None) -> tuple[Any, ...]:
        rng = _generator(rng)
        return tuple(space.sample(rng) for space in self.spaces)


Space: TypeAlias = "Box | Discrete | MultiDiscrete | MultiBinary | Text | Dict | Tuple"


def box(
    low: float | NDArray[Any],
    high: float | NDArray[Any],
    shape: tuple[int, ...],
    dtype: str = "float32",
) -> Box:
    """A Box with scalar or array bounds, both stored as `dtype` holds them."""
    kind = np.dtype(dtype)
    return Box(_bound(low, shape, kind), _bound(high, shape, kind), tuple(shape), kind)


def _bound(
    bound: float | NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    array = np.array(np.broadcast_to(np.asarray(bound), shape), dtype=dtype)
    array.setflags(write=False)
    return array


def _generator(rng: np.random.Generator | None) -> np.random.Generator:
    """The given generator, else one drawn from `numpy.random`, which a Policy's process seeds from
    its policy seed."""
    return rng if rng is not None else np.random.default_rng(np.random.randint(2**31))


# --- plain values ---------------------------------------------------------------------------------


def to_value(space: Space) -> dict[str, Any]:
    """`space` as a public value; `from_value` turns it back."""
    match space:
        case Box():
            return {
                "type": "box",
                "low": _bound_value(space.low),
                "high": _bound_value(space.high),
                "shape": list(space.shape),
                "dtype": space.dtype.name,
            }
        case Discrete():
            return {"type": "discrete", "n": space.n, "start": space.start}
        case MultiDiscrete():
            return {"type": "multi_discrete", "nvec": space.nvec.tolist()}
        case MultiBinary():
            return {"type": "multi_binary", "shape": list(space.shape)}
        case Text():
            return {
                "type": "text",
                "max_length": space.max_length,
                "min_length": space.min_length,
                "charset": space.charset,
                **({"examples": list(space.examples)} if space.examples else {}),
            }
        case Dict():
            return {
                "type": "dict",
                "spaces": {key: to_value(inner) for key, inner in space.spaces.items()},
            }
        case Tuple():
            return {"type": "tuple", "spaces": [to_value(inner) for inner in space.spaces]}


def from_value(value: Mapping[str, Any]) -> Space:
    """The space that `to_value` described. Raises BenchmarkError for an unknown type."""
    match value["type"]:
        case "box":
            shape, dtype = tuple(value["shape"]), str(value["dtype"])
            return box(_bound_array(value["low"]), _bound_array(value["high"]), shape, dtype)
        case "discrete":
            return Discrete(value["n"], value["start"])
        case "multi_discrete":
            return MultiDiscrete(np.array(value["nvec"], dtype=np.int64))
        case "multi_binary":
            return MultiBinary(tuple(value["shape"]))
        case "text":
            return Text(
                value["max_length"],
                value["min_length"],
                value["charset"],
                tuple(value.get("examples", ())),
            )
        case "dict":
            return Dict({key: from_value(inner) for key, inner in value["spaces"].items()})
        case "tuple":
            return Tuple(tuple(from_value(inner) for inner in value["spaces"]))
    raise BenchmarkError(f"space type '{value['type']}' is unknown")


def _bound_value(bound: NDArray[Any]) -> Any:
    """One number where all are equal (an image's bounds would be 27,648 numbers), and infinities as
    text."""
    if bound.size and (bound == bound.flat[0]).all():
        return _number_value(bound.flat[0].item())
    return _map_nested(bound.tolist(), _number_value)


def _bound_array(value: Any) -> NDArray[Any]:
    return np.asarray(_map_nested(value, lambda x: float(x) if isinstance(x, str) else x))


def _number_value(x: float) -> float | str:
    return x if np.isfinite(x) else str(x)


def _map_nested(value: Any, function: Any) -> Any:
    return [_map_nested(v, function) for v in value] if isinstance(value, list) else function(value)


# --- Actions --------------------------------------------------------------------------------------


def cast_action(space: Space, action: Any, *, clip: bool = False) -> tuple[Any, bool]:
    """`(member, clipped)`: the member of `space` that `action` spells, as int, array, str, dict or
    tuple.

    Accepts any natural Python or NumPy spelling. Numbers are cast to the space's dtype and checked
    against the bounds as that dtype holds them. With `clip`, a finite Box value out of bounds is
    clipped and `clipped` is True. Raises InvalidAction, saying what was expected and found, for
    anything else; nothing is repaired."""
    match space:
        case Discrete():
            return _cast_discrete(space, action), False
        case Box():
            return _cast_box(space, action, clip)
        case MultiDiscrete() | MultiBinary():
            return _cast_counts(space, action), False
        case Text():
            return _cast_text(space, action), False
        case Dict():
            return _cast_dict(space, action, clip)
        case Tuple():
            return _cast_tuple(space, action, clip)


def _cast_discrete(space: Discrete, action: Any) -> int:
    array = _array(action, "an integer")
    last = space.start + space.n - 1
    if array.shape != () or array.dtype.kind not in "biuf":
        raise InvalidAction(
            f"expected an integer from {space.start} to {last}, found {_found(action)}"
        )
    number = array.item()
    if number != number or number in (float("inf"), float("-inf")) or int(number) != number:
        raise InvalidAction(f"expected an integer from {space.start} to {last}, found {number}")
    if not space.start <= int(number) <= last:
        raise InvalidAction(
            f"expected an integer from {space.start} to {last}, found {int(number)}"
        )
    return int(number)


def _cast_box(space: Box, action: Any, clip: bool) -> tuple[NDArray[Any], bool]:
    array = _numbers(space, action)
    if not np.isfinite(array).all():
        raise InvalidAction(f"expected finite numbers, found {_found(action)}")
    cast = _cast(array, space.dtype)
    inside = (cast >= space.low) & (cast <= space.high)
    if space.dtype.kind in "biu":
        inside &= (array >= space.low) & (
            array <= space.high
        )  # a number past the dtype's range has wrapped in `cast`
    clipped = not inside.all()
    if clipped and clip:
        # Clipped before it is cast: what the dtype cannot hold is out of bounds like any other.
        array = np.clip(array, space.low, space.high)
        cast = _cast(array, space.dtype)
    elif clipped:
        where = tuple(int(i) for i in np.argwhere(~inside)[0])
        bounds = f"[{space.low[where]}, {space.high[where]}]"
        raise InvalidAction(f"value {array[where]} at {list(where)} is outside {bounds}")
    if space.dtype.kind in "biu" and not (cast == array).all():
        raise InvalidAction(f"expected {space.dtype.name} values, found {_found(action)}")
    if not np.isfinite(cast).all():
        raise InvalidAction(
            f"expected numbers that {space.dtype.name} can hold, found {_found(action)}"
        )
    return cast, clipped


def _cast(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _cast_counts(space: MultiDiscrete | MultiBinary, action: Any) -> NDArray[Any]:
    array = _numbers(space, action)
    limit = space.nvec if isinstance(space, MultiDiscrete) else np.int64(2)
    if not np.isfinite(array.astype(np.float64)).all() or (np.floor(array) != array).any():
        raise InvalidAction(f"expected integers, found {_found(action)}")
    if ((array < 0) | (array >= limit)).any():
        raise InvalidAction(
            f"expected integers from 0 to below {limit.tolist()}, found {_found(action)}"
        )
    return array.astype(space.dtype)


def _cast_text(space: Text, action: Any) -> str:
    if not isinstance(action, str):
        raise InvalidAction(f"expected a text, found {_found(action)}")
    if not space.min_length <= len(action) <= space.max_length:
        raise InvalidAction(
            f"expected {space.min_length} to {space.max_length} characters, found {len(action)}"
        )
    if space.charset and not set(action) <= set(space.charset):
        raise InvalidAction(
            f"character {min(set(action) - set(space.charset))!r} is not in the space's charset"
        )
    return str(action)


def _cast_dict(space: Dict, action: Any, clip: bool) -> tuple[dict[str, Any], bool]:
    given = _entries(action)
    if given is None or set(given) != set(space.spaces):
        raise InvalidAction(
            f"expected a dict with the keys {sorted(space.spaces)}, found {_found(action)}"
        )
    members = {key: _inside(key, inner, given[key], clip) for key, inner in space.spaces.items()}
    return {key: member for key, (member, _) in members.items()}, any(
        c for _, c in members.values()
    )


def _entries(action: Any) -> dict[Any, Any] | None:
    """A plain dict of a Mapping's entries, read once; None for anything else, a Mapping that raises
    included."""
    try:
        return dict(action) if isinstance(action, Mapping) else None
    except Exception:
        return None


def _cast_tuple(space: Tuple, action: Any, clip: bool) -> tuple[tuple[Any, ...], bool]:
    if not isinstance(action, list | tuple) or len(action) != len(space.spaces):
        raise InvalidAction(f"expected a tuple of {len(space.spaces)}, found {_found(action)}")
    members = [
        _inside(str(i), inner, a, clip)
        for i, (inner, a) in enumerate(zip(space.spaces, action, strict=True))
    ]
    return tuple(member for member, _ in members), any(clipped for _, clipped in members)


def _inside(key: str, space: Space, action: Any, clip: bool) -> tuple[Any, bool]:
    try:
        return cast_action(space, action, clip=clip)
    except InvalidAction as error:
        raise InvalidAction(f"'{key}': {error}") from None


def _numbers(space: Box | MultiDiscrete | MultiBinary, action: Any) -> NDArray[Any]:
    array = _array(action, f"numbers of shape {space.shape}")
    if array.dtype.kind not in "biuf":
        raise InvalidAction(f"expected numbers of shape {space.shape}, found {_found(action)}")
    if array.shape != space.shape:
        raise InvalidAction(f"expected shape {space.shape}, found shape {array.shape}")
    return array


def _array(action: Any, expected: str) -> NDArray[Any]:
    try:
        if isinstance(action, list | tuple) and not _numbers_only(action):
            raise TypeError
        array = np.asarray(action)
    except Exception:
        raise InvalidAction(f"expected {expected}, found {_found(action)}") from None
    # Rounding a float is no loss; an integer of thousands of digits, which a longer one can hold,
    # is nobody's Action.
    return (
        _cast(array, np.dtype(np.float64))
        if array.dtype.kind == "f" and array.itemsize > 8
        else array
    )


def _numbers_only(values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether no text hides in nested lists: an array of texts is as wide as the longest, for each
    of them."""
    return all(
        _numbers_only(value)
        if isinstance(value, list | tuple)
        else not isinstance(value, str | bytes)
        for value in values
    )


def _found(action: Any) -> str:
    """A short description for a message: never the whole of a large or hostile value."""
    try:
        text = (
            f"of shape {action.shape}"
            if isinstance(action, np.ndarray) and action.size > 16
            else _REPR.repr(action)
        )
    except Exception:
        text = "(no repr)"
    return f"{type(action).__name__} {text[:120]}"


_REPR = reprlib.Repr()
_REPR.maxother = _REPR.maxstring = 100
