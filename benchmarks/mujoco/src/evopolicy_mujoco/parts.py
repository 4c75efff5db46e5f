"""What the tasks of this family share: fields of joints and torques, the columns and measures of
moving bodies."""

from __future__ import annotations

from typing import NamedTuple

from evopolicy.authoring import Column, Field, Measure, Value


class Joint(NamedTuple):
    """A hinge with a motor."""

    name: str
    meaning: str
    low: float | None
    """Where it stops, in rad; None: it turns freely."""
    high: float | None
    gear: float
    """Torque in N m at an Action of 1."""


TRACKED: dict[str, Value] = {"width": 320, "height": 240, "camera_name": "track"}
"""For drawing bodies that move away."""
STILL: dict[str, Value] = {"width": 320, "height": 240}


def angles(joints: tuple[Joint, ...]) -> tuple[Field, ...]:
    return tuple(
        Field(f"{j.name}_angle", "rad", meaning=f"{j.meaning}{_stops(j)}.") for j in joints
    )


def velocities(joints: tuple[Joint, ...]) -> tuple[Field, ...]:
    return tuple(
        Field(f"{j.name}_velocity", "rad/s", meaning=f"Of {j.name}_angle.") for j in joints
    )


def torques(joints: tuple[Joint, ...], limit: float = 1.0) -> tuple[Field, ...]:
    return tuple(
        Field(
            f"{j.name}_torque",
            f"{j.gear:g} N m",
            -limit,
            limit,
            f"Drives {j.name}_angle, positive to larger ones.",
        )
        for j in joints
    )


def _stops(joint: Joint) -> str:
    return (
        ""
        if joint.low is None or joint.high is None
        else f"; stops at {joint.low:g} and {joint.high:g}"
    )


X_POSITION = Column("x_position", "m", "How far forward the body is.")
Y_POSITION = Column("y_position", "m", "How far to its left the body is.")
FORWARD_SPEED = Column("forward_speed", "m/s", "Mean over this step.", read="x_velocity")
SIDEWAYS_SPEED = Column(
    "sideways_speed", "m/s", "Mean over this step, positive to the left.", read="y_velocity"
)
FORWARD = Column("reward_forward", "", "The reward's term for moving forward.")
CONTROL = Column("reward_ctrl", "", "The reward's term for torque, 0 or less.")
CONTACT = Column("reward_contact", "", "The reward's term for contact forces, 0 or less.")
SURVIVE = Column("reward_survive", "", "The reward's term for being up.")

DISTANCE = Measure("distance", "m", "Forward distance from start to end.", "x_position", "change")
SPEED = Measure("mean_speed", "m/s", "Mean forward speed.", "forward_speed", "mean")
TOP_SPEED = Measure(
    "top_speed", "m/s", "Largest forward speed over one step.", "forward_speed", "max"
)
SIDEWAYS = Measure(
    "sideways", "m", "Distance to the left from start to end.", "y_position", "change"
)
FORWARD_REWARD = Measure(
    "forward_reward", "", "Sum of the reward's forward term.", "reward_forward", "sum"
)
CONTROL_REWARD = Measure(
    "control_reward", "", "Sum of the reward's torque term.", "reward_ctrl", "sum"
)
CONTACT_REWARD = Measure(
    "contact_reward", "", "Sum of the reward's contact term.", "reward_contact", "sum"
)
SURVIVE_REWARD = Measure(
    "survive_reward", "", "Sum of the reward's term for being up.", "reward_survive", "sum"
)
FELL = Measure(
    "fell", "", "Whether the Episode was terminated.", how=lambda episode: episode.terminated
)
