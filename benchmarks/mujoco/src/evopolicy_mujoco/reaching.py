"""Arms: Reacher and Pusher."""

from __future__ import annotations

import math
from typing import Any

from evopolicy.authoring import Column, Field, Measure, Profile
from evopolicy_mujoco.parts import (
    CONTROL,
    CONTROL_REWARD,
    STILL,
    Joint,
    angles,
    torques,
    velocities,
)


def _reacher_distance(observation: Any, _: Any) -> float:
    return math.hypot(observation[8], observation[9])


REACHER = Profile(
    slug="reacher",
    id="mujoco/Reacher-v5",
    env_id="Reacher-v5",
    title="Reacher",
    goal=(
        "An arm of two links turns in a plane around a fixed point. Two motors turn its joints. "
        "Bring the fingertip to the target and hold it there, with little torque.\n\n"
        "The links are 0.1 and 0.11 m long; a step lasts 0.02 s; there is no gravity in the "
        "plane. Every Episode starts with the arm almost straight along x (angles within 0.1 "
        "rad), almost at rest, and a target drawn uniformly from the disc of radius 0.2 m around "
        "the fixed point; it stays where it is."
    ),
    scoring=(
        "Every step gives the reward `-(distance + control)`: `distance` is that of the fingertip "
        "from the target in m after the step, `control` is the sum of the squared Actions (0 to "
        "2). The score of an Episode is the sum over its 50 steps. A Policy that fails in an "
        "Episode scores at most -121 in it, just below the least sum there can be: full torque "
        "for 50 steps at the largest distance."
    ),
    ending="Never terminated. **Truncated** after 50 steps.",
    failure_score=-121.0,
    observation_fields=(
        Field(
            "cos_first",
            "1",
            -1,
            1,
            "Cosine of the first link's angle: 0 rad along x, positive counter-clockwise.",
        ),
        Field("cos_second", "1", -1, 1, "Cosine of the second link's angle relative to the first."),
        Field("sin_first", "1", -1, 1, "Sine of the first link's angle."),
        Field("sin_second", "1", -1, 1, "Sine of the second link's angle relative to the first."),
        Field("target_x", "m", -0.2, 0.2, "The fixed point of the arm is 0."),
        Field("target_y", "m", -0.2, 0.2, "The fixed point of the arm is 0."),
        Field("first_velocity", "rad/s", meaning="Of the first link's angle."),
        Field(
            "second_velocity", "rad/s", meaning="Of the second link's angle relative to the first."
        ),
        Field("offset_x", "m", meaning="Fingertip less target."),
        Field("offset_y", "m", meaning="Fingertip less target."),
    ),
    observation_text="The first link turns freely; the second stops at -3 and 3 rad against the "
    "first.",
    action_fields=(
        Field(
            "first_torque",
            "",
            -1,
            1,
            "Share of the largest torque at the fixed point, positive counter-clockwise.",
        ),
        Field("second_torque", "", -1, 1, "The same at the joint between the links."),
    ),
    action_text="An array of two numbers.",
    columns=(
        Column("distance", "m", "Of the fingertip from the target.", _reacher_distance),
        Column("reward_dist", "", "The reward's term for distance, 0 or less."),
        CONTROL,
    ),
    measures=(
        Measure(
            "final_distance",
            "m",
            "Of the fingertip from the target at the end.",
            "distance",
            "last",
        ),
        Measure("min_distance", "m", "Nearest the fingertip came.", "distance", "min"),
        Measure("distance_reward", "", "Sum of the reward's distance term.", "reward_dist", "sum"),
        CONTROL_REWARD,
    ),
    drawing=STILL,
)

