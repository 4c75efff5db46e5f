"""Tasks where roads meet: roundabout and intersection."""

from __future__ import annotations

from evopolicy.authoring import Column, Field, Measure, Profile
from evopolicy_highway.parts import (
    COLLISION,
    DRIVING,
    IMPORTS,
    LANE_CHANGES,
    LOW_SPEED,
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

_ABSOLUTE = (
    "Places and velocities are those on the map for every row, cut to -1 ... 1. x is to "
    "the right, y down."
)

ROUNDABOUT = Profile(
    slug="roundabout",
    id="highway/roundabout-v0",
    env_id="roundabout-v0",
    title="Roundabout",
    goal=(
        "Drive a car into a roundabout, half around it and out again, fast and without hitting "
        "one of the four other cars.\n\nThe ring has its middle at the origin and two lanes with "
        "radii of 20 and 24 m, driven counter-clockwise as seen on the map with x to the right "
        "and y down; four roads of one lane each way meet it, from the south (higher y), east, "
        "north and west. The car comes from the south: it starts at (2, 45), heading north, at 8 "
        "m/s, and is on its way to the north exit; which way it goes is planned, its lane and "
        "speed are not. The other cars start on the ring in the west (two on the inner lane, one "
        "on the outer one, about 16 m/s) and on the road from the east (one, about 16 m/s); their "
        "places, speeds, destinations and manners are drawn in every Episode. They keep their "
        "distance and change lanes by themselves. A step lasts 1 s."
    ),
    scoring=(
        "Every step on the road gives the reward `(0.2 high_speed - 0.05 lane_change - collision "
        "+ 1) / 1.2`: `high_speed` is 0, 0.5 or 1 for a target speed of 0, 8 or 16 m/s, "
        "`lane_change` 1 when the Action was 0 or 2, `collision` 1 when the car has hit "
        "something, else 0. Off the road it is 0. The score of an Episode is the sum. A Policy "
        "that fails in an Episode scores at most -0.05 in it, below the least sum there can be: a "
        "collision in the first step."
    ),
    ending="**Terminated** by a collision. **Truncated** after 11 steps.",
    failure_score=-0.05,
    observation_fields=cars(
        5,
        {
            "presence": ("", "1 where the row holds a car, 0 where it is empty", False),
            "x": ("100 m", "place along x", True),
            "y": ("100 m", "place along y", True),
            "vx": ("15 m/s", "velocity along x", True),
            "vy": ("15 m/s", "velocity along y", True),
        },
    ),
    observation_text=rows_text(5, _ABSOLUTE),
    action_fields=MOVES,
    action_text=moves_text("0, 8 and 16"),
    columns=(
        *DRIVING,
        term("high_speed", "0, 0.5 or 1 by the target speed"),
        term("lane_change", "1 where the Action was a lane change"),
    ),
    measures=(
        COLLISION,
        MEAN_SPEED,
        LOW_SPEED,
        LANE_CHANGES,
        STEPS_OFF_ROAD,
        total("high_speed", "0, 0.5 or 1 by the target speed"),
        total("lane_change", "Actions that were lane changes"),
        Measure("final_x", "m", "Where the car was at the end.", "car_x", "last"),
        Measure("final_y", "m", "Where the car was at the end.", "car_y", "last"),
    ),
    max_steps=11,
    imports=IMPORTS,
)

INTERSECTION = Profile(
    slug="intersection",
    id="highway/intersection-v0",
    env_id="intersection-v0",
    title="Intersection",
    goal=(
        "Drive a car across an intersection with a left turn, fast and without hitting another "
        "car.\n\nFour roads of one lane each way meet at the origin, with x to the right and y "
        "down; the area where they cross reaches about 11 m from the origin to each side. The car "
        "comes from the south (higher y), starts about 46 m from the middle, heading north, at 10 "
        "m/s, and is on its way to the west; its way is planned, its speed is not. The road from "
        "west to east has the right of way. About six other cars are there at the start, one of "
        "which goes straight across and will be near the middle soon; after every step a further "
        "one may come (with probability 0.6) at the end of a road. Their ways are drawn; they "
        "drive at about 8 m/s, keep their distance and yield by the rules. A step lasts 1 s."
    ),
    scoring=(
        "Every step on the road gives the reward 1 when the car has arrived, else `high_speed - 5 "
        "collision`: `high_speed` rises evenly from 0 at 7 m/s and below to 1 at 9 m/s and above, "
        "`collision` is 1 when the car has hit something, else 0. Off the road it is 0. It has "
        "arrived 25 m down the road out of the intersection. The score of an Episode is the sum. "
        "A Policy that fails in an Episode scores at most -5 in it, the least there is: a "
        "collision in the first step."
    ),
    ending="**Terminated** on arrival and by a collision. **Truncated** after 13 steps.",
    failure_score=-5.0,
    observation_fields=cars(
        15,
        {
            "presence": ("", "1 where the row holds a car", False),
            "x": ("100 m", "place along x", True),
            "y": ("100 m", "place along y", True),
            "vx": ("20 m/s", "velocity along x", True),
            "vy": ("20 m/s", "velocity along y", True),
            "cos_h": ("", "cosine of the heading", False),
            "sin_h": ("", "sine of the heading", False),
        },
    ),
    observation_text=rows_text(15, _ABSOLUTE),
    action_fields=(Field("move", "", 0, 2, "0 slower, 1 no change, 2 faster."),),
    action_text=(
        "The car follows its way and holds a target speed by itself; target speeds are 0, 4.5 and "
        "9 m/s. `faster` and `slower` set the target one above or below the one nearest to the "
        "car's speed now, as far as there is one."
    ),
    columns=(
        *DRIVING,
        term("high_speed", "0 to 1 by the speed"),
        Column("arrived", "", "1 where the car has arrived."),
    ),
    measures=(
        Measure(
            "arrived",
            "",
            "Whether it arrived.",
            how=lambda e: bool((e.series["arrived"].values > 0).any()),
        ),
        COLLISION,
        MEAN_SPEED,
        LOW_SPEED,
        TOP_SPEED,
        STEPS_OFF_ROAD,
        total("high_speed", "0 to 1 by the speed"),
    ),
    max_steps=13,
    imports=IMPORTS,
)
