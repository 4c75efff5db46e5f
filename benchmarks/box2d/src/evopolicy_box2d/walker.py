"""BipedalWalker on rough ground, and its hardcore form with stumps, stairs and pits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evopolicy.authoring import Column, Episode, Field, Measure, Profile

_TERRAIN_STEP = 14 / 30
_TERMS = ("reward_forward", "reward_posture", "reward_torque", "reward_fall")


class WalkerWatch:
    """Where the hull is, and the reward's terms step by step."""

    def __init__(self, walker: Any) -> None:
        self._walker = walker

    def start(self, observation: Any) -> Mapping[str, float]:
        self._potentials = self._read(observation)
        return self._place()

    def step(
        self, observation: Any, action: Any, reward: float, terminated: bool
    ) -> Mapping[str, float]:
        before, self._potentials = self._potentials, self._read(observation)
        fell = terminated and reward == -100.0
        if fell:  # this step gives its fixed number and nothing else
            terms = (0.0, 0.0, 0.0, -100.0)
        else:
            torque = -0.028 * sum(min(abs(float(number)), 1.0) for number in action)
            terms = (self._potentials[0] - before[0], self._potentials[1] - before[1], torque, 0.0)
        return {**self._place(), **dict(zip(_TERMS, terms, strict=True))}

    def _read(self, observation: Any) -> tuple[float, float]:
        return 130 / 30 * float(self._walker.hull.position.x), -5 * abs(float(observation[0]))

    def _place(self) -> dict[str, float]:
        walker = self._walker
        x, y = walker.hull.position
        # The line of the ground alone: stumps and stairs stand on it.
        i = min(max(int(x / _TERRAIN_STEP), 0), len(walker.terrain_y) - 2)
        left, right = walker.terrain_y[i], walker.terrain_y[i + 1]
        ground = left + (right - left) * (x / _TERRAIN_STEP - i)
        return {"x_position": float(x), "hull_height": float(y - ground)}


def _ended_by(episode: Episode) -> str:
    if episode.truncated:
        return "time"
    if not episode.terminated:
        return "failure"
    if episode.series["reward_fall"].value("last") == 0.0:
        return "end_of_course"
    position = episode.series["x_position"].value("last")
    return "off_start" if position is not None and position < 0 else "fall"


def _fell(episode: Episode) -> bool:
    return _ended_by(episode) == "fall"


def _leg(number: int) -> tuple[Field, ...]:
    other = "light" if number == 1 else "dark"
    leg = f"leg {number} (drawn {other})"
    return (
        Field(
            f"leg{number}_hip_angle",
            "rad",
            -3.1415927,
            3.1415927,
            f"Of the thigh of {leg} against the hull, positive forward; stops at -0.8 and 1.1.",
        ),
        Field(f"leg{number}_hip_speed", "4 rad/s", -5.0, 5.0, f"Of leg{number}_hip_angle."),
        Field(
            f"leg{number}_knee_angle",
            "rad",
            -3.1415927,
            3.1415927,
            f"Of the shin against the thigh of {leg}, plus 1: 1 would be straight, less is bent "
            "with the foot to the back; stops at -0.6 and 0.9.",
        ),
        Field(f"leg{number}_knee_speed", "6 rad/s", -5.0, 5.0, f"Of leg{number}_knee_angle."),
        Field(f"leg{number}_contact", "", 0.0, 5.0, "1 where its shin touches the ground, else 0."),
    )


