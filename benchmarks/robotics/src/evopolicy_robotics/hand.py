"""The Shadow hand: HandReach."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from evopolicy.authoring import Column, Field, Profile
from evopolicy_robotics.goals import DRAWING, GOAL_DISTANCE, IMPORTS, goal_measures, points


class Joint(NamedTuple):
    name: str
    meaning: str
    low: float
    """Where it stops, and its motor's reach, in rad."""
    high: float
    motor: bool = True


def _finger(name: str) -> tuple[Joint, ...]:
    return (
        Joint(f"{name}_spread", f"Of the {name} finger at the knuckle, sideways", -0.349, 0.349),
        Joint(
            f"{name}_knuckle", f"Of the {name} finger at the knuckle, positive bends", 0.0, 1.571
        ),
        Joint(f"{name}_middle", f"Of the {name} finger's middle joint, positive bends", 0.0, 1.571),
        Joint(
            f"{name}_tip",
            f"Of the {name} finger's last joint; a tendon ties it to the middle one",
            0.0,
            1.571,
            False,
        ),
    )


JOINTS = (
    Joint("wrist_sideways", "Of the wrist, sideways", -0.489, 0.14),
    Joint("wrist_bend", "Of the wrist, positive bends", -0.698, 0.489),
    *_finger("first"),
    *_finger("second"),
    *_finger("third"),
    Joint(
        "fourth_palm", "Of the fourth finger's bone inside the palm, towards the thumb", 0.0, 0.785
    ),
    *_finger("fourth"),
    Joint("thumb_turn", "Of the thumb at its root, turning", -1.047, 1.047),
    Joint("thumb_root", "Of the thumb at its root, positive towards the palm", 0.0, 1.222),
    Joint("thumb_sideways", "Of the thumb's middle joint, sideways", -0.209, 0.209),
    Joint("thumb_middle", "Of the thumb's middle joint, bending", -0.524, 0.524),
    Joint("thumb_tip", "Of the thumb's last joint, negative bends", -1.571, 0.0),
)
"""In the order of the model: WRJ1, WRJ0, FFJ3 to FFJ0, MFJ3 ..., RFJ3 ..., LFJ4 to LFJ0, THJ4 to
THJ0."""
TIPS = ("first", "second", "third", "fourth", "thumb")


def _tips(prefix: str, meaning: str) -> tuple[Field, ...]:
    return tuple(
        field
        for tip in TIPS
        for field in points(f"{prefix}_{tip}", "m", meaning.format(_called(tip)))
    )


def _called(tip: str) -> str:
    return "the thumb" if tip == "thumb" else f"the {tip} finger"


def _worst_tip(observation: Any, _: Any) -> float:
    achieved, desired = observation["achieved_goal"].tolist(), observation["desired_goal"].tolist()
    return max(math.dist(achieved[i : i + 3], desired[i : i + 3]) for i in range(0, 15, 3))


HAND_REACH = Profile(
    slug="hand_reach",
    id="robotics/HandReach-v3",
    env_id="HandReach-v3",
    title="HandReach",
    goal=(
        "A Shadow hand, palm up, with a thumb and four fingers (first next to the thumb, fourth "
        "the little one), has 24 joints and 20 motors. Bring its five fingertips to five given "
        "places and keep them there.\n\nA step lasts 0.04 s. Every Episode starts in the same "
        "pose, half closed and at rest. The goal is drawn: nine times in ten the thumb and one "
        "finger, any of the four alike, are to meet at a point above the palm (normal, 0.005 m "
        "deviation along each axis) while the other tips are where they are at the start; one "
        "time in ten all tips are where they are at the start."
    ),
    scoring=(
        "Every step gives the reward -1, or 0 when it ends at the goal: when the root of the "
        "summed squares of all 15 differences of achieved_goal and desired_goal is at most 0.01 "
        "m. The score of an Episode is the sum over its 50 steps. A Policy that fails in an "
        "Episode scores -50 in it, the least there is."
    ),
    ending="Never terminated. **Truncated** after 50 steps.",
    failure_score=-50.0,
    observation_fields=(
        *_tips("achieved", "Place of the tip of {}"),
        *_tips("desired", "Where the tip of {} is to be, the same for the whole Episode"),
        *(
            Field(
                f"{j.name}_angle", "rad", meaning=f"{j.meaning}; stops at {j.low:g} and {j.high:g}."
            )
            for j in JOINTS
        ),
        *(Field(f"{j.name}_velocity", "rad/s", meaning=f"Of {j.name}_angle.") for j in JOINTS),
        *_tips("tip", "Place of the tip of {} again"),
    ),
    observation_text=(
        "A dict of three arrays: `achieved_goal` (15 numbers, the fields achieved_*), "
        "`desired_goal` (15, desired_*) and `observation` (63, the rest). z points up; the palm "
        "is at (1.006, 0.96, 0.14), the fingers point to lower y."
    ),
    action_fields=tuple(
        Field(
            f"{j.name}_target",
            "",
            -1,
            1,
            f"Of {j.name}_angle: -1 is {j.low:g} rad, 1 is {j.high:g} rad.",
        )
        for j in JOINTS
        if j.motor
    ),
    action_text=(
        "An array of 20 numbers: where each motor's servo is to hold its joint, evenly between "
        "the joint's stops. The servos are springs: under load a joint stays short of its target."
    ),
    columns=(
        GOAL_DISTANCE,
        Column("worst_tip_distance", "m", "Farthest a tip is from its place.", _worst_tip),
    ),
    measures=goal_measures(0.01),
    imports=IMPORTS,
    drawing=DRAWING,
)
