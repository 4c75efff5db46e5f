"""Every highway profile keeps the contract, its texts are true, its Programs run and the measures
are right."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from evopolicy_highway import TASKS, load

from evopolicy.authoring import EpisodeSpec, check_benchmark, rollout, run_program
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.execution.isolation import choose
from evopolicy.kernel.ports.protocols import Limits

REFERENCE = Path(__file__).parent / "reference"
PARAMETRIC = sorted(task for task in TASKS if "parametric" in load(task).programs)
LIMITS = Limits(1.0, 60.0, 1 << 30, 1 << 16, 4 << 20, 120.0, 50.0)
QUICK = ["exit", "merge", "racetrack", "two_way", "u_turn"]
SLOW = [pytest.param(task, marks=pytest.mark.slow) for task in sorted(set(TASKS) - set(QUICK))]
TABLES = {
    "roundabout": "absolute",
    "intersection": "absolute",
    "highway": "",
    "merge": "",
    "exit": "",
}


@pytest.mark.parametrize("task", [*QUICK, *SLOW])
def test_the_profile_keeps_the_contract(task: str) -> None:
    check_benchmark(load(task), render=False, steps=3)


def test_a_replay_is_drawn_without_a_screen(tmp_path: Path) -> None:
    benchmark, episode = load("parking"), EpisodeSpec(0, 1, 1)
    rollout(benchmark, episode, lambda _: [0.5, 0.1], trace=tmp_path / "t", steps=3)
    artifacts = benchmark.render(episode, tmp_path / "t", tmp_path)
    assert [a.media_type for a in artifacts] == ["image/gif", "image/png"]


# --- texts and fields -----------------------------------------------------------------------------


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_text_names_every_field_and_the_failure_score(task: str) -> None:
    spec = load(task).spec
    assert all(f.meaning for f in (*spec.observation_fields, *spec.action_fields, *spec.measures))
    assert f"{spec.failure_score:g} in it" in spec.scoring
    assert f"{spec.max_steps:,} steps" in spec.ending
    assert spec.observation_text


@pytest.mark.parametrize("task", sorted(TABLES))
def test_rows_are_cars_in_the_units_of_the_fields(task: str) -> None:
    """Every row but the empty ones is a car (or obstacle) of the simulator, in the frame the text
    gives."""
    benchmark = load(task)
    env = benchmark.open()
    observation, _ = env.reset(seed=4)
    fields, world = benchmark.spec.observation_fields, env.unwrapped
    names = [f.name.removeprefix("ego_") for f in fields if f.name.startswith("ego_")]
    units = [float(f.unit.split()[0]) if f.unit else 1.0 for f in fields[: len(names)]]
    rows = [dict(zip(names, (row * units).tolist(), strict=True)) for row in observation]
    ego = world.vehicle
    origin_x, origin_y = (0.0, 0.0) if TABLES[task] else ego.position
    cut = [
        units[names.index(n)] if fields[names.index(n)].high == 1 else math.inf for n in ("x", "y")
    ]
    others = [
        (
            np.clip(o.position[0] - origin_x, -cut[0], cut[0]),
            np.clip(o.position[1] - origin_y, -cut[1], cut[1]),
        )
        for o in [*world.road.vehicles, *world.road.objects]
    ]
    shown = [row for row in rows[1:] if row["presence"]]
    assert shown
    for row in shown:
        assert min(math.hypot(row["x"] - x, row["y"] - y) for x, y in others) < 0.01
    start = 400.0 if task == "exit" else 0.0
    assert rows[0]["x"] == pytest.approx(ego.position[0] - start, abs=0.01)
    assert rows[0]["y"] == pytest.approx(ego.position[1], abs=0.01)
    assert rows[0]["vx"] == pytest.approx(ego.velocity[0], abs=0.01)
    env.close()


def test_parkings_units_heading_and_goal_are_those_of_the_text() -> None:
    env = load("parking").open()
    goals, left = set(), 0
    for seed in range(40):
        observation, _ = env.reset(seed=seed)
        world = env.unwrapped
        goal = world.vehicle.goal
        assert (observation["desired_goal"][:2] * 100).tolist() == pytest.approx(
            goal.position.tolist()
        )
        assert observation["achieved_goal"][4:].tolist() == pytest.approx(
            world.vehicle.direction.tolist()
        )
        assert observation["desired_goal"][5] == pytest.approx(math.copysign(1, goal.position[1]))
        goals.add(tuple(np.round(goal.position).astype(int).tolist()))
        left += goal.position[0] < 0
    assert all(x in range(-26, 27, 4) and abs(y) == 14 for x, y in goals)
    assert 5 < left < 35
    env.close()


def test_the_car_turns_and_speeds_up_as_the_text_says() -> None:
    benchmark = load("parking")
    environment = benchmark.make(EpisodeSpec(0, 1, 1))
    first = environment.reset()["achieved_goal"]
    seen = [
        environment.step(np.array([1.0, 0.5], np.float32)).observation["achieved_goal"]
        for _ in range(3)
    ]
    x, y, heading, speed = 0.0, 0.0, math.atan2(first[5], first[4]), 0.0
    slip = math.atan(math.tan(math.pi / 8) / 2)
    for _ in range(9):
        x, y = x + speed * math.cos(heading + slip) / 15, y + speed * math.sin(heading + slip) / 15
        heading, speed = heading + speed * math.sin(slip) / 2.5 / 15, speed + 5 / 15
    assert seen[-1][:2] * 100 == pytest.approx([x, y], abs=1e-5)
    assert math.hypot(*(seen[-1][2:4] * 5)) == pytest.approx(speed, abs=1e-5)
    environment.close()


def test_the_reward_is_the_formula_in_the_text() -> None:
    """The reward's terms are columns: of the formula in the text they make the reward, to
    rounding."""
    formulas: dict[str, Any] = {
        "roundabout": lambda t: (
            (0.2 * t["high_speed"] - 0.05 * t["lane_change"] - t["crashed"] + 1)
            / 1.2
            * t["on_road"]
        ),
        "racetrack": lambda t: (
            (t["lane_centering"] - 0.3 * t["action"] - t["crashed"] + 1) / 2 * t["on_road"]
        ),
        "u_turn": lambda t: (
            (0.4 * t["high_speed"] + 0.1 * t["left_lane"] - t["crashed"] + 1) / 1.5 * t["on_road"]
        ),
        "two_way": lambda t: 0.8 * t["high_speed"] + 0.2 * t["left_lane"],
        "exit": lambda t: min(1.0, t["goal"] + 0.1 * t["high_speed"]),
        "merge": lambda t: (
            (
                0.2 * t["high_speed"]
                + 0.1 * t["right_lane"]
                - 0.05 * t["lane_change"]
                - 0.5 * t["merging_speed"]
                - t["crashed"]
                + 1.5
            )
            / 1.8
        ),
    }
    for task, formula in formulas.items():
        environment = load(task).make(EpisodeSpec(0, 2, 1))
        environment.reset()
        for move in (3, 0, 2, 4, 1):
            step = environment.step(np.array([0.1], np.float32) if task == "racetrack" else move)
            assert step.reward == pytest.approx(formula(step.info), abs=1e-6), task
            if step.terminated or step.truncated:
                break
        environment.close()


# --- the simulator, unchanged ---------------------------------------------------------------------


def trajectory(env: Any, seed: int, actions: list[Any]) -> list[bytes]:
    observation, _ = env.reset(seed=seed)
    seen = [repr(observation).encode()]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append(repr((observation, float(reward), terminated, truncated)).encode())
        if terminated or truncated:
            break
    env.close()
    return seen


@pytest.mark.parametrize("task", ["parking", "roundabout", "merge"])
def test_episodes_are_those_of_plain_gymnasium(task: str) -> None:
    benchmark = load(task)
    actions: list[Any] = (
        [np.array([0.3, 0.2], np.float32)] * 5 if task == "parking" else [3, 1, 4, 1, 1]
    )
    ours = trajectory(benchmark.open(), 11, actions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert trajectory(gymnasium.make(benchmark.profile.env_id), 11, actions) == ours


def test_an_intersection_in_the_same_process_changes_no_other_task() -> None:
    """highway-env's intersection writes how its traffic drives into the class that all traffic is
    of."""
    before = trajectory(load("merge").open(), 5, [1] * 4)
    intersection = load("intersection")
    alone = trajectory(intersection.open(), 5, [1] * 3)
    env = load("merge").open()
    crossing = intersection.open()
    first, _ = env.reset(seed=5)
    seen = [repr(first).encode()]
    crossing.reset(seed=5)
    for _ in range(4):
        observation, reward, terminated, truncated, _ = env.step(1)
        seen.append(repr((observation, float(reward), terminated, truncated)).encode())
    assert seen == before
    assert trajectory(crossing, 5, [1] * 3) == alone


@pytest.mark.parametrize(("task", "hertz"), [("parking", 5), ("racetrack", 5), ("roundabout", 1)])
def test_the_limit_of_the_profile_is_where_the_tasks_own_clock_ends(task: str, hertz: int) -> None:
    env = load(task).open()
    time, steps = 0.0, 0
    while time < env.unwrapped.config["duration"]:
        time, steps = time + 1 / hertz, steps + 1
    assert steps == load(task).spec.max_steps
    assert env.unwrapped.config["policy_frequency"] == hertz


# --- measures -------------------------------------------------------------------------------------


def test_a_drive_into_the_wall_is_a_collision_and_costs_five() -> None:
    benchmark = load("parking")
    rewards: list[float] = []
    environment = benchmark.make(EpisodeSpec(0, 1, 1))
    environment.reset()
    while True:
        step = environment.step(np.array([1.0, 0.0], np.float32))
        rewards.append(step.reward)
        if step.terminated:
            break
    measures = environment.measures()
    assert (measures["collision"], measures["parked"]) == (True, False)
    assert rewards[-1] < rewards[-2] - 4
    assert measures["top_abs_speed"] > 10  # type: ignore[operator]


def test_no_drive_can_cost_more_than_a_failure() -> None:
    """The farthest corner, the heading that costs most, for 500 steps, and a wall at the end."""
    farthest = (35 + 26) / 100 + 0.3 * (21 + 14) / 100 + 0.02 * (1 + math.sqrt(2))
    assert load("parking").spec.failure_score < -500 * math.sqrt(farthest) - 5


def test_roundabouts_measures_are_sums_of_its_columns() -> None:
    outcome = rollout(load("roundabout"), EpisodeSpec(0, 1, 1), lambda _: 4)
    assert outcome.measures["low_speed"] < 0.5  # type: ignore[operator]
    assert outcome.measures["lane_change_sum"] == 0
    assert outcome.measures["collision"] is (outcome.ending == "terminated")


# --- Programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", PARAMETRIC)
def test_parameters_are_a_flat_object_of_numbers_the_program_reads(task: str) -> None:
    folder = load(task).programs["parametric"]
    parameters = json.loads((folder / "params.json").read_text())
    assert all(type(value) is float for value in parameters.values())
    source = (folder / "policy.py").read_text()
    assert all(f'"{name}"' in source for name in parameters)


def case(task: str, index: int) -> int:
    """A held-out case of the paper's hash pool (arXiv 2607.02440); the policy seed is case + 1."""
    digest = hashlib.sha256(f"gymnasium/{TASKS[task].env_id}/heldout/{index:06d}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 2**32


def engine_scores(task: str, program: Path, count: int) -> list[float]:
    """Returns of the first held-out cases, through the engine, isolated as well as it can be
    here."""
    episodes = [EpisodeSpec(i, case(task, i), case(task, i) + 1) for i in range(count)]
    reference = load(task, out_of_bounds="clip").reference
    level = choose("auto", False)
    with LocalExecutor(
        reference, LIMITS, workers=1, isolation=level, policy_packages=("numpy",)
    ) as engine:
        results = engine.evaluate(program, episodes)
    assert all(r.outcome is not None and r.outcome.failure is None for r in results), results
    return [r.outcome.episode_return for r in results if r.outcome is not None]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "count"), [("parking", 1), ("roundabout", 2)])
