"""An arm with a gripper: FetchReach, FetchPush, FetchPickAndPlace, FetchSlide."""

from __future__ import annotations

import math
from typing import Any

from evopolicy.authoring import Column, Episode, Field, Measure, Profile
from evopolicy_robotics.goals import DRAWING, GOAL_DISTANCE, IMPORTS, goal_measures, points

WITHIN = 0.05
"""Distance in m at which a goal counts as reached, in all four."""
_STEP = (
    "A step lasts 0.04 s. z points up, x away from the robot's base, y to its left. The gripper "
    "always points down; the Action moves the place it is drawn to, and it follows like a stiff "
    "spring, so that it moves less than it was told to at first and glides on a little afterwards."
)
_SCORING = (
    "Every step gives the reward -1, or 0 when it ends with {thing} at most 0.05 m from the goal. "
    "The score of an Episode is the sum over its 50 steps. A Policy that fails in an Episode "
    "scores -50 in it, the least there is."
)
_ENDING = "Never terminated: reaching the goal does not end it. **Truncated** after 50 steps."

_GRIPPER = points("gripper", "m", "Place of the gripper, between the fingertips")
_FINGERS = (
    Field("right_finger", "m", 0, 0.05, "How far the right finger is from the middle."),
    Field("left_finger", "m", 0, 0.05, "How far the left finger is from the middle."),
)
_GRIPPER_SPEED = points("gripper_velocity", "m/step", "Of the gripper")
_FINGER_SPEED = (
    Field("right_finger_velocity", "m/step", meaning="Of right_finger."),
    Field("left_finger_velocity", "m/step", meaning="Of left_finger."),
)


def _goal(moved: str) -> tuple[Field, ...]:
    return (
        *points("achieved", "m", f"Place of {moved}"),
        *points("desired", "m", "Place of the goal, the same for the whole Episode"),
    )


def _object_fields(name: str) -> tuple[Field, ...]:
    return (
        *_goal(f"the {name}'s centre"),
        *_GRIPPER,
        *points("object", "m", f"Place of the {name}'s centre again"),
        *points("offset", "m", f"The {name}'s centre less the gripper"),
        *_FINGERS,
        *(
            Field(f"object_turn_{a}", "rad", meaning=f"Euler angle of the {name} about {a}.")
            for a in "xyz"
        ),
        *points("object_velocity", "m/step", f"Of the {name}, less the gripper's"),
        *(
            Field(
                f"object_spin_{a}", "rad/step", meaning=f"Angular velocity of the {name} about {a}."
            )
            for a in "xyz"
        ),
        *_GRIPPER_SPEED,
        *_FINGER_SPEED,
    )


def _text(size: int) -> str:
    return (
        "A dict of three arrays: `achieved_goal` (3 numbers, the fields achieved_*), "
        f"`desired_goal` (3, desired_*) and `observation` ({size}, the rest). Velocities are per "
        "step of 0.04 s."
    )


def _action(fingers: str) -> tuple[Field, ...]:
    return (
        *(
            Field(
                f"move_{a}", "0.05 m", -1, 1, f"Moves the place the gripper is drawn to along {a}."
            )
            for a in "xyz"
        ),
        Field("fingers", "", -1, 1, fingers),
    )


_BLOCKED = _action("Without effect: the fingers are held shut.")


def _gripper_to_object(observation: Any, _: Any) -> float:
    return math.hypot(*observation["observation"][6:9].tolist())


def _object_height(observation: Any, _: Any) -> float:
    return float(observation["achieved_goal"][2])


def _object_speed(observation: Any, _: Any) -> float:
    numbers = observation["observation"]
    return math.hypot(*(numbers[14:17] + numbers[20:23]).tolist()) / 0.04


def _carried(observation: Any, _: Any) -> float:
    """Off the table and between the fingers."""
    height, fingers = float(observation["achieved_goal"][2]), observation["observation"][9:11]
    near = _gripper_to_object(observation, None) < 0.04
    return float(near and height > 0.435 and 0.03 < float(fingers.sum()) < 0.07)


_TO_OBJECT = Column(
    "gripper_to_object",
    "m",
    "Distance of the gripper from the object's centre.",
    _gripper_to_object,
)
_HEIGHT = Column("object_height", "m", "z of the object's centre.", _object_height)
_SPEED = Column("object_speed", "m/s", "Speed of the object.", _object_speed)
_NEAREST = Measure(
    "min_gripper_to_object", "m", "Nearest the gripper came to it.", "gripper_to_object", "min"
)
_TOP_SPEED = Measure(
    "top_object_speed", "m/s", "Largest speed of the object after a step.", "object_speed", "max"
)


def _moved(episode: Episode) -> float:
    return math.dist(
        episode.first["achieved_goal"].tolist(), episode.last["achieved_goal"].tolist()
    )


_MOVED = Measure(
    "object_moved", "m", "Distance between the object's first and last place.", how=_moved
)
_FELL = Measure(
    "object_fell",
    "",
    "Whether the object was below the table's top at the end.",
    how=lambda episode: float(episode.last["achieved_goal"][2]) < 0.38,
)

FETCH_REACH = Profile(
    slug="fetch_reach",
    id="robotics/FetchReach-v4",
    env_id="FetchReach-v4",
    title="FetchReach",
    goal=(
        "A Fetch robot stands before a table. Bring its gripper to a goal in the air and keep it "
        f"there.\n\n{_STEP} Every Episode starts with the gripper at rest at (1.342, 0.749, "
        "0.535); the goal is drawn uniformly from the cube up to 0.15 m from there along each "
        "axis."
    ),
    scoring=_SCORING.format(thing="the gripper"),
    ending=_ENDING,
    failure_score=-50.0,
    observation_fields=(
        *_goal("the gripper"),
        *_GRIPPER,
        *_FINGERS,
        *_GRIPPER_SPEED,
        *_FINGER_SPEED,
    ),
    observation_text=_text(10),
    action_fields=_BLOCKED,
    action_text="An array of four numbers.",
    columns=(GOAL_DISTANCE,),
    measures=goal_measures(WITHIN),
    imports=IMPORTS,
    drawing=DRAWING,
)

