"""Pendulum and Acrobot: swing up what hangs down."""

from __future__ import annotations

import math
from typing import Any

from evopolicy.authoring import Column, Field, Measure, Profile

_UPRIGHT = 0.2


def _angle(observation: Any, _: Any) -> float:
    return math.atan2(observation[1], observation[0])


def _upright(observation: Any, _: Any) -> float:
    return float(abs(math.atan2(observation[1], observation[0])) < _UPRIGHT)


def _tip_height(observation: Any, _: Any) -> float:
    cos1, sin1, cos2, sin2 = (float(x) for x in observation[:4])
    return -cos1 - (cos1 * cos2 - sin1 * sin2)


def _torque_cost(_: Any, action: Any) -> float:
    return 0.001 * float(action[0]) ** 2


PENDULUM = Profile(
    slug="pendulum",
    id="classic_control/Pendulum-v1",
    env_id="Pendulum-v1",
    title="Pendulum",
    goal=(
        "A rod hangs from a fixed pivot with a motor. Bring it upright and hold it there, still "
        "and with little torque. The motor's largest torque is too small to lift the rod from "
        "hanging in one go.\n\n"
        "The rod has 1 kg and 1 m, gravity is 10 m/s^2, and a step lasts 0.05 s. With `theta` the "
        "angle from upright, its acceleration is `15 sin(theta) + 3 torque`. Every Episode starts "
        "at an angle drawn uniformly from -pi to pi and an angular velocity drawn uniformly from "
        "-1 to 1 rad/s."
    ),
    scoring=(
        "Every step gives the reward `-(theta^2 + 0.1 angular_velocity^2 + 0.001 torque^2)`, with "
        "`theta` between -pi and pi, 0 upright, and both numbers as they were before the step: "
        "between -16.2736 and 0. The score of an Episode is the sum over its 200 steps; the best "
        "imaginable is 0. A Policy that fails in an Episode scores -3255 in it, just below the "
        "least sum there can be (200 x -16.2736): giving up never pays."
    ),
    ending="Never terminated. **Truncated** after 200 steps.",
    failure_score=-3255.0,
    observation_fields=(
        Field(
            "cos_theta", "1", -1.0, 1.0, "Cosine of the angle from upright: 1 upright, -1 hanging."
        ),
        Field(
            "sin_theta",
            "1",
            -1.0,
            1.0,
            "Sine of the angle from upright, positive counter-clockwise.",
        ),
        Field(
            "angular_velocity", "rad/s", -8.0, 8.0, "Positive counter-clockwise; cut to this range."
        ),
    ),
    action_fields=(Field("torque", "N m", -2.0, 2.0, "At the pivot, positive counter-clockwise."),),
    action_text="An array of one number.",
    columns=(
        Column("theta", "rad", "Angle from upright, -pi to pi.", _angle),
        Column("upright", "1", "1 where the rod is less than 0.2 rad from upright.", _upright),
        Column("torque_cost", "", "This step's 0.001 torque^2.", _torque_cost),
    ),
    measures=(
        Measure("mean_abs_theta", "rad", "Mean distance from upright.", "theta", "mean_abs"),
        Measure(
            "fraction_upright",
            "1",
            "Share of steps less than 0.2 rad from upright.",
            "upright",
            "mean",
        ),
        Measure("final_theta", "rad", "Angle from upright at the end.", "theta", "last"),
        Measure("final_angular_velocity", "rad/s", "At the end.", "angular_velocity", "last"),
        Measure("torque_cost", "", "Sum of the reward's torque term.", "torque_cost", "sum"),
    ),
)

ACROBOT = Profile(
    slug="acrobot",
    id="classic_control/Acrobot-v1",
    env_id="Acrobot-v1",
    title="Acrobot",
    goal=(
        "Two links hang in a chain from a fixed pivot; the only motor is at the joint between "
        "them. Bring the free end above the target height in as few steps as possible.\n\n"
        "Each link has 1 kg and 1 m, with its centre of mass in the middle; gravity is 9.8 m/s^2; "
        "a step lasts 0.2 s. With `theta1` the first link's angle (0 hanging down) and `theta2` "
        "the second's relative to the first (0 straight on), the free end is `-cos(theta1) - "
        "cos(theta1 + theta2)` m above the pivot. Every Episode starts with both angles and both "
        "velocities drawn uniformly from -0.1 to 0.1."
    ),
    scoring=(
        "Every step gives the reward -1, the step that reaches the target 0. The score of an "
        "Episode is the sum: from -500, when the target is never reached, upwards. A Policy that "
        "fails in an Episode scores -500 in it, as much as one that never reaches the target."
    ),
    ending=(
        "**Terminated** when the free end is more than 1 m above the pivot: "
        "`-cos(theta1) - cos(theta1 + theta2) > 1`. **Truncated** after 500 steps."
    ),
    failure_score=-500.0,
    observation_fields=(
        Field(
            "cos_theta1", "1", -1.0, 1.0, "Cosine of the first link's angle: 1 hanging, -1 upright."
        ),
        Field("sin_theta1", "1", -1.0, 1.0, "Sine of the first link's angle."),
        Field(
            "cos_theta2",
            "1",
            -1.0,
            1.0,
            "Cosine of the second link's angle relative to the first: 1 straight on.",
        ),
        Field(
            "sin_theta2", "1", -1.0, 1.0, "Sine of the second link's angle relative to the first."
        ),
        Field(
            "theta1_velocity", "rad/s", -4 * math.pi, 4 * math.pi, "Of theta1; cut to this range."
        ),
        Field(
            "theta2_velocity", "rad/s", -9 * math.pi, 9 * math.pi, "Of theta2; cut to this range."
        ),
    ),
    action_fields=(
        Field(
            "torque",
            "",
            0,
            2,
            "0 is a torque of -1 N m at the joint between the links, 1 none, 2 +1.",
        ),
    ),
    columns=(
        Column(
            "tip_height",
            "m",
            "Of the free end above the pivot; -2 hanging, 2 upright.",
            _tip_height,
        ),
    ),
    measures=(
        Measure(
            "reached_target",
            "",
            "Whether the free end rose above 1 m.",
            how=lambda episode: episode.terminated,
        ),
        Measure(
            "max_tip_height", "m", "Highest the free end came above the pivot.", "tip_height", "max"
        ),
        Measure(
            "max_abs_theta1_velocity",
            "rad/s",
            "Fastest swing of the first link.",
            "theta1_velocity",
            "max_abs",
        ),
        Measure(
            "max_abs_theta2_velocity",
            "rad/s",
            "Fastest swing of the second link.",
            "theta2_velocity",
            "max_abs",
        ),
    ),
)
