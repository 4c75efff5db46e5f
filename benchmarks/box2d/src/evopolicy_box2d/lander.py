"""LunarLander, with four Actions and with throttles: set a lander down on its pad."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from evopolicy.authoring import Column, Episode, Field, Measure, Profile

_TERMS = (
    "reward_distance",
    "reward_speed",
    "reward_tilt",
    "reward_legs",
    "reward_fuel",
    "reward_end",
)
_PAD_HALF_WIDTH = 0.2
"""In units of x: 2 m."""


class LanderWatch:
    """The reward's terms step by step, and the speed at which the legs first meet the ground."""

    def __init__(self, lander: Any) -> None:
        self._lander = lander

    def start(self, observation: Any) -> Mapping[str, float]:
        self._potentials = _potentials(observation)
        return self._body(observation)

    def step(
        self, observation: Any, action: Any, reward: float, terminated: bool
    ) -> Mapping[str, float]:
        before, self._potentials = self._potentials, _potentials(observation)
        # The step that ends an Episode gives its fixed number and nothing else.
        terms = (
            [0.0] * 4
            if terminated
            else [now - then for now, then in zip(self._potentials, before, strict=True)]
        )
        fuel = 0.0 if terminated else -_fuel(action)
        end = reward if terminated else 0.0
        return {**self._body(observation), **dict(zip(_TERMS, [*terms, fuel, end], strict=True))}

    def _body(self, observation: Any) -> dict[str, float]:
        velocity = self._lander.lander.linearVelocity
        legs = float(observation[6]) + float(observation[7])
        return {
            "speed": float(velocity.length),
            "vertical_speed": float(velocity.y),
            "legs_down": legs,
        }


def _potentials(observation: Any) -> tuple[float, float, float, float]:
    x, y, vx, vy, angle, _, first, second = (float(number) for number in observation)
    return (
        -100 * math.hypot(x, y),
        -100 * math.hypot(vx, vy),
        -100 * abs(angle),
        10 * (first + second),
    )


def _fuel(action: Any) -> float:
    """What the engines' use costs in this step."""
    if np.ndim(action) == 0:
        return (0.0, 0.03, 0.3, 0.03)[int(action)]
    main, side = float(action[0]), abs(float(action[1]))
    return (0.15 * (min(main, 1.0) + 1.0) if main > 0 else 0.0) + (
        0.03 * min(side, 1.0) if side > 0.5 else 0.0
    )


def _landed(episode: Episode) -> bool:
    return episode.terminated and bool(episode.series["reward_end"].value("last") == 100.0)


def _on_pad(episode: Episode) -> bool:
    return _landed(episode) and abs(float(episode.last[0])) <= _PAD_HALF_WIDTH


def _ended_by(episode: Episode) -> str:
    if _landed(episode):
        return "landed"
    if episode.terminated:
        return "left" if abs(float(episode.last[0])) >= 1.0 else "crash"
    return "time" if episode.truncated else "failure"


def _touchdown_speed(episode: Episode) -> float | None:
    """Vertical speed in the step before a leg first touched; None where none did."""
    touching = np.flatnonzero(episode.series["legs_down"].values)
    if not len(touching):
        return None
    return float(episode.series["vertical_speed"].values[max(0, int(touching[0]) - 1)])


def _legs_down(episode: Episode) -> int:
    return int(episode.last[6] > 0) + int(episode.last[7] > 0)


_TURNS = "A side engine near the top of the body pushes it sideways and turns it"

_GOAL = (
    "A lander falls towards the moon between random hills; a flat pad 4 m wide lies in the "
    "middle, always at the same place, marked by two flags. Set the lander down on the pad, "
    "upright, softly and with little fuel, and let it come to rest.\n\n"
    "The body weighs 4.8 kg, has two springy legs and a moment of inertia of 0.83 kg m^2; gravity "
    "is 10 m/s^2, a step lasts 0.02 s, there is no wind and no air. Every Episode starts upright "
    "in the middle, about 9.4 m above the pad, with a horizontal and a vertical speed of up to "
    "about 4 m/s each. The main engine pushes along the body's axis away from the legs, at full "
    "power by 0.36 m/s a step on the average, but from 0.18 to 0.54 at random. {side} The terrain "
    "between the pad and the edges is not observed. Fuel never runs out."
)
_SCORING = (
    "Every step gives the change of `-100 distance - 100 speed - 100 |angle| + 10 right_leg + 10 "
    "left_leg` since the step before, where `distance` is `sqrt(x^2 + y^2)` and `speed` is "
    "`sqrt(x_velocity^2 + y_velocity^2)` in the units of the observation; less {fuel}. The step "
    "that ends an Episode gives only 100 where the lander has come to rest, or -100 where it "
    "crashed or left the area. The score of an Episode is the sum. A Policy that fails in an "
    "Episode scores at most -4000 in it, less than burning the main engine without end costs; "
    "there is no least sum, since spinning and flying away cost without limit."
)
_ENDING = (
    "**Terminated** when the body (not the legs) touches the ground, when it is 10 m or more to "
    "the side of the pad's middle (`|x| >= 1`), or when it has come to rest, anywhere. "
    "**Truncated** after 1,000 steps."
)
_FIELDS = (
    Field(
        "x",
        "10 m",
        -2.5,
        2.5,
        "Of the body, positive to the right; the pad's middle is 0, its ends -0.2 and 0.2.",
    ),
    Field(
        "y",
        "6.667 m",
        -2.5,
        2.5,
        "Height of the body over the pad, 0 where it would stand on its legs.",
    ),
    Field("x_velocity", "5 m/s", -10.0, 10.0, "Positive to the right."),
    Field("y_velocity", "7.5 m/s", -10.0, 10.0, "Positive upward."),
    Field(
        "angle",
        "rad",
        -2 * math.pi,
        2 * math.pi,
        "0 upright, positive when it leans to the left; whole turns add.",
    ),
    Field(
        "angular_velocity",
        "2.5 rad/s",
        -10.0,
        10.0,
        "Positive counter-clockwise, so that angle grows.",
    ),
    Field(
        "right_leg",
        "",
        0.0,
        1.0,
        "1 where the leg on the right (as it stands upright) touches the ground, else 0.",
    ),
    Field("left_leg", "", 0.0, 1.0, "1 where the leg on the left touches the ground, else 0."),
)
_OBSERVATION = (
    "The ranges are those of the space; a lander that flies far or spins long goes beyond them."
)