def test_random_is_repeatable_and_draws_as_a_seeded_action_space_does(
    task: str, count: int
) -> None:
    """The paper's own row cannot be had again: highway-env makes a new, unseeded action space in
    every reset."""
    engine = engine_scores(task, load(task).programs["random"], count)
    by_hand = []
    for index in range(count):
        env = load(task).open()
        env.reset(seed=case(task, index))
        env.action_space.seed(case(task, index) + 1)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, over = total + float(reward), terminated or truncated
        by_hand.append(total)
    assert engine == by_hand


@pytest.mark.slow
@pytest.mark.parametrize(("task", "reached"), [("parking", -9.0), ("roundabout", 9.5)])
def test_the_reference_program_solves_the_task_through_the_engine(
    task: str, reached: float
) -> None:
    assert math.fsum(engine_scores(task, REFERENCE / task, 4)) / 4 > reached


@pytest.mark.parametrize(("task", "weak"), [("parking", -15.0), ("roundabout", 8.5)])
def test_the_first_programs_are_weak(task: str, weak: float) -> None:
    benchmark = load(task)
    outcome = run_program(benchmark, benchmark.programs["initial"], EpisodeSpec(0, 0, 0), steps=50)
    assert outcome.episode_return < weak
    assert not outcome.measures.get("parked")


@pytest.mark.parametrize("task", ["parking", "roundabout"])
def test_a_replay_shows_something_without_a_screen(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = load(task).open(render_mode="rgb_array")
    try:
        env.reset(seed=0)
        picture = env.render()
    finally:
        env.close()
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3
