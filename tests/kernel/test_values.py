"""Public values: what may cross from a Benchmark to an agent and into a record."""

from __future__ import annotations

import enum
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evopolicy.kernel.values import Bounds, ValueRefused, canonical_json, digest, public

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


class Word(str):
    pass


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(2.5), 2.5),
        ((1, (2,)), [1, [2]]),
        (Word("w"), "w"),
        (Level.LOW, 1),
        ({"a": (np.int8(1), None)}, {"a": [1, None]}),
        ("lone \ud800", "lone ?"),
        ({"\ud800": 1}, {"?": 1}),
    ],
)
def test_natural_spellings_become_plain(value: object, plain: object) -> None:
    made = public(value)
    assert made == plain
    assert type(made) is type(plain)
    canonical_json(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "nan is not finite"),
        (math.inf, "inf is not finite"),
        (np.array([1.0, -np.inf]), r"value\[1\]: -inf is not finite"),
        (2**63, "an integer of 64 bits does not fit 64 bits"),
        (10**5_000, "does not fit 64 bits"),
        (b"bytes", "a bytes is not a public value"),
        ({1, 2}, "a set is not a public value"),
        (1j, "a complex is not a public value"),
        (Decimal(1), "a Decimal is not a public value"),
        (object(), "a object is not a public value"),
        ({1: 2}, "a key is a int, keys are strings"),
        ({"a": [{"b": math.nan}]}, r"value\.a\[0\]\.b: nan is not finite"),
        (np.array(["2020-01-01"], "datetime64[D]"), "a date is not a public value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_rest_is_refused_with_its_path(value: object, message: str) -> None:
    with pytest.raises(ValueRefused, match=message):
        public(value)


def test_bounds_hold() -> None:
    bounds = Bounds(depth=2, items=5, text=4)
    assert public([[1, 2], "abcd"], bounds=bounds) == [[1, 2], "abcd"]
    for value, message in (
        ([[[1]]], r"x\[0\]\[0\]\[0\]: is nested deeper than 2 levels"),
        ([1, 2, 3, 4, 5], "holds more than 5 values"),
        ("abcde", "the text has 5 characters, at most 4"),
        ({"abcde": 1}, "a key: the text has 5 characters"),
        (np.zeros(6), "holds more than 5 values"),
    ):
        with pytest.raises(ValueRefused, match=message):
            public(value, "x", bounds)


def test_a_value_inside_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueRefused, match="nested deeper"):
        public(loop)


@given(VALUES)
def test_public_is_the_identity_on_public_values(value: object) -> None:
    assert public(value) == value


@given(st.dictionaries(st.text("abcdef", min_size=1), VALUES, max_size=4), st.randoms())
def test_equal_values_have_equal_bytes_whatever_the_order(
    value: dict[str, object], random: object
) -> None:
    items = list(value.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert canonical_json(dict(items)) == canonical_json(value)


def test_digests_are_a_stable_contract_and_separated_by_domain() -> None:
    assert digest("a", {"b": 1}) == digest("a", {"b": np.int64(1)})
    assert digest("a", {"b": 1}) != digest("b", {"b": 1})
    assert digest("a", "bc") != digest('a"b', "c")
    assert (
        digest("evopolicy/benchmark/1", ["x", {}])
        == "36d932087714947a115ecd2536d6ad055f681eafa857beefacb62bb39fbff59e"
    )