_COLUMNS = (
    Column("speed", "m/s", "Of the body."),
    Column("vertical_speed", "m/s", "Of the body, positive upward."),
    Column("legs_down", "", "Legs that touch the ground."),
    Column("reward_distance", "", "The reward's term for coming nearer to the pad."),
    Column("reward_speed", "", "The reward's term for becoming slower."),
    Column("reward_tilt", "", "The reward's term for coming upright."),
    Column("reward_legs", "", "The reward's term for legs that touch down or lift off."),
    Column("reward_fuel", "", "The reward's term for fuel, 0 or less."),
    Column("reward_end", "", "100 or -100 in the step that ends the Episode by itself."),
)
_MEASURES = (
    Measure(
        "ended_by", "", "landed (at rest), crash, left (the area), time or failure.", how=_ended_by
    ),
    Measure("landed_on_pad", "", "Whether it came to rest between the flags.", how=_on_pad),
    Measure(
        "final_legs_down", "", "Legs that touch the ground at the end, 0 to 2.", how=_legs_down
    ),
    Measure(
        "touchdown_speed",
        "m/s",
        "Vertical speed just before a leg first touched; null: never.",
        how=_touchdown_speed,
    ),
    Measure("final_speed", "m/s", "Speed at the end.", "speed", "last"),
    Measure(
        "final_x", "10 m", "Distance to the right of the pad's middle at the end.", "x", "last"
    ),
    Measure("max_abs_angle", "rad", "Largest lean.", "angle", "max_abs"),
    *(
        Measure(name.removeprefix("reward_") + "_reward", "", f"Sum of {name}.", name, "sum")
        for name in _TERMS
    ),
)

LUNAR_LANDER = Profile(
    slug="lunar_lander",
    id="box2d/LunarLander-v3",
    env_id="LunarLander-v3",
    title="LunarLander",
    goal=_GOAL.format(
        side=f"{_TURNS}, by about 0.05 m/s and 0.1 rad/s a step; one engine acts at a time."
    ),
    scoring=_SCORING.format(fuel="0.3 where the main engine and 0.03 where a side engine burned"),
    ending=_ENDING,
    failure_score=-4000.0,
    observation_fields=_FIELDS,
    observation_text=_OBSERVATION,
    action_fields=(
        Field(
            "engine",
            "",
            0,
            3,
            "0 none; 1 the side engine that pushes to the left and turns counter-clockwise; 2 the "
            "main engine; 3 the side engine that pushes to the right and turns clockwise.",
        ),
    ),
    columns=_COLUMNS,
    measures=_MEASURES,
)

LUNAR_LANDER_CONTINUOUS = Profile(
    slug="lunar_lander_continuous",
    id="box2d/LunarLanderContinuous-v3",
    env_id="LunarLanderContinuous-v3",
    title="LunarLander with throttles",
    goal=_GOAL.format(side=f"{_TURNS}, at full power by about 0.05 m/s and 0.1 rad/s a step."),
    scoring=_SCORING.format(
        fuel="0.3 times the main engine's power (0.5 to 1 where it burns) and 0.03 times the side "
        "engine's"
    ),
    ending=_ENDING,
    failure_score=-4000.0,
    observation_fields=_FIELDS,
    observation_text=_OBSERVATION,
    action_fields=(
        Field(
            "main",
            "",
            -1.0,
            1.0,
            "0 or less: off; above: power from 0.5 (near 0) to 1 (at 1), evenly between.",
        ),
        Field(
            "side",
            "",
            -1.0,
            1.0,
            "From -0.5 to 0.5: off. Below: its size is the power of the engine that pushes to the "
            "left and turns counter-clockwise; above: of the one that pushes to the right and "
            "turns clockwise.",
        ),
    ),
    action_text="An array of two numbers; both engines may burn at once.",
    columns=_COLUMNS,
    measures=_MEASURES,
)
