"""What tasks with goals share: where the numbers of a structured observation are, distances,
measures of success."""

from __future__ import annotations

import math
from typing import Any

from evopolicy.authoring import Column, Episode, Field, Measure, Value

IMPORTS = ("gymnasium_robotics",)
DRAWING: dict[str, Value] = {"width": 320, "height": 240}
AXES = {"x": "along x", "y": "along y", "z": "upward"}


def points(name: str, unit: str, meaning: str, axes: str = "xyz") -> tuple[Field, ...]:
    return tuple(
        Field(f"{name}_{axis}", unit, meaning=f"{meaning}, {AXES[axis]}.") for axis in axes
    )


def goal_distance(observation: Any, _: Any) -> float:
    return math.dist(observation["achieved_goal"].tolist(), observation["desired_goal"].tolist())


GOAL_DISTANCE = Column("goal_distance", "m", "Of achieved_goal from desired_goal.", goal_distance)


def steps_at_goal(within: float) -> Measure:
    return Measure(
        "steps_at_goal",
        "steps",
        "Steps that ended at the goal.",
        how=lambda episode: int((episode.series["goal_distance"].values <= within).sum()),
    )


def first_step_at_goal(within: float) -> Measure:
    return Measure(
        "first_step_at_goal",
        "steps",
        "The first step that ended at the goal; nothing where none did.",
        how=lambda episode: _first(episode, within),
    )


def at_goal_at_end(within: float) -> Measure:
    return Measure(
        "at_goal_at_end",
        "",
        "Whether the last step ended at the goal.",
        how=lambda episode: bool((episode.series["goal_distance"].values[-1:] <= within).any()),
    )


def goal_measures(within: float) -> tuple[Measure, ...]:
    """Measures of every task with a goal that counts as reached `within` so many m."""
    return (
        at_goal_at_end(within),
        steps_at_goal(within),
        first_step_at_goal(within),
        Measure(
            "final_goal_distance",
            "m",
            "Distance from the goal at the end.",
            "goal_distance",
            "last",
        ),
        Measure("min_goal_distance", "m", "Nearest it came to the goal.", "goal_distance", "min"),
    )


def _first(episode: Episode, within: float) -> Value:
    there = (episode.series["goal_distance"].values <= within).nonzero()[0]
    return int(there[0]) + 1 if len(there) else None
