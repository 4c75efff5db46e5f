"""Spaces and named fields as text a person or an agent reads, and a worked Action of every space."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Any

import numpy as np

from evopolicy.kernel.benchmark import Field
from evopolicy.kernel.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple

_UNPACKED = 8
"""Up to so many named fields are unpacked into variables in the worked example."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, padded so that it reads well unrendered; columns that are empty in every row are left out."""
    kept = [i for i in range(len(header)) if any(row[i] for row in rows)]
    cells = [[_cell(row[i]) for i in kept] for row in [header, *rows]]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(kept))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def number(value: float) -> str:
    """Six significant digits, without a trailing '.0'."""
    return f"{value:.6g}"


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
    """One line that says what a member of `space` is in Python."""
    match space:
        case Box():
            kind = "integers" if space.dtype.kind in "iu" else "numbers"
            if _uniform(space.low) and _uniform(space.high) and space.low.size:
                kind += f", each {bounds(float(space.low.flat[0]), float(space.high.flat[0]))}"
            return f"a NumPy array of shape `{space.shape}` and dtype `{space.dtype.name}`: {kind}"
        case Discrete():
            return f"one integer, {space.start} to {space.start + space.n - 1}"
        case MultiDiscrete():
            return f"an array of shape `{space.shape}` of integers from 0, each below `{space.nvec.tolist()}`"
        case MultiBinary():
            return f"an array of shape `{space.shape}` of zeros and ones"
        case Text():
            letters = f" out of `{space.charset}`" if space.charset else ""
            such = f", such as {space.examples[0]!r}" if space.examples else ""
            return f"a text of {space.min_length} to {space.max_length} characters{letters}{such}"
        case Dict():
            return f"a dict with the keys {', '.join(f'`{key}`' for key in space.spaces)}"
        case Tuple():
            return f"a tuple of {len(space.spaces)}"


def members(space: Space, depth: int = 0) -> list[str]:
    """Indented list items for what is inside a Dict or a Tuple; nothing for other spaces."""
    if not isinstance(space, Dict | Tuple):
        return []
    named = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
    lines = []
    for name, inner in named:
        lines.append(f"{'  ' * depth}- `{name}`: {describe(inner)}")
        lines += members(inner, depth + 1)
    return lines


def field_table(fields: Sequence[Field], space: Space | None = None) -> str:
    """A table of named fields; ranges a field does not give are those of `space`, where it has one per field."""
    rows = [
        [str(i), f"`{field.name}`", field.unit, _range(field, i, len(fields), space), field.meaning]
        for i, field in enumerate(fields, space.start if isinstance(space, Discrete) else 0)
    ]
    first = "value" if isinstance(space, Discrete) else "index"
    if space is None or len(fields) == 1:
        rows = [["", *row[1:]] for row in rows]
    return table([first, "name", "unit", "range", "meaning"], rows)


def _range(field: Field, index: int, count: int, space: Space | None) -> str:
    if isinstance(space, Discrete):
        return f"{space.start} to {space.start + space.n - 1}" if count == 1 else ""
    low, high = field.low, field.high
    if isinstance(space, Box) and space.low.size == count:
        low = float(space.low.flat[index]) if low is None else low
        high = float(space.high.flat[index]) if high is None else high
    elif low is None and high is None:
        return ""
    return bounds(low, high)


def _uniform(array: Any) -> bool:
    return bool(array.size and (array == array.flat[0]).all())


# --- the worked example ------------------------------------------------------------------------------------------


def action_expression(space: Space) -> str:
    """A Python expression (with `np`) whose value is a member of `space`: zeros where they are inside."""
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
            return repr((space.charset or "a")[0] * space.min_length)
        case Dict():
            return "{" + ", ".join(f"{key!r}: {action_expression(inner)}" for key, inner in space.spaces.items()) + "}"
        case Tuple():
            return "(" + "".join(f"{action_expression(inner)}, " for inner in space.spaces).rstrip() + ")"


def _box_expression(space: Box) -> str:
    dtype = f"dtype=np.{space.dtype.name}"
    nearest = np.clip(np.zeros(space.shape, dtype=space.dtype), space.low, space.high)
    if not nearest.size or not nearest.any():
        small = space.shape and len(space.shape) == 1 and space.shape[0] <= 4
        return f"np.array({nearest.tolist()}, {dtype})" if small else f"np.zeros({space.shape}, {dtype})"
    if _uniform(nearest):
        return f"np.full({space.shape}, {nearest.flat[0].item()!r}, {dtype})"
    return f"np.array({nearest.tolist()}, {dtype})"


def observation_line(space: Space, fields: Sequence[Field]) -> str:
    """The first line of the worked `act`: the fields unpacked where they are few, else what the observation is."""
    names = [field.name for field in fields]
    plain = all(name.isidentifier() and not keyword.iskeyword(name) for name in names)
    distinct = len({*names, "self", "observation", "np"}) == len(names) + 3
    if names and isinstance(space, Box) and space.shape == (len(names),) and plain and distinct:
        few = 1 < len(names) <= _UNPACKED
        return f"{', '.join(names)} = observation" if few else f"{names[0]} = observation[0]"
    if isinstance(space, Dict) and space.spaces:
        key = next(iter(space.spaces))
        return f"part = observation[{key!r}]"
    return f"# observation: {describe(space).replace('`', '')}"


def action_comment(space: Space) -> str:
    """What the worked Action is, as a comment beside it."""
    return describe(space).replace("`", "")
