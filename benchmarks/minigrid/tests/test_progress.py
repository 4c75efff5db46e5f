"""What is counted beside a MiniGrid Episode is what happened in it, and the text grids show what
was seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evopolicy_minigrid import grids, load, load_any
from evopolicy_minigrid.progress import Progress, view_offsets

from evopolicy.authoring import EpisodeResult, EpisodeSpec, Outcome, read_trace, rollout

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)


def script(*actions: int) -> Callable[[Any], int]:
    """These Actions in turn, then done."""
    left = list(actions)
    return lambda _: left.pop(0) if left else DONE


@pytest.fixture
def stage() -> Any:
    """A DoorKey Environment whose grid tests arrange: the agent at (1, 1) looking right, nothing
    but walls around."""
    env = load("minigrid_door_key").open()
    progress = Progress(env)
    progress.reset(seed=0)
    task = env.unwrapped
    for x in range(1, 15):
        for y in range(1, 15):
            task.grid.set(x, y, None)
    task.agent_pos, task.agent_dir = (1, 1), 0
    yield progress, task
    env.close()


def step(progress: Progress, *actions: int) -> dict[str, Any]:
    info: dict[str, Any] = {}
    for action in actions:
        info = progress.step(action)[4]
    return info


def test_a_key_taken_and_the_door_it_opens_are_counted(stage: Any) -> None:
    from minigrid.core.world_object import Door, Key

    progress, task = stage
    task.grid.set(2, 1, Key("red"))
    task.grid.set(2, 2, Door("red", is_locked=True))
    task.agent_pos = (1, 2)
    info = step(progress, TOGGLE)
    assert (info["idle_actions"], info["locked_doors_opened"]) == (1, 0)
    task.agent_pos = (1, 1)
    info = step(progress, PICKUP)
    assert (info["keys_taken"], info["objects_taken"], info["carried_object"]) == (1, 1, 5)
    task.agent_pos = (1, 2)
    assert step(progress, TOGGLE)["locked_doors_opened"] == 1
    assert step(progress, TOGGLE)["locked_doors_opened"] == 1, "closing is no opening"
    info = step(progress, TOGGLE)
    assert (info["locked_doors_opened"], info["doors_opened"]) == (1, 1)
    assert info["idle_actions"] == 1


def test_a_box_is_opened_and_a_ball_moved(stage: Any) -> None:
    from minigrid.core.world_object import Ball, Box, Key

    progress, task = stage
    task.grid.set(2, 1, Box("grey", contains=Key("blue")))
    info = step(progress, TOGGLE)
    assert (info["boxes_opened"], info["key_in_view"], info["keys_taken"]) == (1, 1, 0)
    task.grid.set(2, 1, Ball("green"))
    info = step(progress, PICKUP, RIGHT, DROP)
    assert (
        info["balls_taken"],
        info["objects_taken"],
        info["carried_object"],
        info["idle_actions"],
    ) == (1, 1, 0, 0)


def test_a_box_with_nothing_in_it_is_opened_too(stage: Any) -> None:
    from minigrid.core.world_object import Box

    progress, task = stage
    task.grid.set(2, 1, Box("grey"))
    info = step(progress, TOGGLE)
    assert (info["boxes_opened"], info["idle_actions"]) == (1, 0)


def test_what_changes_nothing_is_counted(stage: Any) -> None:
    progress, _ = stage
    start = step(progress, LEFT, RIGHT)["cells_visited"]
    info = step(progress, PICKUP, DROP, TOGGLE, DONE, LEFT, FORWARD, FORWARD)
    assert (info["idle_actions"], info["bumps"]) == (4, 2)
    assert (info["agent_x"], info["agent_y"], info["cells_visited"]) == (1, 1, start)
    info = step(progress, RIGHT, FORWARD)
    assert (info["agent_x"], info["cells_visited"], info["bumps"]) == (2, start + 1, 2)


@pytest.mark.parametrize("seed", range(3))
def test_seen_cells_are_those_the_simulator_shows(seed: int) -> None:
    """Every cell in view, turned back to the grid, is what stands there."""
    env = load("minigrid_key_corridor").open()
    progress = Progress(env)
    observation, info = progress.reset(seed=seed)
    rng = np.random.default_rng(seed)
    task = env.unwrapped
    seen: set[tuple[int, int]] = set()
    for _ in range(80):
        image = observation["image"]
        dx, dy = view_offsets(7)[int(task.agent_dir)]
        for i in range(7):
            for j in range(7):
                x, y = int(task.agent_pos[0] + dx[i, j]), int(task.agent_pos[1] + dy[i, j])
                if image[i, j, 0] and 0 <= x < task.width and 0 <= y < task.height:
                    seen.add((x, y))
                    cell = task.grid.get(x, y)
                    if (i, j) != (3, 6):
                        assert image[i, j].tolist() == list(
                            cell.encode() if cell is not None else (1, 0, 0)
                        )
        assert info["cells_seen"] == len(seen)
        observation, _, terminated, _, info = progress.step(
            int(rng.choice([LEFT, RIGHT, FORWARD, FORWARD, TOGGLE]))
        )
        if terminated:
            break
    env.close()


def test_measures_say_when_subgoals_were_reached(tmp_path: Path) -> None:
    outcome, _ = solved_door_key(tmp_path)
    told: dict[str, Any] = dict(outcome.measures)
    assert told["solved"] is told["key_found"] is told["door_opened"] is True
    assert told["subgoals_reached"] == 3
    assert (
        0
        <= told["key_seen_step"]
        <= told["key_found_step"]
        < told["door_opened_step"]
        < told["steps_to_solve"]
    )
    assert told["target_seen_step"] <= told["steps_to_solve"] == outcome.length
    assert outcome.episode_return == pytest.approx(1 - 0.9 * outcome.length / 2560)


def test_what_never_happened_has_no_step() -> None:
    outcome = rollout(load("minigrid_key_corridor"), EpisodeSpec(0, 1, 1), lambda _: DONE, steps=5)
    told = dict(outcome.measures)
    assert (told["solved"], told["key_found"], told["door_opened"], told["subgoals_reached"]) == (
        False,
        False,
        False,
        0,
    )
    assert told["steps_to_solve"] is told["key_found_step"] is told["door_opened_step"] is None
    assert told["idle_actions"] == 5


def test_what_is_in_view_at_the_reset_is_seen_at_step_0() -> None:
    benchmark = load_any("MiniGrid-Fetch-5x5-N2-v0")
    env = benchmark.open()
    seeds = [seed for seed in range(40) if (env.reset(seed=seed)[0]["image"][:, :, 0] == 5).any()]
    env.close()
    outcome = rollout(benchmark, EpisodeSpec(0, seeds[0], 1), lambda _: DONE, steps=1)
    assert outcome.measures["key_seen_step"] == 0


def test_rooms_are_counted() -> None:
    outcome = rollout(load("minigrid_four_rooms"), EpisodeSpec(0, 1, 1), lambda _: LEFT, steps=4)
    assert outcome.measures["rooms_visited"] == 1


# --- text grids -----------------------------------------------------------------------------------


def solved_door_key(tmp_path: Path) -> tuple[Outcome, Path]:
    """An Episode of DoorKey with the reference planner, in this process."""
    import sys

    from evopolicy.authoring import run_program

    folder = Path(__file__).parent / "reference" / "any_task"
    sys.path.insert(0, str(folder))
    try:
        outcome = run_program(
            load("minigrid_door_key"), folder, EpisodeSpec(3, 5, 5), trace=tmp_path / "t"
        )
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("planner", None)
    return outcome, tmp_path / "t"


def written(trace: Path, folder: Path, outcome: Outcome) -> dict[str, str]:
    artifacts = load("minigrid_door_key").artifacts(
        [EpisodeResult(outcome.index, outcome, trace=trace)], folder
    )
    assert {a.name for a in artifacts} == {
        f"episodes/{n}" for n in ("traces.json", "0003.npz", "0003.txt", "grids.txt")
    }
    return {a.name: a.path.read_text() for a in artifacts if a.media_type == "text/plain"}


def test_an_episode_is_told_as_views_and_a_map(tmp_path: Path) -> None:
    outcome, trace = solved_door_key(tmp_path)
    text = written(trace, tmp_path / "f", outcome)["episodes/0003.txt"]
    heads = re.findall(r"^step (\d+)", text, re.MULTILINE)
    assert heads == [str(n) for n in range(outcome.length + 1)]
    assert "mission: use the key to open the door" in text
    assert "carries Ky" in text
    assert "terminated" in text.split("map of")[0].splitlines()[-9]
    drawn = text[text.index("map of") :]
    assert "/y" in drawn, "the open door"
    assert ",," in drawn
    assert len(re.findall(r">>|<<|vv|\^\^", drawn)) == 1


def test_the_map_is_the_grid_as_far_as_it_was_seen(tmp_path: Path) -> None:
    benchmark = load("minigrid_obstructed_maze")
    rng = np.random.default_rng(2)
    actions = [int(a) for a in rng.choice([LEFT, RIGHT, FORWARD, FORWARD], 60)]
    rollout(benchmark, EpisodeSpec(0, 11, 1), script(*actions), trace=tmp_path / "t", steps=60)
    env = benchmark.open()
    env.reset(seed=11)
    for action in actions:
        env.step(action)
    task = env.unwrapped
    text = grids.episode_text(read_trace(tmp_path / "t"))
    head, *lines = text[text.index("map of") :].splitlines()
    left, top = map(int, re.findall(r"-?\d+", head))
    for y, line in enumerate(lines, top):
        for x, shown in enumerate(re.findall("..", line), left):
            if shown.strip() and 0 <= x < task.width and 0 <= y < task.height:
                assert_shown(shown, task, x, y)
    env.close()


def assert_shown(shown: str, task: Any, x: int, y: int) -> None:
    if (x, y) == tuple(task.agent_pos):
        assert shown == ">v<^"[task.agent_dir] * 2
        return
    cell = task.grid.get(x, y)
    if cell is None:
        assert shown in (" .", ",,")
    elif cell.type == "wall":
        assert shown == "##"
    else:
        letters = {
            "door": "L" if getattr(cell, "is_locked", False) else "D",
            "key": "K",
            "ball": "O",
            "box": "B",
        }
        assert shown == letters[cell.type] + {"grey": "e"}.get(cell.color, cell.color[0])


def test_long_episodes_keep_both_ends_and_count_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grids, "VIEWS", 10)
    rollout(
        load("minigrid_four_rooms"),
        EpisodeSpec(0, 1, 1),
        lambda _: LEFT,
        trace=tmp_path / "t",
        steps=30,
    )
    text = grids.episode_text(read_trace(tmp_path / "t"))
    assert re.findall(r"^step (\d+)", text, re.MULTILINE) == [
        str(n) for n in (0, 1, 2, 3, 4, 26, 27, 28, 29, 30)
    ]
    assert "[21 steps left out]" in text


def test_episodes_beyond_the_bound_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grids, "TOTAL_BYTES", 100)
    results: Sequence[EpisodeResult] = [
        EpisodeResult(
            i,
            rollout(
                load("minigrid_four_rooms"),
                EpisodeSpec(i, i, i),
                script(),
                trace=tmp_path / str(i),
                steps=2,
            ),
            trace=tmp_path / str(i),
        )
        for i in range(3)
    ]
    files = {a.name: a.path for a in grids.write_grids(results, tmp_path / "f", first=[2])}
    assert set(files) == {"episodes/grids.txt", "episodes/0002.txt"}
    assert "Episodes not written: 0, 1." in files["episodes/grids.txt"].read_text()


def test_no_episode_makes_no_file(tmp_path: Path) -> None:
    assert grids.write_grids([], tmp_path) == []
