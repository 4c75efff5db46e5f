"""Tasks on a road of several lanes: highway, merge, exit."""

from __future__ import annotations

from evopolicy.authoring import Column, Measure, Profile
from evopolicy_highway.parts import (
    COLLISION,
    DRIVING,
    FORWARD,
    IMPORTS,
    LANE_CHANGES,
    MEAN_SPEED,
    MOVES,
    STEPS_OFF_ROAD,
    TOP_SPEED,
    cars,
    moves_text,
    rows_text,
    term,
    total,
)

_RELATIVE = (
    "Rows after the first are relative to the driven car: the difference of places and of "
    "velocities. x is along the road, y to the right, 0 the middle of the leftmost lane; lanes "
    "are 4 m wide. "
)


def _kinematics(y_unit: str) -> dict[str, tuple[str, str, bool]]:
    return {
        "presence": ("", "1 where the row holds a car, 0 where it is empty", False),
        "x": ("200 m", "place along the road", True),
        "y": (y_unit, "place across the road", True),
        "vx": ("80 m/s", "velocity along the road", True),
        "vy": ("80 m/s", "velocity across the road", True),
    }


HIGHWAY = Profile(
    slug="highway",
    id="highway/highway-v0",
    env_id="highway-v0",
    title="Highway",
    goal=(
        "Drive a car on a highway of four lanes through dense traffic: fast, on the right and "
        "without hitting another car.\n\nFifty other cars start ahead of it, at 21 to 24 m/s, "
        "their places, lanes, speeds and manners drawn in every Episode. They keep their distance "
        "and change lanes by themselves. The car starts at 25 m/s on a drawn lane, about 180 m "
        "down the road. A step lasts 1 s; the road is 10 km long."
    ),
    scoring=(
        "Every step on the road gives the reward `(0.4 high_speed + 0.1 right_lane - collision + "
        "1) / 1.5`: `high_speed` rises evenly from 0 at 20 m/s and below to 1 at 30 m/s and "
        "above, by the speed along the road; `right_lane` from 0 on the leftmost lane to 1 on the "
        "rightmost, by the lane the car is heading for; `collision` is 1 when it has hit "
        "something, else 0. Off the road it is 0. The score of an Episode is the sum. A Policy "
        "that fails in an Episode scores 0 in it, the least there is."
    ),
    ending="**Terminated** by a collision. **Truncated** after 40 steps.",
    failure_score=0.0,
    observation_fields=cars(5, _kinematics("16 m")),
    observation_text=rows_text(5, _RELATIVE + "All but presence is cut to -1 ... 1."),
    action_fields=MOVES,
    action_text=moves_text("20, 25 and 30"),
    columns=(
        *DRIVING,
        term("high_speed", "0 to 1 by the speed along the road"),
        term("right_lane", "0 to 1 by the lane"),
    ),
    measures=(
        COLLISION,
        FORWARD,
        MEAN_SPEED,
        TOP_SPEED,
        LANE_CHANGES,
        total("high_speed", "0 to 1 by the speed along the road"),
        total("right_lane", "0 to 1 by the lane"),
    ),
    max_steps=40,
    imports=IMPORTS,
)

