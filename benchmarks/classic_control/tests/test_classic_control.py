"""Every classic control profile keeps the contract, its texts are true, its Programs run and the
measures are right."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evopolicy_classic_control import TASKS, load

from evopolicy import evaluate
from evopolicy.authoring import EpisodeSpec, check_benchmark, rollout, run_program

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
    enough = {
        "cartpole": 100,
        "pendulum": -400,
        "acrobot": -300,
        "mountain_car": -190,
        "mountain_car_continuous": 50,
    }
    benchmark = load(task)
    for name in ("initial", "parametric", "random"):
        returns = [
            run_program(benchmark, benchmark.programs[name], EpisodeSpec(i, i, i)).episode_return
            for i in range(4)
        ]
        assert sum(returns) / 4 < enough[task]


def test_cartpole_says_which_bound_ended_it() -> None:
    benchmark = load("cartpole")
    assert (
        rollout(benchmark, EpisodeSpec(0, 1, 1), lambda _: 1).measures["ended_by"] == "pole_angle"
    )
    gains = (0.5, 1.0, 10.0, 2.0)
    drift = rollout(
        benchmark,
        EpisodeSpec(0, 1, 1),
        lambda o: int(gains[1] * (o[1] - 1.5) + gains[2] * o[2] + gains[3] * o[3] > 0),
    )
    assert drift.measures["ended_by"] == "cart_position"
    held = rollout(
        benchmark,
        EpisodeSpec(0, 1, 1),
        lambda o: int(sum(g * x for g, x in zip(gains, o, strict=True)) > 0),
    )
    assert (held.length, held.measures["ended_by"]) == (500, "time")
    assert (
        rollout(benchmark, EpisodeSpec(0, 1, 1), lambda _: 1, steps=2).measures["ended_by"]
        == "failure"
    )


def test_pendulum_measures_how_long_it_was_upright() -> None:
    benchmark = load("pendulum")
    environment = benchmark.make(EpisodeSpec(0, 1, 1))
    environment.reset()
    steps = [environment.step(np.array([2.0 * (-1) ** (i // 9)], np.float32)) for i in range(60)]
    thetas = [math.atan2(step.observation[1], step.observation[0]) for step in steps]
    measures = environment.measures()
    assert measures["mean_abs_theta"] == pytest.approx(sum(map(abs, thetas)) / 60)
    assert measures["fraction_upright"] == pytest.approx(
        sum(abs(theta) < 0.2 for theta in thetas) / 60
    )
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


# The published random row (arXiv 2607.02440): the mean over these 32 cases with the policy seed
# case + 1.
PUBLISHED = {"acrobot": -499.15625, "mountain_car_continuous": -33.359488}
ROW = {
    "kind": "paper",
    "cases": "hash",
    "policy_seed": "case_plus_one",
    "validation": 0,
    "assessment": 32,
}


@pytest.mark.parametrize("task", sorted(PUBLISHED))
def test_random_reproduces_the_published_row_through_the_engine(task: str) -> None:
    benchmark = {"name": task, "out_of_bounds": "clip"}
    result = evaluate(
        load(task).programs["random"],
        benchmark,
        split="assessment",
        pool=ROW,
        selection="last",
        workers=1,
    )
    assert len(result.episodes) == 32
    assert result.mean == pytest.approx(PUBLISHED[task], abs=6e-7)


# What the hand-written Programs in reference/ reach: that each task can be solved through the ABI,
# and stays so.
REFERENCE = Path(__file__).parent / "reference"
REACHED = {
    "cartpole": 500.0,
    "pendulum": -300.0,
    "acrobot": -120.0,
    "mountain_car": -160.0,
    "mountain_car_continuous": 97.0,
}


@pytest.mark.parametrize("task", sorted(REACHED))
def test_a_hand_written_program_solves_it_through_the_abi(task: str) -> None:
    result = evaluate(REFERENCE / task, task, split="assessment", episodes=8, workers=1)
    assert result.measurement.failed == 0
    assert result.mean >= REACHED[task]


def test_every_task_has_a_reference() -> None:
    assert (
        {path.parent.name for path in REFERENCE.glob("*/policy.py")} == set(TASKS) == set(REACHED)
    )
