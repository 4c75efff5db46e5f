"""The Programs any task has: a neutral constant, and uniform random exactly as Gymnasium
samples."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicy.authoring import (
    Family,
    PolicyContext,
    Profile,
    cast_action,
    load_policy,
    space_from_gymnasium,
)
from evopolicy.authoring.benchmark import PROGRAMS
from evopolicy.authoring.linear import linear_program

SPACES: list[Any] = [
    spaces.Discrete(5),
    spaces.Discrete(3, start=-1),
    spaces.Box(-1, 1, (6,), np.float32),
    spaces.Box(np.array([-2.0, 0.0]), np.array([0.5, 9.0]), dtype=np.float64),
    spaces.Box(-np.inf, np.inf, (3,), np.float32),
    spaces.Box(
        np.array([0.0, -np.inf, -np.inf]), np.array([np.inf, 1.0, np.inf]), dtype=np.float64
    ),
    spaces.Box(0, 255, (4, 4, 3), np.uint8),
    spaces.Box(-5, 5, (2,), np.int32),
    spaces.MultiDiscrete([3, 1, 7]),
    spaces.MultiBinary(4),
    spaces.MultiBinary((2, 3)),
]


def context(space: Any, seed: int = 0) -> PolicyContext:
    return PolicyContext(
        observation_space=space_from_gymnasium(spaces.Discrete(1)),
        action_space=space_from_gymnasium(space),
        parameters={},
        seed=seed,
        max_steps=10,
    )


@pytest.mark.parametrize("space", SPACES, ids=str)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_random_draws_what_gymnasium_samples(space: Any, seed: int) -> None:
    policy = load_policy(PROGRAMS / "random", context(space, seed))
    space.seed(seed)
    for _ in range(4):
        assert np.array_equal(policy.act(None), space.sample())


@pytest.mark.parametrize("name", ["initial", "random"])
@pytest.mark.parametrize(
    "space",
    [
        *SPACES,
        spaces.Text(5, min_length=2, charset="xyz"),
        spaces.Dict(
            {
                "a": spaces.Discrete(3, start=4),
                "b": spaces.Tuple([spaces.Box(2, 3, (1,)), spaces.Text(3)]),
            }
        ),
    ],
    ids=str,
)
def test_actions_are_members_of_any_space(name: str, space: Any) -> None:
    given_context = context(space)
    policy = load_policy(PROGRAMS / name, given_context)
    action, clipped = cast_action(given_context.action_space, policy.act(None))
    assert not clipped
    assert action is not None


FLAT = [space for space in SPACES if space.shape != (4, 4, 3)]
PARTS = spaces.Dict({"place": FLAT[2], "kind": spaces.Tuple([FLAT[1], FLAT[8]])})


@pytest.mark.parametrize("seen", [*SPACES, PARTS], ids=str)
def test_the_parametric_program_plays_any_task_of_numbers(seen: Any, tmp_path: Path) -> None:
    """cma_es had none for an id nobody had written a Program for."""
    rng = np.random.default_rng(1)
    observation = space_from_gymnasium(seen)
    for answered in FLAT:
        action = space_from_gymnasium(answered)
        program = linear_program(observation, action)
        assert program is not None
        tuned = shutil.copytree(program, tmp_path / str(answered))
        first = json.loads((program / "params.json").read_text())
        values = {
            name: rng.normal(0, 9, np.shape(numbers)).tolist() for name, numbers in first.items()
        }
        (tuned / "params.json").write_text(json.dumps(values))
        policy = load_policy(tuned, PolicyContext(observation, action, {}, 0, 10))
        assert not any(
            cast_action(action, policy.act(observation.sample(rng)))[1] for _ in range(4)
        )


def test_what_is_no_numbers_or_too_many_has_no_parametric_program() -> None:
    few = space_from_gymnasium(spaces.Discrete(3))
    for space in (spaces.Text(3), spaces.Discrete(500), spaces.Box(0, 255, (84, 84, 3), np.uint8)):
        assert linear_program(space_from_gymnasium(space), few) is None


def test_the_neutral_action_is_zero_or_the_nearest_to_it() -> None:
    policy = load_policy(
        PROGRAMS / "initial",
        context(spaces.Box(np.array([-1.0, 2.0]), np.array([1.0, 3.0]), dtype=np.float64)),
    )
    assert policy.act(None).tolist() == [0.0, 2.0]


def test_a_program_may_be_in_common_with_another_task_of_the_family(tmp_path: Path) -> None:
    for slug, kind in (("one", "initial"), ("one", "parametric"), ("other", "initial")):
        (tmp_path / slug / kind).mkdir(parents=True)
        (tmp_path / slug / kind / "policy.py").write_text("")
    task: dict[str, Any] = {
        "id": "toy/CartPole-v1",
        "env_id": "CartPole-v1",
        "title": "",
        "goal": "",
        "scoring": "",
        "ending": "",
    }
    common = {"initial": "one", "parametric": "one"}
    profile = Profile(slug="other", failure_score=0.0, programs_of=common, **task)
    programs = Family("toy:load", {"other": profile}, tmp_path)("other").programs
    assert programs["parametric"] == tmp_path / "one" / "parametric"
    assert programs["initial"] == tmp_path / "other" / "initial"
