"""Every classic control profile keeps the contract, its texts are true, its Programs run and the measures are right."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
import pytest
from evopolicy_classic_control import TASKS, load

from evopolicy.authoring import EpisodeSpec, check_benchmark, load_policy, policy_context, rollout, run_program

PARAMETRIC = sorted(TASKS)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_profile_keeps_the_contract(task: str) -> None:
    check_benchmark(load(task))


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_profile_keeps_the_contract_with_clipped_actions(task: str) -> None:
    check_benchmark(load(task, out_of_bounds="clip"), render=False, steps=50)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_text_names_every_field_and_the_failure_score(task: str) -> None:
    spec = load(task).spec
    assert all(f.meaning for f in (*spec.observation_fields, *spec.action_fields, *spec.measures))
    assert f"{spec.failure_score:.0f}" in spec.scoring
    assert f"{spec.max_steps} steps" in spec.ending


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_fields_have_the_ranges_of_the_space(task: str) -> None:
    spec = load(task).spec
    space: Any = spec.observation_space
    for field, low, high in zip(spec.observation_fields, space.low, space.high, strict=True):
        assert field.low == (pytest.approx(float(low)) if math.isfinite(low) else None)
        assert field.high == (pytest.approx(float(high)) if math.isfinite(high) else None)


@pytest.mark.parametrize("task", PARAMETRIC)
def test_parameters_are_a_flat_object_of_numbers_the_program_reads(task: str) -> None:
    parameters = json.loads((load(task).programs["parametric"] / "params.json").read_text())
    assert parameters
    assert all(type(value) is float for value in parameters.values())
    source = (load(task).programs["parametric"] / "policy.py").read_text()
    assert all(f'"{name}"' in source for name in parameters)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_first_programs_are_weak(task: str) -> None:
    """Room to improve: none comes near what counts as solved."""
    enough = {"cartpole": 100, "pendulum": -400, "acrobot": -300, "mountain_car": -190, "mountain_car_continuous": 50}
    benchmark = load(task)
    for name in ("initial", "parametric", "random"):
        returns = [
            run_program(benchmark, benchmark.programs[name], EpisodeSpec(i, i, i)).episode_return for i in range(4)
        ]
        assert sum(returns) / 4 < enough[task]


def test_cartpole_says_which_bound_ended_it() -> None:
    benchmark = load("cartpole")
    assert rollout(benchmark, EpisodeSpec(0, 1, 1), lambda _: 1).measures["ended_by"] == "pole_angle"
    gains = (0.5, 1.0, 10.0, 2.0)
    drift = rollout(
        benchmark,
        EpisodeSpec(0, 1, 1),
        lambda o: int(gains[1] * (o[1] - 1.5) + gains[2] * o[2] + gains[3] * o[3] > 0),
    )
    assert drift.measures["ended_by"] == "cart_position"
    held = rollout(
        benchmark, EpisodeSpec(0, 1, 1), lambda o: int(sum(g * x for g, x in zip(gains, o, strict=True)) > 0)
    )
    assert (held.length, held.measures["ended_by"]) == (500, "time")
    assert rollout(benchmark, EpisodeSpec(0, 1, 1), lambda _: 1, steps=2).measures["ended_by"] == "failure"


def test_pendulum_measures_how_long_it_was_upright() -> None:
    benchmark = load("pendulum")
    environment = benchmark.make(EpisodeSpec(0, 1, 1))
    environment.reset()
    steps = [environment.step(np.array([2.0 * (-1) ** (i // 9)], np.float32)) for i in range(60)]
    thetas = [math.atan2(step.observation[1], step.observation[0]) for step in steps]
    measures = environment.measures()
    assert measures["mean_abs_theta"] == pytest.approx(sum(map(abs, thetas)) / 60)
    assert measures["fraction_upright"] == pytest.approx(sum(abs(theta) < 0.2 for theta in thetas) / 60)
    assert measures["final_theta"] == pytest.approx(thetas[-1])
    assert measures["torque_cost"] == pytest.approx(60 * 0.004)


def test_no_torque_can_cost_more_than_a_failure() -> None:
    spec = load("pendulum").spec
    assert spec.failure_score < -200 * (math.pi**2 + 0.1 * 8**2 + 0.001 * 2**2) + 1
    assert spec.failure_score < -3254


def test_energy_pumping_reaches_the_flag_and_the_measures_say_so() -> None:
    outcome = rollout(load("mountain_car"), EpisodeSpec(0, 1, 1), lambda o: 2 if o[1] > 0 else 0)
    assert outcome.ending == "terminated"
    assert outcome.measures["reached_flag"] is True
    assert outcome.measures["max_position"] >= 0.5  # type: ignore[operator]


def test_acrobots_tip_height_is_what_ends_the_episode() -> None:
    outcome = rollout(load("acrobot"), EpisodeSpec(0, 1, 1), lambda o: 2 if o[4] < 0 else 0)
    assert outcome.measures["reached_target"] is (outcome.ending == "terminated")
    assert (outcome.measures["max_tip_height"] > 1) is (outcome.ending == "terminated")  # type: ignore[operator]


# The published random row (arXiv 2607.02440) is the mean over these 32 cases with the policy seed case + 1.
PUBLISHED = {"acrobot": ("gym/acrobot", -499.15625), "mountain_car_continuous": ("gym/continuouscar", -33.359488)}


def case(name: str, index: int) -> int:
    digest = hashlib.sha256(f"{name}/heldout/{index:06d}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 2**32


@pytest.mark.parametrize("task", ["acrobot", pytest.param("mountain_car_continuous", marks=pytest.mark.slow)])
def test_random_reproduces_the_published_row(task: str) -> None:
    name, published = PUBLISHED[task]
    benchmark = load(task, out_of_bounds="clip")
    total = 0.0
    for index in range(32):
        episode = EpisodeSpec(index, case(name, index), case(name, index) + 1)
        policy = load_policy(benchmark.programs["random"], policy_context(benchmark, episode))
        total += rollout(benchmark, episode, policy.act).episode_return
    assert total / 32 == pytest.approx(published, abs=6e-7)
