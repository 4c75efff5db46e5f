"""Tasks seen as times to collision: two-way and u-turn."""

from __future__ import annotations

from evopolicy.authoring import Measure, Profile
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
    moves_text,
    term,
    total,
)


def _grid(seconds: int, speeds: str) -> str:
    return (
        f"A grid of predicted collisions, an array of shape (3, 3, {seconds}), cut out around the "
        f"car. First index: the target speed, of {speeds} m/s: 1 is the car's own, 0 the next "
        "lower, 2 the next higher; at either end the last one is repeated. Second index: the "
        "lane: 1 is the car's own, 0 the one to its left, 2 the one to its right; where there is "
        "no lane all is 1. Third index: in how many whole seconds. A value is 1 where the cars' "
        "middles meet, 0.5 where the cars touch, 0 where nothing is predicted, if every other "
        "car keeps its speed and lane and this one drives at that speed on that lane."
    )


TWO_WAY = Profile(
    slug="two_way",
    id="highway/two-way-v0",
    env_id="two-way-v0",
    title="Two-way road",
    goal=(
        "Drive a car on a road of two lanes with oncoming traffic on the left one: fast, on the "
        "left where that can be, and without hitting another car.\n\nx is along the road. The car "
        "starts at x = 30 m on the right lane (1) at 30 m/s. Three cars drive ahead on the right "
        "lane near x = 70, 110 and 150 m at about 24 m/s; two come the other way on the left lane "
        "(0) from about x = 600 and 500 m at about 20 m/s. Places and speeds are drawn in every "
        "Episode; those cars keep their lanes. A step lasts 1 s."
    ),
    scoring=(
        "Every step gives the reward `0.8 high_speed + 0.2 left_lane`: `high_speed` is 0, 0.5 or "
        "1 for a target speed of 20, 25 or 30 m/s, `left_lane` 1 when the car is on the left lane "
        "or heading for it, else 0. A collision costs nothing but the rest of the Episode. The "
        "score of an Episode is the sum. A Policy that fails in an Episode scores 0 in it, the "
        "least there is."
    ),
    ending="**Terminated** by a collision. **Truncated** after 15 steps.",
    failure_score=0.0,
    observation_text=_grid(5, "20, 25 and 30"),
    action_fields=MOVES,
    action_text=moves_text("20, 25 and 30"),
    columns=(
        *DRIVING,
        term("high_speed", "0, 0.5 or 1 by the target speed"),
        term("left_lane", "1 on or heading for the left lane"),
    ),
    measures=(
        COLLISION,
        FORWARD,
        MEAN_SPEED,
        TOP_SPEED,
        LANE_CHANGES,
        total("high_speed", "0, 0.5 or 1 by the target speed"),
        total("left_lane", "1 on or heading for the left lane"),
    ),
    imports=IMPORTS,
)

U_TURN = Profile(
    slug="u_turn",
    id="highway/u-turn-v0",
    env_id="u-turn-v0",
    title="U-turn",
    goal=(
        "Drive a car around a U-turn of two lanes past slow cars: fast and without hitting "
        "one.\n\nWith x to the right and y down: a straight from x = 0 to 128 m heading along x, "
        "half a circle to the left around (128, 24), and a straight back to x = 0. The left lane "
        "(0) is the inner one, at y = 44, radius 20 and y = 4; the right one (1) lies 4 m outside "
        "it. The car starts at x = 0 on the left lane at 16 m/s. Six others are ahead: one near x "
        "= 25 on the left lane (about 13.5 m/s), one near x = 56 on the right one (14.5), two in "
        "the curve (about 5) and two behind it (about 4.5). Places and speeds are drawn in every "
        "Episode; these cars keep their distance and change lanes by themselves. A step lasts 1 s."
    ),
    scoring=(
        "Every step on the road gives the reward `(0.4 high_speed + 0.1 left_lane - collision + "
        "1) / 1.5`: `high_speed` rises evenly from 0 at 8 m/s and below to 1 at 24 m/s and above; "
        "`left_lane`, its name in the task's code, is 1 when the car is on the right lane (1) and "
        "0 on the left one; `collision` is 1 when it has hit something, else 0. Off the road it "
        "is 0. The score of an Episode is the sum. A Policy that fails in an Episode scores 0 in "
        "it, the least there is."
    ),
    ending="**Terminated** by a collision. **Truncated** after 10 steps.",
    failure_score=0.0,
    observation_text=_grid(16, "8, 16 and 24"),
    action_fields=MOVES,
    action_text=moves_text("8, 16 and 24"),
    columns=(
        *DRIVING,
        term("high_speed", "0 to 1 by the speed"),
        term("left_lane", "1 on the right lane"),
    ),
    measures=(
        COLLISION,
        MEAN_SPEED,
        TOP_SPEED,
        LANE_CHANGES,
        STEPS_OFF_ROAD,
        total("high_speed", "0 to 1 by the speed"),
        total("left_lane", "1 on the right lane"),
        Measure("final_x", "m", "Where the car was at the end.", "car_x", "last"),
        Measure("final_y", "m", "Where the car was at the end.", "car_y", "last"),
    ),
    max_steps=10,
    imports=IMPORTS,
)