FETCH_PUSH = Profile(
    slug="fetch_push",
    id="robotics/FetchPush-v4",
    env_id="FetchPush-v4",
    title="FetchPush",
    goal=(
        "A Fetch robot stands before a table with a block on it. Push the block to a goal on the "
        "table and leave it there.\n\nThe block is a cube of 0.05 m and 2 kg, its centre 0.425 m "
        "high when it lies on the table; the table's top is 0.4 m high and reaches from x 1.05 "
        "to 1.55 and from y 0.4 to 1.1. The fingers are shut: the gripper can push, not "
        f"grasp.\n\n{_STEP} Every Episode starts with the gripper at rest at (1.363, 0.749, "
        "0.416), low enough to touch the block. Block and goal are drawn uniformly from the "
        "square up to 0.15 m from there along x and y, the block at least 0.1 m from the "
        "gripper; the goal may be where the block is."
    ),
    scoring=_SCORING.format(thing="the block's centre"),
    ending=_ENDING,
    failure_score=-50.0,
    observation_fields=_object_fields("block"),
    observation_text=_text(25),
    action_fields=_BLOCKED,
    action_text="An array of four numbers.",
    columns=(GOAL_DISTANCE, _TO_OBJECT, _HEIGHT, _SPEED),
    measures=(*goal_measures(WITHIN), _NEAREST, _MOVED, _TOP_SPEED, _FELL),
    imports=IMPORTS,
    drawing=DRAWING,
)

FETCH_PICK_AND_PLACE = Profile(
    slug="fetch_pick_and_place",
    id="robotics/FetchPickAndPlace-v4",
    env_id="FetchPickAndPlace-v4",
    title="FetchPickAndPlace",
    goal=(
        "A Fetch robot stands before a table with a block on it. Bring the block to a goal on "
        "the table or in the air above it and keep it there.\n\nThe block is a cube of 0.05 m "
        "and 2 kg, its centre 0.425 m high when it lies on the table; the table's top is 0.4 m "
        "high and reaches from x 1.05 to 1.55 and from y 0.4 to 1.1. The gripper's two fingers "
        f"open along y, each up to 0.05 m from the middle.\n\n{_STEP} Every Episode starts with "
        "the gripper at rest at (1.342, 0.749, 0.535), shut. Block and goal are drawn uniformly "
        "from the square up to 0.15 m from there along x and y, the block at least 0.1 m from "
        "the gripper along the table; half the goals are at the block's height, the others "
        "uniformly up to 0.45 m higher."
    ),
    scoring=_SCORING.format(thing="the block's centre"),
    ending=_ENDING,
    failure_score=-50.0,
    observation_fields=_object_fields("block"),
    observation_text=_text(25),
    action_fields=_action(
        "Positive opens the fingers, negative shuts them, harder the larger it is."
    ),
    action_text="An array of four numbers.",
    columns=(
        GOAL_DISTANCE,
        _TO_OBJECT,
        _HEIGHT,
        _SPEED,
        Column(
            "carried",
            "",
            "1 where the block is between the fingers and 0.01 m or more off the table.",
            _carried,
        ),
    ),
    measures=(
        *goal_measures(WITHIN),
        _NEAREST,
        Measure(
            "steps_carried", "steps", "Steps that ended with the block carried.", "carried", "sum"
        ),
        Measure(
            "max_object_height", "m", "Highest the block's centre was.", "object_height", "max"
        ),
        _MOVED,
        _FELL,
    ),
    imports=IMPORTS,
    drawing=DRAWING,
)

FETCH_SLIDE = Profile(
    slug="fetch_slide",
    id="robotics/FetchSlide-v4",
    env_id="FetchSlide-v4",
    title="FetchSlide",
    goal=(
        "A Fetch robot stands before a long, slippery table with a puck on it. Make the puck "
        "slide to a goal, out of the gripper's reach as a rule, so that it stops there.\n\nThe "
        "puck is a cylinder of 0.025 m radius, 0.04 m height and 2 kg, its centre 0.42 m high on "
        "the table; its friction on the table is 0.1. The table's top is 0.4 m high and reaches "
        f"from x 0.7 to 1.95 and from y 0.3 to 1.2. The fingers are shut.\n\n{_STEP} Every "
        "Episode starts with the gripper at rest at (1.013, 0.749, 0.416), low enough to touch "
        "the puck. The puck is drawn uniformly from the square up to 0.1 m from there along x "
        "and y, at least 0.1 m from the gripper; the goal from x 0.1 to 0.7 m farther than the "
        "gripper's and y up to 0.3 m to either side of it."
    ),
    scoring=_SCORING.format(thing="the puck's centre"),
    ending=_ENDING,
    failure_score=-50.0,
    observation_fields=_object_fields("puck"),
    observation_text=_text(25),
    action_fields=_BLOCKED,
    action_text="An array of four numbers.",
    columns=(GOAL_DISTANCE, _TO_OBJECT, _HEIGHT, _SPEED),
    measures=(*goal_measures(WITHIN), _NEAREST, _MOVED, _TOP_SPEED, _FELL),
    imports=IMPORTS,
    drawing=DRAWING,
)