MERGE = Profile(
    slug="merge",
    id="highway/merge-v0",
    env_id="merge-v0",
    title="Merge",
    goal=(
        "Drive a car past a ramp on which another car comes onto the highway: fast, without "
        "hitting a car, and so that the other one need not slow down.\n\nThe highway has two "
        "lanes, 0 and 1 from the left; the ramp runs beside it, comes close from x = 150 m, is a "
        "third lane (2) from x = 230 to 310 m and ends there in an obstacle. The car starts at x "
        "= 30 m on lane 1 at 30 m/s; the car on the ramp at x = 110 m at 20 m/s, and it wants 30 "
        "m/s. Three more cars drive on the highway near x = 90, 70 and 5 m at about 29 to 31 m/s; "
        "their lanes, places and speeds are drawn in every Episode. They keep their distance and "
        "change lanes by themselves. A step lasts 1 s."
    ),
    scoring=(
        "Every step gives the reward `(0.2 high_speed + 0.1 right_lane - 0.05 lane_change - 0.5 "
        "merging_speed - collision + 1.5) / 1.8`: `high_speed` is 0 at 20 m/s and 1 at 30 m/s, "
        "evenly, and goes on below and above; `right_lane` is the lane the car is on; "
        "`lane_change` is 1 when the Action was 0 or 2; `merging_speed` is the sum, over the cars "
        "on lane 2 between x = 230 and 310 m, of the share of their target speed they fall short "
        "of; `collision` is 1 when the car has hit something, else 0. The score of an Episode is "
        "the sum. A Policy that fails in an Episode scores at most -1 in it, below the least sum "
        "there can be."
    ),
    ending=(
        "**Terminated** by a collision and past x = 370 m. **Truncated** after 30 steps, which "
        "the car, never slower than about 20 m/s, does not reach."
    ),
    failure_score=-1.0,
    observation_fields=cars(5, _kinematics("8 m")),
    observation_text=rows_text(
        5,
        _RELATIVE + "The obstacle is a row too. All but presence is cut to -1 ... 1.",
        "cars and obstacles",
    ),
    action_fields=MOVES,
    action_text=moves_text("20, 25 and 30"),
    columns=(
        *DRIVING,
        term("high_speed", "by the speed, 0 at 20 and 1 at 30 m/s"),
        term("right_lane", "the lane"),
        term("lane_change", "1 where the Action was a lane change"),
        term("merging_speed", "what cars on the ramp's lane fall short of their target speeds"),
    ),
    measures=(
        COLLISION,
        Measure(
            "passed",
            "",
            "Whether it came past x = 370 m.",
            how=lambda e: e.series["car_x"].values[-1:].max() > 370,
        ),
        MEAN_SPEED,
        LANE_CHANGES,
        total("high_speed", "by the speed"),
        total("right_lane", "the lane"),
        total("lane_change", "Actions that were lane changes"),
        total("merging_speed", "what cars on the ramp's lane fall short of their target speeds"),
    ),
    max_steps=30,
    imports=IMPORTS,
)

EXIT = Profile(
    slug="exit",
    id="highway/exit-v0",
    env_id="exit-v0",
    title="Exit",
    goal=(
        "Drive a car from the leftmost of six lanes of a highway to the exit on the right, "
        "through traffic and in time, without hitting another car; a little faster is a little "
        "better.\n\nLanes are 4 m wide, 0 to 5 from the left; between x = 400 and 500 m there is "
        "a seventh, lane 6, and at its end the exit bends off to the right. The car starts near x "
        "= 140 m on lane 0 at 25 m/s; twenty others start ahead on the lanes 1 to 5, more of them "
        "on the right, slower the farther right (22.6 m/s on lane 1, 9 on lane 5), and keep their "
        "lanes; their places and lanes are drawn in every Episode. A step lasts 1 s."
    ),
    scoring=(
        "Every step gives the reward `goal + 0.1 high_speed`, at most 1: `goal` is 1 when the "
        "lane the car is on or heading for is lane 6 of the stretch from 400 to 500 m or the exit "
        "itself, else 0; `high_speed` rises evenly from 0 at 20 m/s and below to 1 at 30 m/s and "
        "above. A collision costs nothing but the rest of the Episode. The score of an Episode is "
        "the sum. A Policy that fails in an Episode scores 0 in it, the least there is."
    ),
    ending="**Terminated** by a collision. **Truncated** after 18 steps.",
    failure_score=0.0,
    observation_fields=cars(
        15,
        {
            "presence": ("", "1 where the row holds a car", False),
            "x": ("200 m", "place along the road", False),
            "y": ("24 m", "place across the road", False),
            "vx": ("80 m/s", "velocity along the road", False),
            "vy": ("80 m/s", "velocity across the road", False),
            "cos_h": ("", "cosine of the heading", False),
            "sin_h": ("", "sine of the heading", False),
        },
        {"x": "How far the driven car is past x = 400 m, where lane 6 begins; negative before it."},
    ),
    observation_text=rows_text(15, _RELATIVE + "Headings are 0 along the road. Nothing is cut."),
    action_fields=MOVES,
    action_text=moves_text("18, 24 and 30"),
    columns=(
        *DRIVING,
        term("goal", "1 on or heading for the exit's lanes"),
        term("high_speed", "0 to 1 by the speed"),
        Column("success", "", "The same as goal."),
    ),
    measures=(
        Measure(
            "took_exit",
            "",
            "Whether it was on the exit's lanes.",
            how=lambda e: bool(e.series["goal"].values.any()),
        ),
        COLLISION,
        FORWARD,
        MEAN_SPEED,
        LANE_CHANGES,
        STEPS_OFF_ROAD,
        total("goal", "1 on the exit's lanes"),
        total("high_speed", "0 to 1 by the speed"),
        Measure("max_lane", "", "The rightmost lane it was on.", "lane", "max"),
    ),
    max_steps=18,
    imports=IMPORTS,
)
