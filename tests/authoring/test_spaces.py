"""Gymnasium's spaces, their members and their columns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from evopolicy.authoring import (
    BenchmarkError,
    Box,
    Discrete,
    Text,
    belongs,
    column_names,
    flatten,
    space_from_gymnasium,
)
from evopolicy.authoring.spaces import member_of
from evopolicy.kernel.spaces import from_value, to_value

MIXED = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (2, 3), np.uint8),
        "choice": spaces.Discrete(4, start=-1),
        "flags": spaces.MultiBinary(3),
        "parts": spaces.Tuple([spaces.MultiDiscrete([2, 5]), spaces.Text(4)]),
    }
)


def test_every_supported_kind_keeps_what_defines_it() -> None:
    value = to_value(space_from_gymnasium(MIXED))
    assert value["spaces"] == {
        "choice": {"type": "discrete", "n": 4, "start": -1},
        "flags": {"type": "multi_binary", "shape": [3]},
        "image": {"type": "box", "low": 0, "high": 255, "shape": [2, 3], "dtype": "uint8"},
        "parts": {
            "type": "tuple",
            "spaces": [
                {"type": "multi_discrete", "nvec": [2, 5]},
                {
                    "type": "text",
                    "max_length": 4,
                    "min_length": 1,
                    "charset": spaces.Text(4).characters,
                },
            ],
        },
    }


def test_a_choice_lies_between_its_ends() -> None:
    space = Discrete(4, start=-1)
    assert [not belongs(space, value) for value in range(-2, 4)] == [
        False,
        True,
        True,
        True,
        True,
        False,
    ]
    assert belongs(space, 3) == "expected an int from -1 to 2, found 3"


class Greetings(spaces.Space[str]):
    """A kind of its own whose members are sentences."""

    def __init__(self) -> None:
        super().__init__(dtype=str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:  # noqa: ARG002
        return f"hello {('you', 'me')[int(self.np_random.integers(2))]}"


def test_a_foreign_kind_of_texts_is_a_text_with_examples_of_its_own() -> None:
    space = space_from_gymnasium(Greetings())
    assert space == Text(1_000, examples=("hello me", "hello you"))
    assert from_value(to_value(space)) == space
    drawn = {space.sample(np.random.default_rng(seed)) for seed in range(16)}
    assert drawn == {"hello me", "hello you"}
    assert belongs(space, "good morning") == "", "examples are no list of all there is"


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (spaces.Sequence(spaces.Discrete(2)), "Sequence"),
        (spaces.Dict({"a": spaces.Graph(spaces.Discrete(2), None)}), "Graph"),
        (spaces.OneOf([spaces.Discrete(2), spaces.Discrete(3)]), "OneOf"),
        (spaces.MultiDiscrete([2, 2], start=[1, 0]), "MultiDiscrete"),
    ],
)
def test_an_unsupported_kind_is_refused_by_name_and_place(space: Any, kind: str) -> None:
    with pytest.raises(BenchmarkError, match=rf"Env-v0.*{kind}"):
        space_from_gymnasium(space, "Env-v0")


def test_members_are_plain_and_belong_to_their_space() -> None:
    space = space_from_gymnasium(MIXED)
    MIXED.seed(3)
    member = member_of(space)(MIXED.sample())
    assert belongs(space, member) == ""
    assert type(member["choice"]) is int
    assert type(member["parts"]) is tuple


def test_an_array_is_copied_so_that_the_environment_may_reuse_it() -> None:
    buffer = np.zeros(2, np.float32)
    member = member_of(space_from_gymnasium(spaces.Box(-1, 1, (2,), np.float32)))(buffer)
    buffer[:] = 1
    assert member.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (np.zeros(2), "float64"),
        (np.zeros(3, np.float32), r"\(3,\)"),
        (np.array([0, 2], np.float32), "bounds"),
        ([0.0, 0.0], "list"),
    ],
)
def test_a_stranger_is_described(value: Any, fault: str) -> None:
    space = space_from_gymnasium(spaces.Box(-1, 1, (2,), np.float32))
    assert isinstance(space, Box)
    assert re.search(fault, belongs(space, value))


def test_columns_name_every_number_in_the_order_of_flatten() -> None:
    space = space_from_gymnasium(
        spaces.Dict(
            {"a": spaces.Box(-1, 1, (2, 2)), "b": spaces.Discrete(3), "c": spaces.Box(-1, 1, (1,))}
        )
    )
    value = {"a": np.array([[1, 2], [3, 4]]), "b": 5, "c": np.array([6])}
    assert column_names(space, "o") == ["o_a_0_0", "o_a_0_1", "o_a_1_0", "o_a_1_1", "o_b", "o_c"]
    assert flatten(space, value) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "space",
    [spaces.Box(0, 255, (96, 96, 3), np.uint8), spaces.Box(0, 1, (3, 3, 5)), spaces.Text(3)],
)
def test_images_grids_and_text_are_no_table(space: Any) -> None:
    assert column_names(space_from_gymnasium(space), "o") is None


def test_a_text_space_keeps_its_letters() -> None:
    assert space_from_gymnasium(spaces.Text(3, charset="ab")) == Text(
        3, 1, spaces.Text(3, charset="ab").characters
    )


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Discrete(5), 77),
        (spaces.Discrete(5), 1.5),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([300])),
        (spaces.Box(-9, 9, (1,), np.int32), np.array([np.nan])),
        (spaces.MultiBinary(2), np.array([256, 1])),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_numbers_that_would_be_others_are_no_members(space: Any, value: Any) -> None:
    """300 became 44, NaN the least int, 77 a choice of five."""
    with pytest.raises(ValueError, match=r"changes when it is cast|expected an int from 0 to 4"):
        member_of(space_from_gymnasium(space))(value)
