"""Spaces: which Actions are members, and descriptions that survive the way to a Policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evopolicy.kernel.errors import BenchmarkError, InvalidAction
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
    from_value,
    to_value,
)
from evopolicy.kernel.values import public

UNIT = box(-1, 1, (2,))
BYTES = box(0, 255, (2,), "uint8")
GRID = MultiDiscrete(np.array([2, 3]))


class Offers:
    """Anything a library may hand out that offers itself as an array."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


class Liar(Mapping[str, Any]):
    """A mapping whose members raise."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no")


# --- accepted -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "action", "member"),
    [
        (Discrete(3), 2, 2),
        (Discrete(3), True, 1),
        (Discrete(3), 2.0, 2),
        (Discrete(3), np.int64(2), 2),
        (Discrete(3), np.uint8(2), 2),
        (Discrete(3), np.bool_(False), 0),
        (Discrete(3), np.float32(1), 1),
        (Discrete(3), np.array(1), 1),
        (Discrete(3, start=-1), -1, -1),
        (Discrete(3), Offers(np.array(1)), 1),
        (UNIT, [0.5, -1], [0.5, -1]),
        (UNIT, (0, 1), [0, 1]),
        (UNIT, np.array([0.25, 0.5]), [0.25, 0.5]),
        (UNIT, np.array([1, 0], np.int8), [1, 0]),
        (UNIT, [True, np.float64(0.5)], [1, 0.5]),
        (UNIT, Offers(np.array([0.0, 0.0])), [0, 0]),
        (box(-1, 1, ()), 0.5, 0.5),
        (box(-np.inf, np.inf, (1,)), [1e30], [np.float32(1e30)]),
        (BYTES, [0, 255.0], [0, 255]),
        (GRID, [1, 2], [1, 2]),
        (GRID, np.array([1.0, 0.0]), [1, 0]),
        (MultiBinary((2,)), [True, 0], [1, 0]),
        (Text(3, 1, "ab"), "aba", "aba"),
        (Text(3), np.str_("xyz"), "xyz"),
        (Dict({"a": Discrete(2), "b": UNIT}), {"b": [0, 0], "a": 1}, {"a": 1, "b": [0, 0]}),
        (Tuple((Discrete(2), Text(2))), [1, "x"], (1, "x")),
    ],
)
def test_natural_spellings_are_members(space: Space, action: Any, member: Any) -> None:
    cast, clipped = cast_action(space, action)
    assert not clipped
    assert public(cast) == public(_as(space, member))
    if isinstance(space, Box | MultiDiscrete | MultiBinary):
        assert cast.dtype == space.dtype
        assert cast.shape == space.shape
    else:
        assert type(cast) in (int, str, dict, tuple)


def _as(space: Space, member: Any) -> Any:
    return (
        np.array(member, space.dtype)
        if isinstance(space, Box | MultiDiscrete | MultiBinary)
        else member
    )


def test_bounds_are_checked_as_the_dtype_holds_them() -> None:
    tenth = box(-0.1, 0.1, (1,))
    assert np.float64(np.float32(0.1)) > 0.1
    assert cast_action(tenth, [np.float64(np.float32(0.1))])[0] == np.float32(0.1)
    assert cast_action(tenth, [0.1 + 1e-10])[0] == np.float32(0.1), "rounds to the bound"
    with pytest.raises(InvalidAction, match="is outside"):
        cast_action(tenth, [0.1 + 1e-7])


def test_rounding_a_float_is_no_loss_but_cutting_one_to_an_int_is() -> None:
    assert cast_action(box(0, 1, (1,)), [1 / 3])[0] == np.float32(1 / 3)
    with pytest.raises(InvalidAction, match="expected uint8 values"):
        cast_action(BYTES, [0.5, 1])


# --- refused --------------------------------------------------------------------------------------

DEEP: list[Any] = []
for _ in range(100):
    DEEP = [DEEP]
LOOP: list[Any] = []
LOOP.append(LOOP)


NO_MEMBERS = [
    (Discrete(3), [
        3, -1, 1.5, np.nan, np.inf, None, "1", b"1", [1], np.array([1]), {}, 2**70, -(2**63), 10**5_000, 1j, object(),
        LOOP, DEEP, Offers(ValueError("no")), Offers(np.array([1])), Offers("x"), Silent(), np.datetime64("2020"),
    ]),
    (UNIT, [
        [0], [0, 0, 0], 0.5, [[0, 0]], [np.nan, 0], [np.inf, 0], [0, "a"], ["0", "0"], None, [None, 0], [1j, 0],
        [0, [0]], {"a": 0}, b"ab", "ab", LOOP, [LOOP, 0], DEEP, Offers(np.zeros(3)), Offers(RuntimeError("no")),
        Offers(np.array([object(), 0])), np.zeros((0, 2)), [2**70, 0], np.array(["2020", "2021"], "datetime64[Y]"),
    ]),
    (BYTES, [[0.5, 0], [np.nan, 0], [2**70, 0], ["1", "2"]]),
    (box(-np.inf, np.inf, (1,)), [[1e39], [np.inf]]),
    (GRID, [[2, 0], [0, 3], [-1, 0], [0.5, 0], [0], [np.inf, 0], [np.nan, 0], "ab", [1j, 0]]),
    (MultiBinary((2,)), [[2, 0], [0.5, 1], 1, [[0, 1]], [-1, 0]]),
    (Text(3, 1, "ab"), ["", "abab", "c", 1, b"a", ["a"], None]),
    (Dict({"a": Discrete(2)}), [{}, {"a": 2}, {"a": 0, "b": 0}, {"b": 0}, [0], None, 0, {1: 0}, Liar()]),
    (Tuple((Discrete(2), Discrete(2))), [[0], [0, 2], [0, 0, 0], None, "00", {0: 0, 1: 0}]),
]  # fmt: skip
OUT_OF_BOUNDS = [
    (UNIT, [[0, 1.01], [0, -2], [1e39, 0], [2**62, 0]]),
    (BYTES, [[256, 0], [-1, 0], [1e30, 0], [2**63, 0]]),
]


def cases(table: list[Any]) -> list[Any]:
    return [
        pytest.param(space, action, id=f"{type(space).__name__}-{number}")
        for space, actions in table
        for number, action in enumerate(actions)
    ]


@pytest.mark.parametrize(("space", "action"), cases(NO_MEMBERS))
@pytest.mark.parametrize("clip", [False, True])
def test_everything_else_is_refused_in_a_short_sentence(
    space: Space, action: Any, clip: bool
) -> None:
    with pytest.raises(InvalidAction, match=r"expected|character") as caught:
        cast_action(space, action, clip=clip)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("space", "action"), cases(OUT_OF_BOUNDS))
def test_out_of_bounds_is_refused_with_place_and_bounds(space: Space, action: Any) -> None:
    with pytest.raises(InvalidAction, match=r"value \S+ at \[\d\] is outside \["):
        cast_action(space, action)
    assert cast_action(space, action, clip=True)[1]


def test_a_message_never_holds_a_large_value() -> None:
    for action in (
        list(range(1_000_000)),
        "x" * 1_000_000,
        np.zeros(1_000_000),
        {str(n): n for n in range(100_000)},
    ):
        with pytest.raises(InvalidAction) as caught:
            cast_action(UNIT, action)
        assert len(str(caught.value)) < 300


def test_a_message_says_where_in_a_nested_action() -> None:
    space = Dict({"arm": Tuple((Discrete(2), UNIT))})
    with pytest.raises(
        InvalidAction, match=r"'arm': '1': value 3 at \[1\] is outside \[-1\.0, 1\.0\]"
    ):
        cast_action(space, {"arm": [0, [0, 3]]})


# --- clip -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "action", "member", "clipped"),
    [
        (UNIT, [0, 3], [0, 1], True),
        (UNIT, [-7, 0.5], [-1, 0.5], True),
        (UNIT, [0, 1], [0, 1], False),
        (UNIT, [1e39, 0], [1, 0], True),
        (BYTES, [300, -5], [255, 0], True),
        (BYTES, [1e30, 3], [255, 3], True),
        (Dict({"a": UNIT, "b": Discrete(2)}), {"a": [2, 0], "b": 1}, {"a": [1, 0], "b": 1}, True),
        (Tuple((Discrete(2), UNIT)), (0, [0, -9]), (0, [0, -1]), True),
    ],
)
def test_clip_moves_finite_box_values_to_their_bounds_and_says_so(
    space: Space, action: Any, member: Any, clipped: bool
) -> None:
    cast, was = cast_action(space, action, clip=True)
    assert (public(cast), was) == (public(member), clipped)
    if isinstance(space, Box):
        assert cast.dtype == space.dtype


@pytest.mark.parametrize("action", [[np.nan, 0], [np.inf, 0], [-np.inf, 5]])
def test_clip_never_mends_what_is_not_finite(action: Any) -> None:
    with pytest.raises(InvalidAction, match="expected finite numbers"):
        cast_action(UNIT, action, clip=True)


def test_clip_never_rounds_to_an_integer_space() -> None:
    with pytest.raises(InvalidAction, match="expected uint8 values"):
        cast_action(BYTES, [300, 0.5], clip=True)


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=2))
def test_a_cast_action_is_a_member_and_casts_to_itself(action: list[float]) -> None:
    cast, _ = cast_action(UNIT, action, clip=True)
    again, clipped = cast_action(UNIT, cast)
    assert (again == cast).all()
    assert not clipped


def test_an_action_is_copied_before_it_can_be_changed() -> None:
    action = np.zeros(2, np.float32)
    cast, _ = cast_action(UNIT, action)
    action[:] = 9
    assert (cast == 0).all()


# --- plain values ---------------------------------------------------------------------------------

SPACES: list[Space] = [
    UNIT,
    BYTES,
    box(np.array([-np.inf, 0.0]), np.array([1.5, np.inf]), (2,), "float64"),
    box(-np.inf, np.inf, (3,)),
    box(0, 255, (4, 4, 3), "uint8"),
    box(-(2**63), 2**63 - 1, (1,), "int64"),
    box(0, 1, ()),
    box(0, 1, (0,)),
    Discrete(4, -2),
    GRID,
    MultiBinary((2, 3)),
    Text(5, 1, "abc"),
    Dict({"a": UNIT, "b": Dict({"c": Discrete(2)})}),
    Tuple((UNIT, Tuple(()))),
]


def same(one: Any, two: Any) -> bool:
    if type(one) is not type(two):
        return False
    if isinstance(one, Box):
        equal = (one.low == two.low).all() and (one.high == two.high).all()
        return bool(equal) and (one.shape, one.dtype) == (two.shape, two.dtype)
    if isinstance(one, MultiDiscrete):
        return bool((one.nvec == two.nvec).all())
    if isinstance(one, Dict):
        return list(one.spaces) == list(two.spaces) and all(
            same(one.spaces[k], two.spaces[k]) for k in one.spaces
        )
    if isinstance(one, Tuple):
        return len(one.spaces) == len(two.spaces) and all(map(same, one.spaces, two.spaces))
    return bool(one == two)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_a_space_survives_the_way_through_json(space: Space) -> None:
    value = public(to_value(space))
    assert same(from_value(json.loads(json.dumps(value, allow_nan=False))), space)


def test_the_bounds_of_an_image_are_two_numbers() -> None:
    assert len(json.dumps(to_value(box(0, 255, (96, 96, 3), "uint8")))) < 120


def test_an_unknown_space_is_named() -> None:
    with pytest.raises(BenchmarkError, match="space type 'graph' is unknown"):
        from_value({"type": "graph"})


def test_bounds_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        UNIT.low[0] = -9


# --- samples --------------------------------------------------------------------------------------


def drawn(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


MIXED_LOW, MIXED_HIGH = (
    np.array([-1, -np.inf, 0, -np.inf, 2.0]),
    np.array([1, np.inf, np.inf, 3, 2.5]),
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Discrete(5), gymnasium.spaces.Discrete(5)),
        (Discrete(5, -3), gymnasium.spaces.Discrete(5, start=-3)),
        (box(-1, 1, (3,)), gymnasium.spaces.Box(-1, 1, (3,))),
        (box(-2, 0.5, (2, 2), "float64"), gymnasium.spaces.Box(-2, 0.5, (2, 2), np.float64)),
        (box(-np.inf, np.inf, (4,)), gymnasium.spaces.Box(-np.inf, np.inf, (4,))),
        (box(0, np.inf, (4,)), gymnasium.spaces.Box(0, np.inf, (4,))),
        (box(-np.inf, 7, (4,)), gymnasium.spaces.Box(-np.inf, 7, (4,))),
        (
            box(MIXED_LOW, MIXED_HIGH, (5,), "float64"),
            gymnasium.spaces.Box(MIXED_LOW, MIXED_HIGH, dtype=np.float64),
        ),
        (box(0, 255, (6,), "uint8"), gymnasium.spaces.Box(0, 255, (6,), np.uint8)),
        (box(-3, 3, (6,), "int64"), gymnasium.spaces.Box(-3, 3, (6,), np.int64)),
        (MultiDiscrete(np.array([2, 9])), gymnasium.spaces.MultiDiscrete([2, 9])),
        (MultiBinary((5,)), gymnasium.spaces.MultiBinary(5)),
    ],
    ids=str,
)
def test_samples_are_gymnasiums_own(ours: Any, theirs: Any) -> None:
    for seed in (0, 1, 2**31, 2**40 + 5):
        theirs.seed(seed)
        rng = drawn(seed)
        for _ in range(20):
            one, two = ours.sample(rng), theirs.sample()
            assert np.array_equal(one, two)
            assert np.asarray(one).dtype == np.asarray(two).dtype


DRAWN = [space for space in SPACES if not (isinstance(space, Box) and space.dtype == np.int64)]
"""Gymnasium itself cannot draw from all 64 bits."""


@pytest.mark.parametrize("space", DRAWN, ids=lambda space: type(space).__name__)
def test_every_sample_is_a_member(space: Space) -> None:
    for seed in range(20):
        sample = space.sample(drawn(seed))
        member, clipped = cast_action(space, sample)
        np.testing.assert_equal(member, sample)
        assert not clipped


def test_without_a_generator_numpys_global_seed_decides() -> None:
    np.random.seed(3)
    first = UNIT.sample()
    np.random.seed(3)
    assert (UNIT.sample() == first).all()
