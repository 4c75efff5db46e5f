"""Spaces and named fields as text a person or an agent reads, and a worked Action of every
space."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from evopolicy.kernel.ports.benchmark import Field
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

_UNPACKED = 8
"""Up to so many named fields are unpacked into variables in the worked example, and rows of
numbered ones listed."""
_SHOWN = 200
"""Runs of bounds or characters that are listed."""
_GIVEN = "that `make_policy` is given in `context`"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, padded so that it reads well unrendered; columns that are empty in every
    row are left out."""
    shown = [i for i in range(len(header)) if any(row[i] for row in rows)]
    cells = [
        [" ".join(row[i].split()).replace("|", "\\|") for i in shown] for row in [header, *rows]
    ]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(shown))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def number(value: float) -> str:
    """A NumPy number so that its dtype reads the same again; any other with six significant
    digits."""
    if not isinstance(value, np.generic):
        return f"{value:.6g}"
    if value.dtype.kind != "f":
        return str(int(value))
    plain = not value or 1e-4 <= abs(value) < 1e16
    form = np.format_float_positional if plain else np.format_float_scientific
    return form(value + value.dtype.type(0), trim="-")  # -0.0 is 0


def bounds(low: float | None, high: float | None) -> str:
    """'-4.8 to 4.8', 'at least 0', 'any number'."""
    below = low is not None and np.isfinite(low)
    above = high is not None and np.isfinite(high)
    if below and above:
        return f"{number(low or 0.0)} to {number(high or 0.0)}"
    if below:
        return f"at least {number(low or 0.0)}"
    return f"at most {number(high or 0.0)}" if above else "any number"


def describe(space: Space) -> str:
    """One line that says what a member of `space` is in Python; `members` has what this line leaves
    out."""
    match space:
        case Box():
            kind = {"b": "booleans", "i": "integers", "u": "integers"}.get(
                space.dtype.kind, "numbers"
            )
            return (
                f"a NumPy array of shape `{space.shape}` and dtype `{space.dtype.name}`: "
                f"{kind}{_each(space)}"
            )
        case Discrete():
            return f"one integer, {space.start} to {space.start + space.n - 1}"
        case MultiDiscrete():
            return f"an array of shape `{space.shape}` of integers{_each(space)}"
        case MultiBinary():
            return f"an array of shape `{space.shape}` of zeros and ones"
        case Text():
            return _text(space)
        case Dict():
            return (
                f"a dict with the keys {', '.join(map(_key, space.spaces))}"
                if space.spaces
                else "an empty dict"
            )
        case Tuple():
            return f"a tuple of {len(space.spaces)}" if space.spaces else "an empty tuple"


def _each(space: Box | MultiDiscrete) -> str:
    ranges = _ranges(space)
    return (
        f", each {ranges[0][2]}"
        if len(ranges) == 1
        else ", with bounds of its own for each"
        if ranges
        else ""
    )


def _text(space: Text) -> str:
    low, high = space.min_length, space.max_length
    length = str(high) if low == high else f"{low} to {high}"
    such = f", such as {_code(space.examples[0])}" if space.examples else ""
    return f"a text of {length} characters{_letters(space.charset)}{such}"


def _letters(charset: str) -> str:
    if len(charset) <= _SHOWN:
        return f" out of {_code(charset)}" if charset else ""
    runs: list[list[int]] = []
    for code in sorted(map(ord, set(charset))):
        if runs and code == runs[-1][1] + 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    named = [
        _code(chr(a)) if a == b else f"{_code(chr(a))} to {_code(chr(b))}" for a, b in runs[:_SHOWN]
    ]
    more = f" and others, all in the `charset` of the space {_GIVEN}" if len(runs) > _SHOWN else ""
    return f" out of {', '.join(named)}{more}"


def _code(text: str) -> str:
    """`text` as Python writes it, in a span that no character of it ends, changes or breaks."""
    return f"`{_literal(text)}`".replace(" ", "\\x20")


def _literal(text: str) -> str:
    """As Python writes it, without the backticks that would end a span or block of code."""
    return repr(text).replace("`", "\\x60")


def _key(key: object) -> str:
    """A key or place as it is, where nothing in it could be misread."""
    return f"`{key}`" if re.fullmatch(r"[\w.-]+", str(key)) else _code(str(key))


def _ranges(space: Box | MultiDiscrete) -> list[tuple[int, int, str]]:
    """First and last number, row by row, of each run with the same bounds; and these."""
    if isinstance(space, Box):
        low, high = space.low.ravel(), space.high.ravel()
    else:
        low, high = np.zeros(space.nvec.size, np.int64), space.nvec.ravel() - 1
    if not low.size:
        return []
    starts = [0, *(np.flatnonzero((low[1:] != low[:-1]) | (high[1:] != high[:-1])) + 1).tolist()]
    return [
        (a, b - 1, bounds(low[a], high[a]))
        for a, b in zip(starts, [*starts[1:], low.size], strict=True)
    ]


def members(space: Space, depth: int = 0) -> list[str]:
    """Indented list items for what is inside a Dict or a Tuple, and for bounds that differ within
    an array."""
    indent = "  " * depth
    if isinstance(space, Box | MultiDiscrete):
        return [indent + line for line in _differing(space)]
    if not isinstance(space, Dict | Tuple):
        return []
    named = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
    lines = []
    for name, inner in named:
        lines.append(f"{indent}- {_key(name)}: {describe(inner)}")
        lines += members(inner, depth + 1)
    return lines


