"""`benchmark=gymnasium`: any registered id, and what is refused in one sentence."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from evopolicy.authoring import ConfigError, EpisodeSpec, check_benchmark, run_program
from evopolicy.authoring.environment import GymnasiumEnvironment
from evopolicy.authoring.gymnasium import _description, load, slug_of
from evopolicy.authoring.gymnasium_options import GymnasiumOptions
from evopolicy.authoring.profile import Profile
from evopolicy.cells import load_benchmark
from evopolicy.kernel.ports.pool import PoolConfig, plan_pool
from evopolicy.kernel.spaces import Discrete
from evopolicy.presets import option

TOY = "evopolicy-test/Toy-v0"


def test_a_registered_id_is_a_benchmark() -> None:
    benchmark = load(TOY, failure_score=-500)
    check_benchmark(benchmark, render=False)
    assert benchmark.spec.slug == "gymnasium-evopolicy-test-Toy-v0"
    assert benchmark.spec.parameters == {
        "env_id": TOY,
        "failure_score": -500.0,
        "out_of_bounds": "invalid",
    }


@pytest.mark.parametrize("kind", ["image", "dict"])
def test_images_and_structures_are_taken_too(kind: str) -> None:
    check_benchmark(load(TOY, failure_score=-500, kwargs={"kind": kind}), render=False)


def test_the_reference_makes_the_same_benchmark_elsewhere() -> None:
    benchmark = load(
        TOY, failure_score=-500, kwargs={"end": 2.0}, max_steps=20, out_of_bounds="clip"
    )
    again = benchmark.reference.load()
    assert again.spec.digest == benchmark.spec.digest
    assert again.spec.max_steps == 20
    assert again.spec.clips


def test_keywords_and_limits_are_part_of_the_tasks_digest() -> None:
    digests = {
        load(TOY, failure_score=-500, **options).spec.digest
        for options in ({}, {"kwargs": {"end": 2.0}}, {"max_steps": 20}, {"out_of_bounds": "clip"})
    }
    assert len(digests) == 4


def test_every_number_an_environment_is_seeded_with_fits_31_bits() -> None:
    """Public Environments refused the seeds of 63 bits: "Seed must be between 0 and 2**32 - 1"."""
    benchmark = load_benchmark(
        {**option("benchmark", "gymnasium"), "env_id": "CartPole-v1", "failure_score": 0}
    )
    assert benchmark.spec.seed_bits == 31
    pool = plan_pool(
        PoolConfig("derived", training=8, validation=4, assessment=4, seed=0), benchmark
    )
    assert all(
        episode.seed < 2**31 for episode in (*pool.training, *pool.validation, *pool.assessment)
    )
    env = Seeds()
    GymnasiumEnvironment(
        env, Profile("s", "s/S-v0", "S-v0", "S", "", "", "", 0), benchmark.spec, last_seed(31)
    ).reset()
    assert len(env.seeds) == 3
    assert all(0 <= seed < 2**31 for seed in env.seeds)


def last_seed(bits: int) -> EpisodeSpec:
    return EpisodeSpec(0, 2**bits - 1, 0)


class Seeds:
    """Keeps every seed it is given."""

    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.action_space = self.observation_space = SimpleNamespace(seed=self.seeds.append)

    def reset(self, *, seed: int) -> Any:
        self.seeds.append(seed)
        return np.zeros(4), {}


def test_a_record_that_names_no_size_of_seeds_keeps_its_task_and_pool() -> None:
    before = load(TOY, failure_score=-500)
    assert "seed_bits" not in before.spec.parameters
    assert before.spec.seed_bits == 63
    now = load(TOY, failure_score=-500, seed_bits=31)
    assert now.spec.digest != before.spec.digest
    assert now.reference.load().spec.seed_bits == 31
    check_benchmark(now, render=False)


def test_a_failure_may_score_what_a_solved_task_scores_and_no_more() -> None:
    assert load(TOY, failure_score=5).spec.failure_score == 5.0


def test_the_programs_any_task_has_run() -> None:
    benchmark = load(TOY, failure_score=-500)
    assert sorted(benchmark.programs) == ["initial", "parametric", "random"]
    assert run_program(benchmark, benchmark.programs["initial"], EpisodeSpec(0, 1, 2)).length == 50


def test_the_tasks_own_documentation_is_in_the_goal() -> None:
    goal = load("CartPole-v1", failure_score=0).spec.goal
    assert "Pole Angular Velocity" in goal
    assert "Version History" not in goal


DESCRIBED: dict[str, Any] = {
    "text": {"goal": "Go to the right.", "scoring": None, "observation": "Seen from above."},
    "observation_fields": ["place", {"name": "count", "unit": "1", "meaning": "Steps."}],
    "action_fields": ["push"],
    "measures": {
        "farthest": {"of": "place", "how": "max_abs", "unit": "m"},
        "doubled": {"of": "twice"},
        "mean_reward": {"of": "reward", "how": "mean"},
    },
}


def test_what_a_user_says_of_a_task_is_what_an_agent_is_told() -> None:
    plain, told = load(TOY, failure_score=-500), load(TOY, failure_score=-500, **DESCRIBED)
    check_benchmark(told, render=False)
    assert (told.spec.goal, told.spec.observation_text) == ("Go to the right.", "Seen from above.")
    assert told.spec.scoring == plain.spec.scoring
    again = told.reference.load().spec
    assert replace(again, observation_space=Discrete(1), action_space=Discrete(1)) == replace(
        told.spec, observation_space=Discrete(1), action_space=Discrete(1)
    )
    assert told.spec.digest != plain.spec.digest, "another text is another condition"
    measures: Any = run_program(told, told.programs["initial"], EpisodeSpec(0, 1, 2)).measures
    assert measures["doubled"] == pytest.approx(2 * measures["farthest"], abs=1e-5)


def test_the_keys_of_the_option_are_those_it_takes() -> None:
    keys = {**option("benchmark", "gymnasium"), "env_id": TOY, "failure_score": 0}
    keys.pop("name")
    assert set(keys) == {one.name for one in fields(GymnasiumOptions)}
    assert set(GymnasiumOptions(**keys).options) == {
        "env_id",
        "failure_score",
        "out_of_bounds",
        "seed_bits",
    }


class Undescribed(gymnasium.Env[Any, Any]):
    pass


class Described(Undescribed):
    """Balance a broom."""


class Heir(Described):
    pass


class Called(Described):
    def __call__(self) -> gymnasium.Env[Any, Any]:
        return self


def made() -> gymnasium.Env[Any, Any]:
    """Sweep the floor."""
    return Described()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Described, "Balance a broom."),
        (Heir, "Balance a broom."),
        (made, "Sweep the floor."),
        (partial(Described), "Balance a broom."),
        (partial(partial(made)), "Sweep the floor."),
        (Undescribed, ""),
        (partial(Undescribed), ""),
        (Called(), ""),
    ],
)
def test_words_about_python_or_gymnasium_are_no_documentation_of_a_task(
    entry: Any, words: str
) -> None:
    """The goal had the docstring of functools.partial, or of gymnasium.Env."""
    assert _description(SimpleNamespace(entry_point=entry)) == words


@pytest.mark.parametrize(
    ("env_id", "slug"),
    [("ALE/Pong-v5", "gymnasium-ALE-Pong-v5"), ("ale_py:ALE/Pong-v5", "gymnasium-ALE-Pong-v5")],
)
def test_slugs_are_portable(env_id: str, slug: str) -> None:
    assert slug_of(env_id) == slug


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"env_id": TOY}, "benchmark.failure_score is missing"),
        (
            {"env_id": TOY, "failure_score": True},
            "benchmark.failure_score is a finite number, found True",
        ),
        (
            {"env_id": TOY, "failure_score": "low"},
            "benchmark.failure_score is a finite number, found 'low'",
        ),
        (
            {"env_id": TOY, "failure_score": float("nan")},
            "benchmark.failure_score is a finite number, found nan",
        ),
        (
            {"env_id": TOY, "failure_score": float("-inf")},
            "benchmark.failure_score is a finite number, found -inf",
        ),
        ({"env_id": TOY, "failure_score": 5.5}, "above the return 5 at which"),
        ({"failure_score": 0}, "benchmark.env_id is missing"),
        (
            {"env_id": "CartPol-v1", "failure_score": 0},
            "not registered in Gymnasium. Did you mean 'CartPole-v1'?",
        ),
        ({"env_id": "Zzz-v0", "failure_score": 0}, "imports the module that registers it"),
        (
            {"env_id": "no_such_module:A-v0", "failure_score": 0},
            "the module 'no_such_module' cannot be imported",
        ),
        (
            {"env_id": "evopolicy-test/Endless-v0", "failure_score": 0},
            "benchmark.max_steps is missing",
        ),
        ({"env_id": TOY, "failure_score": 0, "kwargs": {"no": 1}}, "cannot be made: TypeError"),
        ({"env_id": TOY, "failure_score": 0, "out_of_bounds": "wrap"}, "benchmark.out_of_bounds"),
        (
            {"env_id": TOY, "failure_score": 0, "text": {"gaol": "Go."}},
            "text.gaol is not one of its keys. Did you mean 'goal'?",
        ),
        (
            {"env_id": TOY, "failure_score": 0, "text": {"goal": 3}},
            "benchmark.text.goal is a text, found 3",
        ),
        (
            {"env_id": TOY, "failure_score": 0, "observation_fields": "x"},
            "observation_fields is a list with a name",
        ),
        (
            {"env_id": TOY, "failure_score": 0, "action_fields": [{"unit": "m"}]},
            "action_fields[0].name is missing",
        ),
        (
            {"env_id": TOY, "failure_score": 0, "measures": {"far": {}}},
            "benchmark.measures.far.of is missing",
        ),
        (
            {"env_id": TOY, "failure_score": 0, "measures": {"far": {"of": "x", "how": "most"}}},
            "far.how is 'most'; it",
        ),
        (
            {"env_id": TOY, "failure_score": 0, "seed_bits": 64},
            "benchmark.seed_bits is a whole number from 16 to 63",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)) as error:
        load(**arguments)
    assert "\n" not in str(error.value)


def test_an_id_with_a_module_imports_it() -> None:
    benchmark = load("gymnasium.envs.classic_control:CartPole-v1", failure_score=0)
    assert benchmark.spec.slug == "gymnasium-CartPole-v1"
