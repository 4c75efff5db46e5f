"""Ant: four legs, eight motors, in three dimensions."""

from __future__ import annotations

from evopolicy.authoring import Field, Measure, Profile
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

# Where each leg points in the body's own frame, x forward and y to the left.
_LEGS = {1: "front left", 2: "back left", 3: "back right", 4: "front right"}
_ANKLE_STOPS = {1: (0.524, 1.222), 2: (-1.222, -0.524), 3: (-1.222, -0.524), 4: (0.524, 1.222)}


def _leg(number: int) -> tuple[Joint, Joint]:
    return (
        Joint(
            f"hip_{number}", f"Sideways swing of leg {number} ({_LEGS[number]})", -0.524, 0.524, 150
        ),
        Joint(
            f"ankle_{number}", f"Bend of leg {number} ({_LEGS[number]})", *_ANKLE_STOPS[number], 150
        ),
    )


_JOINTS = tuple(joint for number in (1, 2, 3, 4) for joint in _leg(number))
_MOTORS = tuple(joint for number in (4, 1, 2, 3) for joint in _leg(number))
_BODIES = ("torso", *(f"leg_{n}_{part}" for n in _LEGS for part in ("root", "upper", "lower")))


def _contact_forces() -> tuple[Field, ...]:
    return tuple(
        Field(f"{body}_{kind}_{axis}", unit, -1.0, 1.0, f"Contact {kind} on it, cut to this range.")
        for body in _BODIES
        for kind, unit in (("torque", "N m"), ("force", "N"))
        for axis in "xyz"
    )


ANT = Profile(
    slug="ant",
    id="mujoco/Ant-v5",
    env_id="Ant-v5",
    title="Ant",
    goal=(
        "A torso on four legs stands on flat ground; each leg has a hip that swings it sideways "
        "and an ankle. Eight motors turn them. Make it move in the direction of positive x as "
        "fast as possible, upright and without wasting torque.\n\n"
        "A step lasts 0.05 s. Every Episode starts standing and facing along x, each position off "
        "by up to 0.1 and each velocity by a normal number of deviation 0.1."
    ),
    scoring=(
        "Every step gives the reward `forward + healthy - control - contact`: `forward` is the "
        "torso's mean speed along x over the step in m/s, `healthy` is 1 unless the step "
        "terminates, `control` is 0.5 times the sum of the squared Actions (0 to 4), `contact` is "
        "0.0005 times the sum of the squared contact forces and torques, each cut to -1 ... 1. "
        "The score of an Episode is the sum. A Policy that fails in an Episode scores at most "
        "-3100 in it, less than standing under full torque to the end."
    ),
    ending=(
        "**Terminated** when the torso's height leaves 0.2 to 1.0 m, or a state is not finite. It "
        "may go on lying on its back. **Truncated** after 1,000 steps."
    ),
    failure_score=-3100.0,
    observation_fields=(
        Field(
            "torso_height",
            "m",
            meaning="Of the torso's centre; 0.75 at the start, about 0.4 at rest.",
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
        *_contact_forces(),
    ),
    observation_text=(
        "The place on the ground is no part of the observation. Of each leg, `root` is the piece "
        "fixed to the torso, `upper` turns with the hip, `lower` with the ankle. Torques and "
        "forces are those of contacts on that piece."
    ),
    action_fields=torques(_MOTORS),
    action_text="An array of eight numbers, each the share of its motor's largest torque. Leg 4 "
    "comes first.",
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
        Measure("max_torso_height", "m", "Highest.", "torso_height", "max"),
    ),
    drawing=TRACKED,
)
