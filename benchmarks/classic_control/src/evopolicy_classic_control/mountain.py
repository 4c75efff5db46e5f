"""MountainCar, with three Actions and with a continuous force: get out of a valley with a weak
motor."""

from __future__ import annotations

from typing import Any

from evopolicy.authoring import Column, Field, Measure, Profile

_POSITION = Field(
    "position", "m", -1.2, 0.6, "Along the track; the bottom of the valley is near -0.52."
)
_VELOCITY = Field(
    "velocity", "m/step", -0.07, 0.07, "Change of position in one step, positive to the right."
)
_START = "Every Episode starts at rest, at a position drawn uniformly from -0.6 to -0.4."
_WALLS = (
    "Position and velocity are cut to their ranges; where the car meets the left end of the "
    "track its velocity is 0."
)


def _force_cost(_: Any, action: Any) -> float:
    return 0.1 * float(action[0]) ** 2


_MEASURES = (
    Measure(
        "reached_flag",
        "",
        "Whether the car came to the flag.",
        how=lambda episode: episode.terminated,
    ),
    Measure("max_position", "m", "Farthest to the right.", "position", "max"),
    Measure("min_position", "m", "Farthest to the left.", "position", "min"),
    Measure("max_abs_velocity", "m/step", "Fastest in either direction.", "velocity", "max_abs"),
)

MOUNTAIN_CAR = Profile(
    slug="mountain_car",
    id="classic_control/MountainCar-v0",
    env_id="MountainCar-v0",
    title="MountainCar",
    goal=(
        "A car stands in a valley between two hills; its motor is too weak to climb either from "
        "the bottom. Bring it to the flag on the right hill, at position 0.5, in as few steps as "
        "possible.\n\n"
        "A step adds `0.001 (action - 1) - 0.0025 cos(3 position)` to the velocity and then the "
        f"velocity to the position. {_WALLS} {_START}"
    ),
    scoring=(
        "Every step gives the reward -1. The score of an Episode is the sum: minus the number of "
        "steps, -200 when the flag is never reached. A Policy that fails in an Episode scores "
        "-200 in it, as much as one that never reaches the flag."
    ),
    ending="**Terminated** when the position is 0.5 or more, moving right or at rest. "
    "**Truncated** after 200 steps.",
    failure_score=-200.0,
    observation_fields=(_POSITION, _VELOCITY),
    action_fields=(Field("push", "", 0, 2, "0 pushes to the left, 1 not at all, 2 to the right."),),
    measures=_MEASURES,
)

MOUNTAIN_CAR_CONTINUOUS = Profile(
    slug="mountain_car_continuous",
    id="classic_control/MountainCarContinuous-v0",
    env_id="MountainCarContinuous-v0",
    title="MountainCar with a continuous force",
    goal=(
        "A car stands in a valley between two hills; its motor is too weak to climb either from "
        "the bottom. Bring it to the flag on the right hill, at position 0.45, with as little "
        "force as possible.\n\n"
        "A step adds `0.0015 force - 0.0025 cos(3 position)` to the velocity and then the "
        f"velocity to the position. {_WALLS} {_START}"
    ),
    scoring=(
        "Every step gives the reward `-0.1 force^2`; the step that reaches the flag gives 100 "
        "more. The score of an Episode is the sum: below 100, 0 for a car that is never pushed, "
        "at least -99.9. A Policy that fails in an Episode scores -100 in it, just below the "
        "least sum there can be: failing never pays."
    ),
    ending="**Terminated** when the position is 0.45 or more, moving right or at rest. "
    "**Truncated** after 999 steps.",
    failure_score=-100.0,
    observation_fields=(_POSITION, _VELOCITY),
    action_fields=(
        Field("force", "1", -1.0, 1.0, "Share of the motor's full force, positive to the right."),
    ),
    action_text="An array of one number.",
    columns=(Column("force_cost", "", "This step's 0.1 force^2.", _force_cost),),
    measures=(
        *_MEASURES,
        Measure("force_cost", "", "Sum of the reward's force term.", "force_cost", "sum"),
    ),
)
