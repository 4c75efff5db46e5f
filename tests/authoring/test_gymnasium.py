"""`benchmark=gymnasium`: any registered id, and what is refused in one sentence."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evopolicy.authoring import ConfigError, EpisodeSpec, check_benchmark, run_program
from evopolicy.authoring.gymnasium import load, slug_of

TOY = "evopolicy-test/Toy-v0"


def test_a_registered_id_is_a_benchmark() -> None:
    benchmark = load(TOY, failure_score=-500)
    check_benchmark(benchmark, render=False)
    assert benchmark.spec.slug == "gymnasium-evopolicy-test-Toy-v0"
    assert benchmark.spec.parameters == {"env_id": TOY, "failure_score": -500.0, "out_of_bounds": "invalid"}


@pytest.mark.parametrize("kind", ["image", "dict"])
def test_images_and_structures_are_taken_too(kind: str) -> None:
    check_benchmark(load(TOY, failure_score=-500, kwargs={"kind": kind}), render=False)


def test_the_reference_makes_the_same_benchmark_elsewhere() -> None:
    benchmark = load(TOY, failure_score=-500, kwargs={"end": 2.0}, max_steps=20, out_of_bounds="clip")
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


def test_the_programs_any_task_has_run() -> None:
    benchmark = load(TOY, failure_score=-500)
    assert sorted(benchmark.programs) == ["initial", "random"]
    assert run_program(benchmark, benchmark.programs["initial"], EpisodeSpec(0, 1, 2)).length == 50


def test_the_tasks_own_documentation_is_in_the_goal() -> None:
    goal = load("CartPole-v1", failure_score=0).spec.goal
    assert "Pole Angular Velocity" in goal
    assert "Version History" not in goal


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
        ({"env_id": TOY, "failure_score": True}, "benchmark.failure_score is a finite number, found True"),
        ({"env_id": TOY, "failure_score": "low"}, "benchmark.failure_score is a finite number, found 'low'"),
        ({"env_id": TOY, "failure_score": float("nan")}, "benchmark.failure_score is a finite number, found nan"),
        ({"env_id": TOY, "failure_score": float("-inf")}, "benchmark.failure_score is a finite number, found -inf"),
        ({"env_id": TOY, "failure_score": 5.5}, "above the return 5 at which"),
        ({"failure_score": 0}, "benchmark.env_id is missing"),
        ({"env_id": "CartPol-v1", "failure_score": 0}, "not registered in Gymnasium. Did you mean 'CartPole-v1'?"),
        ({"env_id": "Zzz-v0", "failure_score": 0}, "imports the module that registers it"),
        ({"env_id": "no_such_module:A-v0", "failure_score": 0}, "the module 'no_such_module' cannot be imported"),
        ({"env_id": "evopolicy-test/Endless-v0", "failure_score": 0}, "benchmark.max_steps is missing"),
        ({"env_id": TOY, "failure_score": 0, "kwargs": {"no": 1}}, "cannot be made: TypeError"),
        ({"env_id": TOY, "failure_score": 0, "out_of_bounds": "wrap"}, "benchmark.out_of_bounds"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)) as error:
        load(**arguments)
    assert "\n" not in str(error.value)


def test_an_id_with_a_module_imports_it() -> None:
    benchmark = load("gymnasium.envs.classic_control:CartPole-v1", failure_score=0)
    assert benchmark.spec.slug == "gymnasium-CartPole-v1"
