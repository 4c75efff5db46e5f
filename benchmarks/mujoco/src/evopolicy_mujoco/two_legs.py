"""Humanoid and HumanoidStandup: a body of thirteen parts and seventeen motors."""

from __future__ import annotations

from evopolicy.authoring import Column, Field, Measure, Profile
from evopolicy_mujoco.parts import (
    CONTACT,
    CONTACT_REWARD,
    CONTROL,
    CONTROL_REWARD,
    DISTANCE,
    FELL,
    FORWARD,
    FORWARD_REWARD,
    FORWARD_SPEED,
    SIDEWAYS,
    SIDEWAYS_SPEED,
    SPEED,
    SURVIVE,
    SURVIVE_REWARD,
    TRACKED,
    X_POSITION,
    Y_POSITION,
    Joint,
    angles,
    torques,
    velocities,
)

_JOINTS = (
    Joint("abdomen_z", "Twist of the waist", -0.785, 0.785, 100),
    Joint("abdomen_y", "Bend of the waist forward", -1.309, 0.524, 100),
    Joint("abdomen_x", "Bend of the waist sideways", -0.611, 0.611, 100),
    Joint("right_hip_x", "Of the right thigh sideways", -0.436, 0.087, 100),
    Joint("right_hip_z", "Twist of the right thigh", -1.047, 0.611, 100),
    Joint("right_hip_y", "Of the right thigh, negative forward", -1.92, 0.349, 300),
    Joint("right_knee", "Of the right knee, more negative is more bent", -2.793, -0.035, 200),
    Joint("left_hip_x", "Of the left thigh sideways", -0.436, 0.087, 100),
    Joint("left_hip_z", "Twist of the left thigh", -1.047, 0.611, 100),
    Joint("left_hip_y", "Of the left thigh, negative forward", None, None, 300),
    Joint("left_knee", "Of the left knee, more negative is more bent", -2.793, -0.035, 200),
    Joint("right_shoulder1", "First turn of the right shoulder", -1.484, 1.047, 25),
    Joint("right_shoulder2", "Second turn of the right shoulder", -1.484, 1.047, 25),
    Joint("right_elbow", "Of the right elbow", -1.571, 0.873, 25),
    Joint("left_shoulder1", "First turn of the left shoulder", -1.047, 1.484, 25),
    Joint("left_shoulder2", "Second turn of the left shoulder", -1.047, 1.484, 25),
    Joint("left_elbow", "Of the left elbow", -1.571, 0.873, 25),
)
# The motors stand in another order than the joints: bend of the waist before its twist.
_MOTORS = (_JOINTS[1], _JOINTS[0], *_JOINTS[2:])
_BODIES = (
    "torso",
    "lower_waist",
    "pelvis",
    "right_thigh",
    "right_shin",
    "right_foot",
    "left_thigh",
    "left_shin",
    "left_foot",
    "right_upper_arm",
    "right_lower_arm",
    "left_upper_arm",
    "left_lower_arm",
)
_INERTIA = ("xx", "yy", "zz", "xy", "xz", "yz")


def _inertias() -> tuple[Field, ...]:
    fields: list[Field] = []
    for body in _BODIES:
        fields += [
            Field(f"{body}_inertia_{a}", "kg m^2", meaning="About the body's centre of mass.")
            for a in _INERTIA
        ]
        fields += [
            Field(f"{body}_moment_{a}", "kg m", meaning="Mass times offset of its centre.")
            for a in "xyz"
        ]
        fields.append(Field(f"{body}_mass", "kg", meaning="Always the same."))
    return tuple(fields)


def _six(first: tuple[str, str], second: tuple[str, str], meaning: str) -> tuple[Field, ...]:
    return tuple(
        Field(f"{body}_{name}_{axis}", unit, meaning=meaning)
        for body in _BODIES
        for name, unit in (first, second)
        for axis in "xyz"
    )


_OBSERVATION = (
    Field(
        "torso_height", "m", meaning="Of the torso's centre above the ground; 1.4 when standing."
    ),
    Field(
        "torso_w",
        "1",
        -1.0,
        1.0,
        "Orientation as a unit quaternion: (1, 0, 0, 0) upright and facing along x.",
    ),
    Field("torso_x", "1", -1.0, 1.0, "Orientation, x part."),
    Field("torso_y", "1", -1.0, 1.0, "Orientation, y part."),
    Field("torso_z", "1", -1.0, 1.0, "Orientation, z part."),
    *angles(_JOINTS),
    Field("x_velocity", "m/s", meaning="Of the torso along x."),
    Field("y_velocity", "m/s", meaning="Of the torso along y."),
    Field("z_velocity", "m/s", meaning="Of the torso upward."),
    *(
        Field(f"torso_{a}_rate", "rad/s", meaning=f"Turn about the torso's own {a} axis.")
        for a in "xyz"
    ),
    *velocities(_JOINTS),
    *_inertias(),
    *_six(
        ("turn", "rad/s"),
        ("speed", "m/s"),
        "Velocity of the part, taken at the centre of mass of the whole.",
    ),
    *(
        Field(f"{j.name}_applied", "N m", meaning=f"Torque its motor applies to {j.name}_angle.")
        for j in _JOINTS
    ),
    *_six(
        ("torque", "N m"),
        ("force", "N"),
        "Of contacts on the part, taken at the centre of mass of the whole.",
    ),
)
_OBSERVATION_TEXT = (
    "The place on the ground is no part of the observation. After positions (22) and velocities "
    "(23) come, for each of the thirteen parts, its inertia (10 numbers), its velocity (6), then "
    "the motors' torques (17) and the contact torque and force on each part (6)."
)
_ACTION_TEXT = (
    "An array of seventeen numbers from -0.4 to 0.4, each times its motor's gear the torque. The "
    "bend of the waist comes before its twist, unlike in the observation."
)

