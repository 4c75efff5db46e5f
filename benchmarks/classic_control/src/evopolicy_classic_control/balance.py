"""CartPole: keep a pole upright on a cart."""

from __future__ import annotations

from evopolicy.authoring import Episode, Field, Measure, Profile

_ANGLE_LIMIT = 0.20943951
"""12 degrees in rad, as the Environment computes it."""


def _ended_by(episode: Episode) -> str:
    if episode.truncated:
        return "time"
    if not episode.terminated:
        return "failure"
    return "pole_angle" if abs(float(episode.last[2])) > _ANGLE_LIMIT else "cart_position"


CARTPOLE = Profile(
    slug="cartpole",
    id="classic_control/CartPole-v1",
    env_id="CartPole-v1",
    title="CartPole",
    goal=(
        "A pole stands on a cart, joined to it by a hinge without a motor; the cart rolls on a "
        "frictionless track. At every step the cart is pushed to the left or to the right with a "
        "force of fixed size. Keep the pole upright and the cart on the track for as long as "
        "possible.\n\n"
        "The cart has 1.0 kg, the pole 0.1 kg and 1.0 m, the push is 10 N, gravity 9.8 m/s^2, and "
        "a step lasts 0.02 s. Every Episode starts with all four observed numbers drawn uniformly "
        "from -0.05 to 0.05."
    ),
    scoring=(
        "Every step gives the reward 1, the step that ends the Episode too. The score of an "
        "Episode is the sum: the number of steps it lasted, at most 500. A Policy that fails in "
        "an Episode scores 0 in it, whatever it had reached: no Episode that ends by itself "
        "scores so little."
    ),
    ending=(
        "**Terminated** when the pole leans more than 12 degrees (0.2095 rad) from upright to "
        "either side, or the cart's centre is more than 2.4 m from the middle of the track. "
        "**Truncated** after 500 steps."
    ),
    failure_score=0.0,
    observation_fields=(
        Field(
            "cart_position",
            "m",
            -4.8,
            4.8,
            "Of the cart's centre, positive to the right; the middle is 0.",
        ),
        Field("cart_velocity", "m/s", None, None, "Positive to the right."),
        Field(
            "pole_angle",
            "rad",
            -0.41887903,
            0.41887903,
            "From upright, positive when it leans to the right.",
        ),
        Field(
            "pole_angular_velocity",
            "rad/s",
            None,
            None,
            "Positive when the pole turns to the right.",
        ),
    ),
    action_fields=(
        Field("push", "", 0, 1, "0 pushes the cart to the left, 1 pushes it to the right."),
    ),
    observation_text="The ranges are those of the space; an Episode ends well inside them.",
    action_text="There is no Action that leaves the cart alone.",
    measures=(
        Measure(
            "ended_by",
            "",
            "What ended the Episode: pole_angle, cart_position, time or failure.",
            how=_ended_by,
        ),
        Measure("final_pole_angle", "rad", "At the last step.", "pole_angle", "last"),
        Measure(
            "max_abs_pole_angle", "rad", "Largest lean to either side.", "pole_angle", "max_abs"
        ),
        Measure(
            "drift",
            "m",
            "Cart position at the last step less that at the start.",
            "cart_position",
            "change",
        ),
        Measure(
            "max_abs_cart_position", "m", "Farthest from the middle.", "cart_position", "max_abs"
        ),
    ),
)
