"""Tasks with a steering wheel: parking and racetrack."""

from __future__ import annotations

import math
from typing import Any

from evopolicy.authoring import Column, Field, Measure, Profile
from evopolicy_highway.parts import (
    CAR_X,
    CAR_Y,
    COLLISION,
    CRASHED,
    HEADING,
    IMPORTS,
    LANE,
    MEAN_SPEED,
    ON_ROAD,
    SPEED,
    STEPS_OFF_ROAD,
    term,
    total,
)


def _state(prefix: str, whose: str) -> tuple[Field, ...]:
    return (
        Field(f"{prefix}x", "100 m", meaning=f"Place of {whose} along x."),
        Field(f"{prefix}y", "100 m", meaning=f"Place of {whose} along y."),
        Field(f"{prefix}vx", "5 m/s", meaning=f"Velocity of {whose} along x."),
        Field(f"{prefix}vy", "5 m/s", meaning=f"Velocity of {whose} along y."),
        Field(f"{prefix}cos_h", "", -1, 1, f"Cosine of the heading of {whose}: 1 along x."),
        Field(f"{prefix}sin_h", "", -1, 1, f"Sine of the heading of {whose}: 1 along y."),
    )


def _distance(observation: Any, _: Any) -> float:
    achieved, desired = observation["achieved_goal"], observation["desired_goal"]
    return 100 * math.dist(achieved[:2].tolist(), desired[:2].tolist())


def _heading_error(observation: Any, _: Any) -> float:
    achieved, desired = observation["achieved_goal"].tolist(), observation["desired_goal"].tolist()
    turn = math.atan2(achieved[5], achieved[4]) - math.atan2(desired[5], desired[4])
    return abs(math.remainder(turn, 2 * math.pi))


PARKING = Profile(
    slug="parking",
    id="highway/parking-v0",
    env_id="parking-v0",
    title="Parking",
    goal=(
        "Park a car in a given spot of an empty parking lot, the right way round, as fast as "
        "possible and without hitting a wall.\n\nThe lot is 70 m along x and 42 m along y with "
        "the origin in its middle and walls around it (0.5 m of each wall is inside). Two rows of "
        "14 spots of 4 by 8 m reach from y 10 to 18 and from y -10 to -18, the spots' middles at "
        "x = -26, -22, ..., 26. The goal is the middle of a spot, at y 14 or -14, with the front "
        "away from the lot's middle: a heading along +y in the first row, along -y in the second. "
        "Spots can be driven across: only walls are hit.\n\nThe car is 5 by 2 m and does not "
        "skid: at the middle of its length it moves at the angle b to its heading, with tan b = "
        "tan(steering) / 2, and turns at speed * sin(b) / 2.5 rad/s. It drives backwards too; 40 "
        "m/s is the largest speed either way. A step lasts 0.2 s, in which the Action is held. "
        "Every Episode starts at the origin, at rest, with a heading drawn uniformly; the goal is "
        "drawn among the spots, one near the car left out."
    ),
    scoring=(
        "Every step gives the reward `-sqrt(d)`, and 5 less when the car has hit a wall, with `d "
        "= |dx| + 0.3 |dy| + 0.02 |dcos_h| + 0.02 |dsin_h|`: the differences of achieved_goal and "
        "desired_goal after the step in the units of the observation; velocities do not count. "
        "The score of an Episode is the sum. A Policy that fails in an Episode scores at most "
        "-450 in it, below the least sum there can be: 500 steps in the farthest corner and a "
        "wall at the end."
    ),
    ending=(
        "**Terminated** when the car is parked, `sqrt(d)` below 0.12 (at any speed), and when it "
        "hits a wall. **Truncated** after 500 steps."
    ),
    failure_score=-450.0,
    observation_fields=(
        *_state("achieved_", "the car"),
        *_state("desired_", "the spot"),
        *_state("", "the car, again"),
    ),
    observation_text=(
        "A dict of three arrays of 6 numbers: `achieved_goal` (the fields achieved_*), "
        "`desired_goal` (desired_*) and `observation` (the rest, equal to achieved_goal). Seen "
        "with x to the right and y down, as pictures show it."
    ),
    action_fields=(
        Field(
            "acceleration",
            "5 m/s2",
            -1,
            1,
            "Along the heading; against the speed it brakes, then drives backwards.",
        ),
        Field(
            "steering",
            "pi/4 rad",
            -1,
            1,
            "Angle of the front wheels, at once; positive turns from x towards y.",
        ),
    ),
    action_text="An array of two numbers.",
    columns=(
        Column("goal_distance", "m", "Of the car's middle from the spot's.", _distance),
        Column(
            "heading_error",
            "rad",
            "Between the car's heading and the spot's, 0 to pi.",
            _heading_error,
        ),
        SPEED,
        CRASHED,
        Column("success", "", "1 where the car is parked."),
    ),
    measures=(
        Measure(
            "parked",
            "",
            "Whether it parked.",
            how=lambda e: bool((e.series["success"].values > 0).any()),
        ),
        COLLISION,
        Measure(
            "final_distance", "m", "Of the car from the spot at the end.", "goal_distance", "last"
        ),
        Measure("min_distance", "m", "Nearest the car came to the spot.", "goal_distance", "min"),
        Measure(
            "final_heading_error",
            "rad",
            "Difference of the headings at the end.",
            "heading_error",
            "last",
        ),
        MEAN_SPEED,
        Measure("top_abs_speed", "m/s", "Largest speed either way.", "speed", "max_abs"),
    ),
    max_steps=500,
    imports=IMPORTS,
)

