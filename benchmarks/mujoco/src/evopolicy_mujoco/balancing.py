"""Poles on a cart with a continuous force: InvertedPendulum and InvertedDoublePendulum."""

from __future__ import annotations

import math
from typing import Any

from evopolicy.authoring import Column, Field, Measure, Profile
from evopolicy_mujoco.parts import FELL, STILL, SURVIVE, SURVIVE_REWARD

_CART = Field(
    "cart_position", "m", meaning="Along the rail, which ends at -1 and 1; the middle is 0."
)
_DRIFT = Measure(
    "drift", "m", "Cart position at the end less that at the start.", "cart_position", "change"
)

INVERTED_PENDULUM = Profile(
    slug="inverted_pendulum",
    id="mujoco/InvertedPendulum-v5",
    env_id="InvertedPendulum-v5",
    title="InvertedPendulum",
    goal=(
        "A pole stands on a cart, joined to it by a hinge without a motor; a motor pushes the "
        "cart along a rail. Keep the pole upright for as long as possible.\n\n"
        "The cart weighs 10.5 kg, the pole 5 kg; a step lasts 0.04 s. Every Episode starts with "
        "each observed number drawn uniformly from -0.01 to 0.01."
    ),
    scoring=(
        "Every step gives the reward 1, the step in which the pole falls 0. The score of an "
        "Episode is the sum, at most 1,000. A Policy that fails in an Episode scores 0 in it."
    ),
    ending=(
        "**Terminated** when the pole leans more than 0.2 rad, or an observed number is not "
        "finite. **Truncated** after 1,000 steps. The ends of the rail end nothing: the cart "
        "stops there."
    ),
    failure_score=0.0,
    observation_fields=(
        _CART,
        Field(
            "pole_angle",
            "rad",
            meaning="From upright, positive when it leans towards positive positions.",
        ),
        Field("cart_velocity", "m/s", meaning="Of cart_position."),
        Field("pole_angular_velocity", "rad/s", meaning="Of pole_angle."),
    ),
    action_fields=(
        Field("force", "100 N", -3.0, 3.0, "On the cart, positive towards positive positions."),
    ),
    action_text="An array of one number.",
    columns=(SURVIVE,),
    measures=(
        FELL,
        Measure("final_pole_angle", "rad", "At the last step.", "pole_angle", "last"),
        Measure("mean_abs_pole_angle", "rad", "Mean lean of the pole.", "pole_angle", "mean_abs"),
        _DRIFT,
        Measure(
            "max_abs_cart_position", "m", "Farthest from the middle.", "cart_position", "max_abs"
        ),
    ),
    drawing=STILL,
)


def _lower_angle(observation: Any, _: Any) -> float:
    return math.atan2(observation[1], observation[3])


def _upper_angle(observation: Any, _: Any) -> float:
    return math.atan2(observation[2], observation[4])


INVERTED_DOUBLE_PENDULUM = Profile(
    slug="inverted_double_pendulum",
    id="mujoco/InvertedDoublePendulum-v5",
    env_id="InvertedDoublePendulum-v5",
    title="InvertedDoublePendulum",
    goal=(
        "Two poles stand on a cart, one on top of the other, joined by hinges without motors; a "
        "motor pushes the cart along a rail. Keep the tip of the upper pole up for as long as "
        "possible, near the middle and still.\n\n"
        "The cart weighs 10.5 kg, each pole 4.2 kg and 0.6 m long; a step lasts 0.05 s. Every "
        "Episode starts with each position off from upright in the middle by up to 0.1 and each "
        "velocity by a normal number of deviation 0.1."
    ),
    scoring=(
        "Every step gives the reward `10 - distance - velocity`, without the 10 in the step that "
        "terminates: `distance` is `0.01 x^2 + (y - 2)^2` with x and y the place and height of "
        "the tip in m (y is 1.2 at most, so this is at least 0.64), `velocity` is `0.001 v1^2 + "
        "0.005 v2^2` with v1 and v2 the angular velocities of the hinges in rad/s. The score of "
        "an Episode is the sum, below 9,360. A Policy that fails in an Episode scores at most 0 "
        "in it."
    ),
    ending="**Terminated** when the tip is 1 m high or lower. **Truncated** after 1,000 steps.",
    failure_score=0.0,
    observation_fields=(
        _CART,
        Field(
            "sin_lower",
            "1",
            -1.0,
            1.0,
            "Sine of the lower pole's angle from upright, positive to the right.",
        ),
        Field("sin_upper", "1", -1.0, 1.0, "Sine of the upper pole's angle relative to the lower."),
        Field("cos_lower", "1", -1.0, 1.0, "Cosine of the lower pole's angle from upright."),
        Field(
            "cos_upper", "1", -1.0, 1.0, "Cosine of the upper pole's angle relative to the lower."
        ),
        Field("cart_velocity", "m/s", -10.0, 10.0, "Cut to this range."),
        Field(
            "lower_velocity", "rad/s", -10.0, 10.0, "Of the lower pole's angle; cut to this range."
        ),
        Field(
            "upper_velocity",
            "rad/s",
            -10.0,
            10.0,
            "Of the upper pole's relative angle; cut to this range.",
        ),
        Field(
            "rail_force",
            "N",
            -10.0,
            10.0,
            "On the cart from the end of the rail; cut to this range.",
        ),
    ),
    action_fields=(
        Field("force", "500 N", -1.0, 1.0, "On the cart, positive towards positive positions."),
    ),
    action_text="An array of one number.",
    columns=(
        Column("lower_angle", "rad", "Of the lower pole from upright.", _lower_angle),
        Column("upper_angle", "rad", "Of the upper pole relative to the lower.", _upper_angle),
        SURVIVE,
        Column("distance_penalty", "", "The reward's term for the tip's place, 0 or less."),
        Column("velocity_penalty", "", "The reward's term for angular velocities, 0 or less."),
    ),
    measures=(
        FELL,
        SURVIVE_REWARD,
        Measure(
            "distance_penalty",
            "",
            "Sum of the reward's term for the tip's place.",
            "distance_penalty",
            "sum",
        ),
        Measure(
            "velocity_penalty", "", "Sum of the reward's velocity term.", "velocity_penalty", "sum"
        ),
        Measure(
            "final_lower_angle",
            "rad",
            "Of the lower pole from upright at the end.",
            "lower_angle",
            "last",
        ),
        _DRIFT,
    ),
    drawing=STILL,
)