def _differing(space: Box | MultiDiscrete) -> list[str]:
    ranges = _ranges(space)
    if len(ranges) <= 1:
        return []
    places = [
        [str([int(i) for i in np.unravel_index(x, space.shape)]) for x in run[:2]]
        for run in ranges[:_SHOWN]
    ]
    lines = [
        f"- `{first}`: {text}" if first == last else f"- `{first}` to `{last}`, row by row: {text}"
        for (first, last), (_, _, text) in zip(places, ranges[:_SHOWN], strict=True)
    ]
    if len(ranges) > _SHOWN:
        names = "`low` and `high`" if isinstance(space, Box) else "`nvec`"
        lines.append(f"- and so on: all are in {names} of the space {_GIVEN}")
    return lines


def has_ranges(fields: Sequence[Field], space: Space) -> bool:
    """Whether `field_table` tells the bounds of every number of `space`."""
    return isinstance(space, Box) and 0 < len(fields) == space.low.size


def field_table(fields: Sequence[Field], space: Space | None = None) -> str:
    """A table of named fields; ranges a field does not give are those of `space`, where it has one
    per field."""
    rows = [
        [str(i), f"`{field.name}`", field.unit, _range(field, i, len(fields), space), field.meaning]
        for i, field in enumerate(fields, space.start if isinstance(space, Discrete) else 0)
    ]
    first = "value" if isinstance(space, Discrete) else "index"
    rows = [["", *row[1:]] for row in rows] if space is None or len(fields) == 1 else _joined(rows)
    return table([first, "name", "unit", "range", "meaning"], rows)


def _joined(rows: list[list[str]]) -> list[list[str]]:
    """`rows`, with one in place of several neighbours that differ only in the numbers of names
    nobody gave."""

    def kind(row: list[str]) -> object:
        numbered = re.fullmatch(r"`(.+?)(_\d+)+`", row[1])
        return (numbered[1], row[3]) if numbered and not row[2] and not row[4] else row[0]

    joined = []
    for _, group in groupby(rows, kind):
        alike = list(group)
        first, last = alike[0], alike[-1]
        one = [f"{first[0]} to {last[0]}", f"{first[1]} to {last[1]}", *first[2:]]
        joined += [one] if len(alike) > _UNPACKED else alike
    return joined


def _range(field: Field, index: int, count: int, space: Space | None) -> str:
    if isinstance(space, Discrete):
        return f"{space.start} to {space.start + space.n - 1}" if count == 1 else ""
    low, high = field.low, field.high
    if isinstance(space, Box) and space.low.size == count:
        low = space.low.flat[index] if low is None else low
        high = space.high.flat[index] if high is None else high
    elif low is None and high is None:
        return ""
    return bounds(low, high)


# --- the worked example ---------------------------------------------------------------------------


def action_expression(space: Space) -> str:
    """A Python expression (with `np`) whose value is a member of `space`: zeros where they are
    inside."""
    match space:
        case Box():
            return _box_expression(space)
        case Discrete():
            return str(space.start)
        case MultiDiscrete():
            return f"np.zeros({space.shape}, dtype=np.int64)"
        case MultiBinary():
            return f"np.zeros({space.shape}, dtype=np.int8)"
        case Text():
            letter, many = (space.charset or "a")[0], space.min_length
            return _literal(letter * many) if many <= 20 else f"{_literal(letter)} * {many}"
        case Dict():
            return (
                "{"
                + ", ".join(
                    f"{_literal(key)}: {action_expression(inner)}"
                    for key, inner in space.spaces.items()
                )
                + "}"
            )
        case Tuple():
            return (
                "("
                + "".join(f"{action_expression(inner)}, " for inner in space.spaces).rstrip()
                + ")"
            )


def _box_expression(space: Box) -> str:
    dtype = f"dtype=np.{space.dtype.name}"
    nearest = np.minimum(
        np.maximum(np.zeros(space.shape, dtype=space.dtype), space.low), space.high
    )
    if not nearest.any():
        small = len(space.shape) == 1 and space.shape[0] <= 4
        return (
            f"np.array({nearest.tolist()}, {dtype})"
            if small
            else f"np.zeros({space.shape}, {dtype})"
        )
    runs = _ranges(Box(nearest, nearest, space.shape, space.dtype))
    values = [nearest.flat[first].item() for first, _, _ in runs]
    if len(values) == 1:
        return f"np.full({space.shape}, {values[0]!r}, {dtype})"
    if nearest.size <= _SHOWN:
        return f"np.array({nearest.tolist()}, {dtype})"
    counts = [last - first + 1 for first, last, _ in runs]
    return f"np.repeat(np.array({values}, {dtype}), {counts}).reshape({space.shape})"


def observation_line(space: Space, fields: Sequence[Field]) -> str:
    """The first line of the worked `act`: the fields unpacked where they are few, else what the
    observation is."""
    names = [field.name for field in fields]
    plain = all(name.isidentifier() and not keyword.iskeyword(name) for name in names)
    distinct = len({*names, "self", "observation", "np"}) == len(names) + 3
    if names and isinstance(space, Box) and space.shape == (len(names),) and plain and distinct:
        few = 1 < len(names) <= _UNPACKED
        return f"{', '.join(names)} = observation" if few else f"{names[0]} = observation[0]"
    if isinstance(space, Dict) and space.spaces:
        key = next(iter(space.spaces))
        return f"part = observation[{_literal(key)}]"
    return f"# observation: {describe(space).replace('`', '')}"


def action_comment(space: Space) -> str:
    """What the worked Action is, as a comment beside it."""
    return describe(space).replace("`", "")