RACETRACK = Profile(
    slug="racetrack",
    id="highway/racetrack-v0",
    env_id="racetrack-v0",
    title="Racetrack",
    goal=(
        "Steer a car around a closed course of two lanes, in the middle of a lane and with little "
        "steering, without leaving the road or hitting the other car.\n\nThe car drives at 10 m/s "
        "and cannot brake. Each lane is 5 m wide. A step lasts 0.2 s, in which the Action is "
        "held. The car is 5 by 2 m and does not skid. Every Episode starts on the first straight, "
        "on either lane, 20 to 50 m along it; another car drives ahead on the same lane at 6 to 9 "
        "m/s at the start, changes lanes and keeps its distance by itself."
    ),
    scoring=(
        "Every step on the road gives the reward `(lane_centering - 0.3 action - collision + 1) / "
        "2`: `lane_centering` is `1 / (1 + 4 l^2)` with `l` the car's distance in m from the "
        "middle of the lane it is on, `action` the size of the Action, `collision` 1 when it has "
        "hit another car, else 0. Off the road it is 0. The score of an Episode is the sum. A "
        "Policy that fails in an Episode scores at most -0.2 in it, below the least sum there can "
        "be."
    ),
    ending=(
        "**Terminated** when the car leaves the road and when it hits another one. **Truncated** "
        "after 1,501 steps: 300 s, by a clock that adds fifths of a second in floating point."
    ),
    failure_score=-0.2,
    observation_text=(
        "A grid around the car, an array of shape (2, 12, 12): layer 0 is `presence`, 1 in a cell "
        "that holds the middle of a car (the driven one too), layer 1 is `on_road`, 1 in a cell "
        "through which the middle line of a lane goes; else 0. Cells are 3 by 3 m; the grid "
        "reaches 18 m from the car to each side and turns with it: the second index counts from "
        "the rear to the front, the third from its left to its right; the car's middle is where "
        "cells 5 and 6 meet, and in 6."
    ),
    action_fields=(
        Field(
            "steering",
            "pi/4 rad",
            -1,
            1,
            "Angle of the front wheels, at once; positive to the right.",
        ),
    ),
    action_text="An array of one number.",
    columns=(
        SPEED,
        CAR_X,
        CAR_Y,
        HEADING,
        LANE,
        ON_ROAD,
        CRASHED,
        term("lane_centering", "how near it is to the middle of its lane"),
        term("action", "the size of the Action"),
    ),
    measures=(
        COLLISION,
        STEPS_OFF_ROAD,
        total("lane_centering", "nearness to the middle of the lane"),
        total("action", "size of the Action"),
        Measure(
            "mean_lane_centering",
            "",
            "Mean of lane_centering, 1 in the middle.",
            "lane_centering",
            "mean",
        ),
    ),
    max_steps=1501,
    imports=IMPORTS,
)