_FIELDS = (
    Field("hull_angle", "rad", -3.1415927, 3.1415927, "0 level, positive when the front goes up."),
    Field("hull_angular_velocity", "25 rad/s", -5.0, 5.0, "Of hull_angle."),
    Field("x_velocity", "8.333 m/s", -5.0, 5.0, "Of the hull, positive forward."),
    Field("y_velocity", "12.5 m/s", -5.0, 5.0, "Of the hull, positive upward."),
    *_leg(1),
    *_leg(2),
    *(
        Field(
            f"lidar_{i}",
            "5.333 m",
            -1.0,
            1.0,
            f"How far the ground is from the hull in the direction {0.15 * i:.2f} rad forward of "
            "straight down; 1: none within range.",
        )
        for i in range(10)
    ),
)
_ACTIONS = tuple(
    Field(
        f"leg{number}_{joint}_torque",
        "80 N m",
        -1.0,
        1.0,
        f"Size: the torque the motor may use; sign: whether it turns leg{number}_{joint}_angle up "
        f"or down, at {speed} rad/s at most.",
    )
    for number in (1, 2)
    for joint, speed in (("hip", 4), ("knee", 6))
)
_GOAL = (
    "A hull on two legs of thigh and shin stands at the left end of a course. Four motors turn "
    "hips and knees. Walk or run to the right end without the hull touching the ground, with "
    "little torque.\n\n"
    "The hull weighs 5.4 kg, a thigh 0.3 kg and a shin 0.24 kg, each 1.13 m long; gravity is 10 "
    "m/s^2, a step lasts 0.02 s. {ground} Every Episode starts standing at x = 4.7 m, with a push "
    "of the hull of random size to either side; the end is at 88.7 m. The position is not "
    "observed."
)
_SCORING = (
    "Every step gives the change of `4.333 x - 5 |hull_angle|` since the step before, `x` being "
    "the hull's position in m, less 0.028 times the sum of the four Actions' sizes; the whole "
    "course is worth 364 less torque. The step in which the hull touches the ground, or leaves "
    "the course at its left end (x < 0), gives only -100. The score of an Episode is the sum. A "
    "Policy that fails in an Episode scores at most {least} in it, just below the least sum there "
    "can be."
)
_COLUMNS = (
    Column("x_position", "m", "Of the hull along the course."),
    Column(
        "hull_height", "m", "Of the hull's centre over the line of the ground; about 2.35 standing."
    ),
    Column("reward_forward", "", "The reward's term for moving forward."),
    Column("reward_posture", "", "The reward's term for coming level."),
    Column("reward_torque", "", "The reward's term for torque, 0 or less."),
    Column(
        "reward_fall", "", "-100 in the step that ends the Episode by a fall or at the left end."
    ),
)
_MEASURES = (
    Measure(
        "ended_by", "", "fall, off_start (left end), end_of_course, time or failure.", how=_ended_by
    ),
    Measure("fell", "", "Whether the hull touched the ground.", how=_fell),
    Measure("distance", "m", "Forward distance from start to end.", "x_position", "change"),
    Measure("mean_speed", "8.333 m/s", "Mean forward speed.", "x_velocity", "mean"),
    Measure("final_hull_angle", "rad", "At the end; positive: the front up.", "hull_angle", "last"),
    Measure("mean_abs_hull_angle", "rad", "Mean lean of the hull.", "hull_angle", "mean_abs"),
    Measure(
        "min_hull_height",
        "m",
        "Lowest the hull's centre came over the ground.",
        "hull_height",
        "min",
    ),
    Measure("contact_leg1", "", "Share of steps leg 1 was on the ground.", "leg1_contact", "mean"),
    Measure("contact_leg2", "", "Share of steps leg 2 was on the ground.", "leg2_contact", "mean"),
    *(
        Measure(name.removeprefix("reward_") + "_reward", "", f"Sum of {name}.", name, "sum")
        for name in _TERMS
    ),
)


def _profile(
    slug: str, env_id: str, title: str, ground: str, steps: str, failure_score: float
) -> Profile:
    return Profile(
        slug=slug,
        programs_of={"initial": "bipedal_walker", "parametric": "bipedal_walker"},
        id=f"box2d/{env_id}",
        env_id=env_id,
        title=title,
        goal=_GOAL.format(ground=ground),
        scoring=_SCORING.format(least=f"{failure_score:.0f}"),
        ending=(
            "**Terminated** when the hull touches the ground, when it is off the course's left "
            f"end (x < 0), or past its right end (x > 88.67 m). **Truncated** after {steps} steps."
        ),
        failure_score=failure_score,
        observation_fields=_FIELDS,
        observation_text="The ranges are those of the space; speeds may go beyond them for a "
        "moment.",
        action_fields=_ACTIONS,
        action_text="An array of four numbers. At 0 a joint turns freely.",
        columns=_COLUMNS,
        measures=_MEASURES,
    )


BIPEDAL_WALKER = _profile(
    "bipedal_walker",
    "BipedalWalker-v3",
    "BipedalWalker",
    "The ground is flat at first, then slightly uneven, differently in every Episode.",
    "1,600",
    -320.0,
)
BIPEDAL_WALKER_HARDCORE = _profile(
    "bipedal_walker_hardcore",
    "BipedalWalkerHardcore-v3",
    "BipedalWalker, hardcore",
    "The ground is flat at first, then slightly uneven, and every 2.3 to 4.2 m an obstacle stands "
    "on it: a square stump 0.47 or 0.93 m wide and high, stairs of three or four steps 1.9 m wide "
    "that go up or down by 0.47 m each, or a pit 0.9 or 1.4 m wide and 1.9 m deep. Everything is "
    "drawn anew in every Episode.",
    "2,000",
    -370.0,
)
