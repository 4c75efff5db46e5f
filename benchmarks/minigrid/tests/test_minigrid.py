"""Every MiniGrid profile keeps the contract, is the plain task, and is solved by a hand-written
planner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from evopolicy_minigrid import TASKS, load, load_any

from evopolicy import evaluate
from evopolicy.authoring import (
    BenchmarkError,
    ConfigError,
    EpisodeSpec,
    check_benchmark,
    find_benchmark,
    rollout,
)

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
# One planner solves every task.
REFERENCE = Path(__file__).parent / "reference" / "any_task"


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_profile_keeps_the_contract(task: str) -> None:
    check_benchmark(load(task), render=False, steps=40)


def test_a_replay_is_drawn(tmp_path: Path) -> None:
    benchmark = load("minigrid_four_rooms")
    episode = EpisodeSpec(4, 3, 1)
    rollout(benchmark, episode, lambda _: FORWARD, trace=tmp_path / "t", steps=2)
    drawn = benchmark.render(episode, tmp_path / "t", tmp_path)
    assert [a.name for a in drawn] == ["replays/0004.gif", "replays/0004.png"]


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_text_says_what_a_failure_scores_and_where_it_ends(task: str) -> None:
    spec = load(task).spec
    assert "scores 0 in it" in spec.scoring
    assert f"1 - 0.9 n / {spec.max_steps}`" in spec.scoring
    assert f"after {spec.max_steps:,} steps" in spec.ending
    assert all(field.meaning for field in spec.measures)
    assert "{" not in spec.goal + spec.scoring + spec.ending


@pytest.mark.parametrize("task", sorted(TASKS))
def test_it_is_the_plain_task(task: str) -> None:
    """Observations, rewards and ends of `gymnasium.make(id)`, seeded as the design says."""
    benchmark = load(task)
    plain = gymnasium.make(benchmark.profile.env_id)
    plain.action_space.seed(8)
    observed, _ = plain.reset(seed=7)
    environment = benchmark.make(EpisodeSpec(0, 7, 0))
    ours = environment.reset()
    for _ in range(60):
        assert (ours["direction"], ours["mission"]) == (observed["direction"], observed["mission"])
        np.testing.assert_array_equal(ours["image"], observed["image"])
        action = int(plain.action_space.sample())
        observed, reward, terminated, truncated, _ = plain.step(action)
        step = environment.step(action)
        ours = step.observation
        assert (step.reward, step.terminated, step.truncated) == (reward, terminated, truncated)
    plain.close()
    environment.close()


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_step_limit_is_the_tasks_own(task: str) -> None:
    benchmark = load(task)
    env = benchmark.open()
    assert env.unwrapped.max_steps == benchmark.spec.max_steps
    env.close()


# --- the two step limits --------------------------------------------------------------------------


def test_door_key_may_be_cut_at_a_thousand_steps_and_keeps_its_reward() -> None:
    benchmark = load("minigrid_door_key", max_steps=1000)
    assert benchmark.spec.max_steps == 1000
    assert benchmark.spec.parameters["max_steps"] == 1000
    assert "1 - 0.9 n / 2560`" in benchmark.spec.scoring
    assert "after 1,000 steps" in benchmark.spec.ending
    outcome = rollout(benchmark, EpisodeSpec(0, 1, 1), lambda _: DONE)
    assert (outcome.length, outcome.ending, outcome.episode_return) == (1000, "truncated", 0.0)


def test_a_limit_beyond_the_tasks_own_is_refused_with_the_other_key() -> None:
    with pytest.raises(ConfigError, match=r"max_steps is 101.*after 100 steps.*kwargs\.max_steps"):
        load("minigrid_four_rooms", max_steps=101)


def test_the_tasks_own_limit_can_be_changed_and_the_reward_with_it() -> None:
    benchmark = load("minigrid_four_rooms", kwargs={"max_steps": 200})
    assert benchmark.spec.max_steps == 200
    assert "1 - 0.9 n / 200`" in benchmark.spec.scoring
    assert rollout(benchmark, EpisodeSpec(0, 1, 1), lambda _: DONE).length == 200
    assert benchmark.spec.digest != load("minigrid_four_rooms").spec.digest


# --- spaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", sorted(TASKS))
def test_missions_are_sampled_from_those_there_are(task: str) -> None:
    space: Any = load(task).spec.observation_space
    missions = {space.sample(np.random.default_rng(seed))["mission"] for seed in range(30)}
    env = load(task).open()
    assert all(env.observation_space["mission"].contains(mission) for mission in missions)
    env.close()


def test_cells_have_the_bounds_of_the_simulators_codes() -> None:
    from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

    space: Any = load("minigrid_door_key").spec.observation_space
    highest = [max(codes.values()) for codes in (OBJECT_TO_IDX, COLOR_TO_IDX, STATE_TO_IDX)]
    assert space.spaces["image"].high[0, 0].tolist() == highest
    assert not space.spaces["image"].low.any()


def test_the_text_has_the_simulators_codes() -> None:
    from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

    text = load("minigrid_door_key").spec.observation_text
    kinds, colors, states = (line for line in text.splitlines() if line.startswith("  - "))
    assert all(f"{code} {name}" in kinds for name, code in OBJECT_TO_IDX.items() if name != "agent")
    assert all(f"{code} {name}" in colors for name, code in COLOR_TO_IDX.items())
    assert all(f"{code} {name}" in states for name, code in STATE_TO_IDX.items())


# --- any id ---------------------------------------------------------------------------------------


DYNAMIC = "MiniGrid-Dynamic-Obstacles-5x5-v0"


@pytest.mark.parametrize("env_id", ["MiniGrid-Empty-5x5-v0", "BabyAI-GoToLocal-v0", DYNAMIC])
def test_any_id_keeps_the_contract(env_id: str) -> None:
    check_benchmark(
        load_any(env_id), render=False, steps=30, deterministic=env_id == "MiniGrid-Empty-5x5-v0"
    )


def test_any_id_is_found_by_name() -> None:
    benchmark = find_benchmark("minigrid", {"env_id": "BabyAI-GoToLocal-v0", "max_steps": 20})
    assert benchmark.spec.id == "minigrid/BabyAI-GoToLocal-v0"
    assert benchmark.spec.slug == "minigrid-BabyAI-GoToLocal-v0"
    assert benchmark.spec.max_steps == 20
    assert benchmark.spec.parameters["env_id"] == "BabyAI-GoToLocal-v0"


def test_a_limit_that_depends_on_the_mission_is_bounded_and_said_to() -> None:
    spec = load_any("BabyAI-MiniBossLevel-v0").spec
    assert spec.max_steps == 800
    assert "depends on its mission and is at most 800" in spec.scoring
    assert "at most 800 steps" in spec.ending


@pytest.mark.parametrize(
    "env_id", ["BabyAI-MiniBossLevel-v0", "BabyAI-GoToSeqS5R2-v0", "BabyAI-SynthS5R2-v0"]
)
def test_no_episode_of_a_grammar_of_missions_has_a_higher_limit(env_id: str) -> None:
    benchmark = load_any(env_id)
    env = benchmark.open()
    for seed in range(100, 140):
        env.reset(seed=seed)
        assert env.unwrapped.max_steps <= benchmark.spec.max_steps
    env.close()


def test_a_babyai_mission_of_an_episode_is_the_example() -> None:
    space: Any = load_any("BabyAI-GoToLocal-v0").spec.observation_space
    assert len(space.spaces["mission"].examples) > 1
    assert all(mission.startswith("go to") for mission in space.spaces["mission"].examples)


def test_where_an_episode_can_cost_one_a_failure_does_too() -> None:
    spec = load_any(DYNAMIC).spec
    assert spec.failure_score == -1
    assert "the reward -1" in spec.scoring
    assert "scores -1 in it" in spec.scoring


def test_a_task_with_fewer_actions_says_so() -> None:
    spec = load_any(DYNAMIC).spec
    (field,) = spec.action_fields
    assert (field.high, field.meaning) == (2, "0 turn left, 1 turn right, 2 move forward.")


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("", "env_id is missing"),
        ("BabyAI-GoToLocl-v0", "not registered.*Did you mean 'BabyAI-GoToLocal-v0'"),
        ("CartPole-v1", "no MiniGrid task.*benchmark=gymnasium"),
    ],
)
def test_what_is_no_id_of_the_family_is_refused(env_id: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_any(env_id)


# --- Programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", sorted(TASKS))
def test_parameters_are_a_flat_object_of_numbers_the_program_reads(task: str) -> None:
    folder = load(task).programs["parametric"]
    parameters = json.loads((folder / "params.json").read_text())
    assert all(type(value) is float for value in parameters.values())
    assert all(f'"{name}"' in (folder / "policy.py").read_text() for name in parameters)


def test_an_unknown_task_is_refused_with_the_near_name() -> None:
    with pytest.raises(BenchmarkError, match="Did you mean 'minigrid_door_key'"):
        load("minigrid_doorkey")


# The published random row (arXiv 2607.02440): the mean over these 32 cases with the policy seed
# case + 1.
PUBLISHED = {
    "minigrid_door_key": 0.0,
    "minigrid_key_corridor": 0.0,
    "minigrid_four_rooms": 0.041688,
    "minigrid_obstructed_maze": 0.0,
}
ROW = {
    "kind": "paper",
    "cases": "hash",
    "policy_seed": "case_plus_one",
    "validation": 0,
    "assessment": 32,
}


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(PUBLISHED))
def test_random_reproduces_the_published_row_through_the_engine(task: str) -> None:
    options = {"max_steps": 1000} if task == "minigrid_door_key" else {}
    benchmark = {"name": task, "out_of_bounds": "clip", **options}
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


# What the hand-written Program in reference/ reaches: that each task can be solved through the ABI,
# and stays so.
REACHED = {
    "minigrid_door_key": (3, 0.96),
    "minigrid_key_corridor": (4, 0.88),
    "minigrid_four_rooms": (8, 0.55),
    "minigrid_obstructed_maze": (4, 0.9),
}
"""Held-out Episodes and the mean score on them; more where scores differ much from Episode to
Episode."""


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_planner_solves_it_through_the_abi(task: str) -> None:
    count, enough = REACHED[task]
    result = evaluate(REFERENCE, task, split="assessment", episodes=count, workers=1)
    assert result.measurement.failed == 0
    assert all(episode.outcome.measures["solved"] for episode in result.episodes)
    assert result.mean >= enough