_ARM = (
    Joint("shoulder_pan", "Turn of the shoulder about the vertical", -2.285, 1.715, 1),
    Joint("shoulder_lift", "Of the upper arm, positive downward", -0.524, 1.396, 1),
    Joint("upper_arm_roll", "Of the upper arm about its own axis", -1.5, 1.7, 1),
    Joint("elbow_flex", "Of the elbow", -2.321, 0.0, 1),
    Joint("forearm_roll", "Of the forearm about its own axis", -1.5, 1.5, 1),
    Joint("wrist_flex", "Of the wrist", -1.094, 0.0, 1),
    Joint("wrist_roll", "Of the hand about its own axis", -1.5, 1.5, 1),
)


def _points(name: str, meaning: str) -> tuple[Field, ...]:
    return tuple(
        Field(f"{name}_{axis}", "m", meaning=f"{meaning}, along {axis}.") for axis in "xyz"
    )


def _object_distance(observation: Any, _: Any) -> float:
    return math.dist(observation[17:20].tolist(), observation[20:23].tolist())


def _tip_distance(observation: Any, _: Any) -> float:
    return math.dist(observation[14:17].tolist(), observation[17:20].tolist())


PUSHER = Profile(
    slug="pusher",
    id="mujoco/Pusher-v5",
    env_id="Pusher-v5",
    title="Pusher",
    goal=(
        "An arm of seven joints, much like a human one, stands beside a table with a cylinder on "
        "it. Push the cylinder to the goal and leave it there, with little torque.\n\n"
        "A step lasts 0.05 s; there is no gravity. The cylinder slides on the table in x and y "
        "only. Every Episode starts with the arm stretched out along x, almost at rest. The goal "
        "is always at (0.45, -0.05, -0.323); the cylinder is drawn uniformly, its x within 0.2 m "
        "of the goal's, its y up to 0.3 m below the goal's, more than 0.17 m away from it."
    ),
    scoring=(
        "Every step gives the reward `-(to_goal + 0.5 to_tip + control)`: `to_goal` is the "
        "distance of the cylinder from the goal and `to_tip` that of the fingertip from the "
        "cylinder, both in m and in space, after the step; `control` is 0.1 times the sum of the "
        "squared Actions (0 to 2.8). The score of an Episode is the sum over its 100 steps. The "
        "cylinder lies 0.048 m above the goal's centre at best. A Policy that fails in an Episode "
        "scores at most -500 in it, less than full torque at the arm's full reach would cost."
    ),
    ending="Never terminated. **Truncated** after 100 steps.",
    failure_score=-500.0,
    observation_fields=(
        *angles(_ARM),
        *velocities(_ARM),
        *_points("tip", "Place of the fingertip"),
        *_points("object", "Place of the cylinder"),
        *_points("goal", "Place of the goal, always the same"),
    ),
    observation_text="The base of the arm is at (0, -0.6, 0); z points up.",
    action_fields=torques(_ARM, 2.0),
    action_text="An array of seven numbers.",
    columns=(
        Column("object_to_goal", "m", "Distance of the cylinder from the goal.", _object_distance),
        Column("tip_to_object", "m", "Distance of the fingertip from the cylinder.", _tip_distance),
        Column("reward_dist", "", "The reward's term for the cylinder's distance, 0 or less."),
        Column("reward_near", "", "The reward's term for the fingertip's distance, 0 or less."),
        CONTROL,
    ),
    measures=(
        Measure(
            "final_object_to_goal",
            "m",
            "Distance of cylinder and goal at the end.",
            "object_to_goal",
            "last",
        ),
        Measure(
            "min_object_to_goal",
            "m",
            "Nearest the cylinder came to the goal.",
            "object_to_goal",
            "min",
        ),
        Measure(
            "min_tip_to_object",
            "m",
            "Nearest the fingertip came to the cylinder.",
            "tip_to_object",
            "min",
        ),
        Measure(
            "distance_reward",
            "",
            "Sum of the reward's term for the cylinder.",
            "reward_dist",
            "sum",
        ),
        Measure(
            "near_reward", "", "Sum of the reward's term for the fingertip.", "reward_near", "sum"
        ),
        CONTROL_REWARD,
    ),
    drawing=STILL,
)