HUMANOID = Profile(
    slug="humanoid",
    id="mujoco/Humanoid-v5",
    env_id="Humanoid-v5",
    title="Humanoid",
    goal=(
        "A body with two legs and two arms stands on flat ground. Seventeen motors turn its "
        "joints. Make it walk or run in the direction of positive x as fast as possible without "
        "falling.\n\n"
        "It weighs 42 kg; a step lasts 0.015 s. Every Episode starts upright and facing along x, "
        "each position and velocity off by up to 0.01."
    ),
    scoring=(
        "Every step gives the reward `5 + forward - control - contact`, without the 5 in the step "
        "that terminates: `forward` is 1.25 times the mean speed of the centre of mass along x "
        "over the step in m/s, `control` is 0.1 times the sum of the squared Actions (0 to 0.27), "
        "`contact` is 0.0000005 times the sum of the squared contact forces and torques, at most "
        "10. The score of an Episode is the sum. A Policy that fails in an Episode scores at most "
        "0 in it, less than falling over at once."
    ),
    ending="**Terminated** when the torso's height leaves 1.0 to 2.0 m. **Truncated** after 1,000 "
    "steps.",
    failure_score=0.0,
    observation_fields=_OBSERVATION,
    observation_text=_OBSERVATION_TEXT,
    action_fields=torques(_MOTORS, 0.4),
    action_text=_ACTION_TEXT,
    columns=(
        X_POSITION,
        Y_POSITION,
        FORWARD_SPEED,
        SIDEWAYS_SPEED,
        FORWARD,
        CONTROL,
        CONTACT,
        SURVIVE,
    ),
    measures=(
        FELL,
        DISTANCE,
        SPEED,
        SIDEWAYS,
        FORWARD_REWARD,
        CONTROL_REWARD,
        CONTACT_REWARD,
        SURVIVE_REWARD,
        Measure("final_torso_height", "m", "At the end.", "torso_height", "last"),
    ),
    drawing=TRACKED,
)

HUMANOID_STANDUP = Profile(
    slug="humanoid_standup",
    id="mujoco/HumanoidStandup-v5",
    env_id="HumanoidStandup-v5",
    title="HumanoidStandup",
    goal=(
        "A body with two legs and two arms lies on its back on flat ground. Seventeen motors turn "
        "its joints. Make it stand up soon and stay up.\n\n"
        "It weighs 42 kg; a step lasts 0.015 s. Every Episode starts lying, each position and "
        "velocity off by up to 0.01."
    ),
    scoring=(
        "Every step gives the reward `up + 1 - control - impact`: `up` is the height of the torso "
        "in m divided by 0.003 (lying gives about 30, standing about 467), `control` is 0.1 times "
        "the sum of the squared Actions (0 to 0.27), `impact` is 0.0000005 times the sum of the "
        "squared contact forces and torques, at most 10. The score of an Episode is the sum over "
        "its 1,000 steps. A Policy that fails in an Episode scores at most 0 in it, less than "
        "lying still."
    ),
    ending="Never terminated. **Truncated** after 1,000 steps.",
    failure_score=0.0,
    observation_fields=_OBSERVATION,
    observation_text=_OBSERVATION_TEXT,
    action_fields=torques(_MOTORS, 0.4),
    action_text=_ACTION_TEXT,
    columns=(
        X_POSITION,
        Y_POSITION,
        Column("reward_linup", "", "The reward's term for height."),
        Column("reward_quadctrl", "", "The reward's term for torque, 0 or less."),
        Column("reward_impact", "", "The reward's term for contact forces, 0 or less."),
    ),
    measures=(
        Measure("mean_torso_height", "m", "Mean height of the torso.", "torso_height", "mean"),
        Measure("max_torso_height", "m", "Highest.", "torso_height", "max"),
        Measure("final_torso_height", "m", "At the end.", "torso_height", "last"),
        Measure("up_reward", "", "Sum of the reward's height term.", "reward_linup", "sum"),
        Measure("control_reward", "", "Sum of the reward's torque term.", "reward_quadctrl", "sum"),
        Measure("impact_reward", "", "Sum of the reward's contact term.", "reward_impact", "sum"),
    ),
    drawing=TRACKED,
)
