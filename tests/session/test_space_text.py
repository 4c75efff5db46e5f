"""What TASK.md says of a space, over generated ones: all that membership tests, and an example that
is a member."""

from __future__ import annotations

import math
import re
from ast import literal_eval
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicy.authoring.spaces import column_names
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
    box,
    cast_action,
)
from tests.session.test_task_text import SPEC, form, text_of, worked_example

LETTERS = st.characters() | st.sampled_from("`'\"\\ \n\r\t|#-")
KEYS = st.text(LETTERS, min_size=1, max_size=4)


def boxes(dtype: str, numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Space]:
    def of(shape: tuple[int, ...]) -> st.SearchStrategy[Space]:
        size = math.prod(shape)
        values = st.lists(st.sampled_from([0.0, 1.0]) | numbers, min_size=1, max_size=3)
        several = values.map(
            lambda v: np.repeat(np.array(v, dtype), -(-size // len(v)))[:size].reshape(shape)
        )
        return st.tuples(several, several).map(
            lambda b: box(np.minimum(*b), np.maximum(*b), shape, dtype)
        )

    return st.sampled_from([(), (1,), (3,), (2, 2), (11,), (601,)]).flatmap(of)


LEAVES = (
    boxes("float32", st.floats(width=32, allow_nan=False))
    | boxes("float64", st.floats(allow_nan=False))
    | boxes("int64", st.integers(-(2**63), 2**63 - 1))
    | boxes("uint8", st.integers(0, 255))
    | boxes("bool", st.booleans())
    | st.builds(Discrete, st.integers(1, 9), st.integers(-5, 5))
    | st.lists(st.integers(1, 3), min_size=1, max_size=12).map(lambda n: MultiDiscrete(np.array(n)))
    | st.builds(MultiBinary, st.sampled_from([(4,), (2, 3)]))
    | st.builds(
        lambda low, more, letters: Text(low + more, low, letters),
        st.integers(0, 30),
        st.integers(0, 9),
        KEYS,
    )
)
GENERATED = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=3).map(Dict)
        | st.lists(inner, max_size=3).map(lambda s: Tuple(tuple(s)))
    ),
    max_leaves=4,
)


def read_bounds(said: str, kind: np.dtype[Any]) -> tuple[Any, Any]:
    """'0 to 4', 'at least 0', 'at most 2' or 'any number' as `kind` reads it."""
    found = re.fullmatch(r"(?:(\S+) to (\S+)|at least (\S+)|at most (\S+)|any number)", said)
    assert found, said
    low, high = found[1] or found[3] or "-inf", found[2] or found[4] or "inf"
    if kind.kind == "f":
        return np.array([low, high]).astype(kind)  # type: ignore[return-value]
    return np.array([int(low), int(high)], kind)  # type: ignore[return-value]


def read_array(
    said: str, below: list[str], shape: tuple[int, ...], kind: np.dtype[Any]
) -> list[Any]:
    """The lowest and highest array: from the line, or from the list or table `below` it."""
    low, high = np.zeros(shape, kind), np.zeros(shape, kind)
    if said:
        low[...], high[...] = read_bounds(said, kind)
    for line in below:
        found = re.fullmatch(r"\s*- `\[([^]]*)\]`(?: to `\[([^]]*)\]`, row by row)?: (.*)", line)
        found = found or re.fullmatch(r"\| (\d+)(?: to (\d+))?\s*\| `.*` +\| (.*?) *\|", line)
        if found:
            first, last = (
                np.ravel_multi_index(
                    [int(i) for i in place.split(",")], (low.size,) if line[0] == "|" else shape
                )
                for place in (found[1], found[2] or found[1])
            )
            low.flat[first : last + 1], high.flat[first : last + 1] = read_bounds(found[3], kind)
    return [low.tolist(), high.tolist()]


def read_space(said: str, below: list[str]) -> Any:
    """What membership of a space tests, as read from a line that describes one and the lines below
    it."""
    if found := re.fullmatch(
        r"a NumPy array of shape `(.*?)` and dtype `(.*?)`: \w+, (?:each (.*)|with .*)", said
    ):
        return (
            found[1],
            found[2],
            read_array(found[3], below, literal_eval(found[1]), np.dtype(found[2])),
        )
    if found := re.fullmatch(r"an array of shape `(.*?)` of integers, (?:each (.*)|with .*)", said):
        return found[1], read_array(found[2], below, literal_eval(found[1]), np.dtype(np.int64))
    if found := re.fullmatch(r"one integer, (\S+) to (\S+)", said):
        return int(found[1]), int(found[2])
    if found := re.fullmatch(r"a text of (\d+)(?: to (\d+))? characters out of `(.*)`", said):
        return int(found[1]), int(found[2] or found[1]), set(literal_eval(found[3]))
    if found := re.fullmatch(r"an array of shape `(.*)` of zeros and ones", said):
        return found[1]
    starts = [i for i, line in enumerate(below) if re.match("- `", line)]
    parts = {}
    for start, stop in zip(starts, [*starts[1:], len(below)], strict=False):
        found = re.fullmatch(r"- `(.*?)`: (.*)", below[start])
        assert found
        key = literal_eval(found[1]) if found[1][0] in "'\"" else found[1]
        parts[key] = read_space(found[2], [line[2:] for line in below[start + 1 : stop]])
    assert said in (
        "an empty dict",
        "an empty tuple",
        f"a tuple of {len(parts)}",
    ) or said.startswith("a dict with the")
    return parts


def told(space: Space) -> Any:
    """What `read_space` ought to find."""
    match space:
        case Box():
            return str(space.shape), space.dtype.name, [space.low.tolist(), space.high.tolist()]
        case MultiDiscrete():
            return str(space.shape), [
                np.zeros(space.shape, int).tolist(),
                (space.nvec - 1).tolist(),
            ]
        case Discrete():
            return space.start, space.start + space.n - 1
        case Text():
            return space.min_length, space.max_length, set(space.charset)
        case MultiBinary():
            return str(space.shape)
        case Dict():
            return {key: told(part) for key, part in space.spaces.items()}
        case Tuple():
            return {str(i): told(part) for i, part in enumerate(space.spaces)}


@settings(max_examples=50)
@given(GENERATED, st.booleans())
def test_the_text_has_every_fact_that_membership_tests_and_an_example_that_is_a_member(
    space: Space, named: bool
) -> None:
    """Bounds inside of dicts and of long arrays were left out, and then held against the agent."""
    names = column_names(space, "action") if named else None
    text = text_of(
        replace(
            SPEC, action_space=space, action_fields=tuple(map(Field, names or ())), action_text=""
        )
    )
    section = text.partition("## What the Policy answers\n\nAn Action is ")[2].partition(
        "\n\nAny natural"
    )[0]
    said, _, below = section.partition("\n\n")
    assert read_space(" ".join(said.split()).removesuffix("."), below.splitlines()) == told(space)
    if not isinstance(space, Dict | Tuple):
        assert len(below.splitlines()) < 32, "no row for each of many numbers that are alike"
    policy = worked_example(
        replace(SPEC, action_space=space, action_fields=(), observation_space=space)
    )
    member, clipped = cast_action(space, policy.act(space.sample(np.random.default_rng(0))))
    assert form(member) == form(space.sample(np.random.default_rng(0)))
    assert not clipped
