"""A ball in a maze: PointMaze."""

from __future__ import annotations

import math
from typing import Any

from evopolicy.authoring import Column, Field, Measure, Profile
from evopolicy_robotics.goals import DRAWING, GOAL_DISTANCE, IMPORTS, goal_measures, points


def _speed(observation: Any, _: Any) -> float:
    return math.hypot(*observation["observation"][2:4].tolist())


POINT_MAZE_MEDIUM = Profile(
    slug="point_maze_medium",
    id="robotics/PointMaze_Medium-v3",
    env_id="PointMaze_Medium-v3",
    title="PointMaze, medium",
    goal=(
        "A ball rolls on the floor of a maze, pushed by a force along x and one along y. Bring it to the goal and "
        "keep it there.\n\nThe maze is the same in every Episode: 8 by 8 cells of 1 m, the origin in its middle, x "
        "to the right and y up in this map (`#` is wall, the middle of the upper left free cell is x = -2.5, y = "
        "2.5):\n\n```\n########\n#..##..#\n#..#...#\n##...###\n#..#...#\n#.#..#.#\n#...#..#\n########\n```\n\nThe "
        "ball's radius is 0.1 m, its mass 4.2 kg; the floor damps it by 1 N per m/s; a step lasts 0.01 s. Its speed "
        "along each axis is cut to 5 m/s before every step. Every Episode starts at rest in a free cell, with the "
        "goal in another one; both are drawn uniformly and lie up to 0.25 m off the middle of their cells along each "
        "axis."
    ),
    scoring=(
        "A step gives the reward 1 when it ends with the ball at most 0.45 m from the goal, else "
        "0. The score of an Episode is their sum: the number of its 600 steps that ended at the "
        "goal. A Policy that fails in an Episode scores 0 in it."
    ),
    ending="Never terminated: reaching the goal does not end it. **Truncated** after 600 steps.",
    failure_score=0.0,
    observation_fields=(
        *points("achieved", "m", "Place of the ball", "xy"),
        *points("desired", "m", "Place of the goal, the same for the whole Episode", "xy"),
        *points("ball", "m", "Place of the ball again", "xy"),
        *points("velocity", "m/s", "Of the ball", "xy"),
    ),
    observation_text=(
        "A dict of three arrays: `achieved_goal` (the fields achieved_x, achieved_y), "
        "`desired_goal` (desired_x, desired_y) and `observation` (ball_x to velocity_y)."
    ),
    action_fields=(
        Field("force_x", "100 N", -1, 1, "Force on the ball along x."),
        Field("force_y", "100 N", -1, 1, "Force on the ball along y."),
    ),
    action_text="An array of two numbers.",
    columns=(GOAL_DISTANCE, Column("speed", "m/s", "Of the ball.", _speed)),
    measures=(
        *goal_measures(0.45),
        Measure("mean_speed", "m/s", "Mean speed of the ball.", "speed", "mean"),
        Measure("top_speed", "m/s", "Largest speed of the ball after a step.", "speed", "max"),
    ),
    imports=IMPORTS,
    drawing=DRAWING,
)
