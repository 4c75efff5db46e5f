"""Taxi, FrozenLake and CliffWalking: tasks on small grids whose fields are numbered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evopolicy.authoring import Column, Episode, Field, Measure, Profile, Value


def _digit(divisor: int, base: int) -> Callable[[Any, Any], float]:
    """One of the numbers an observation is put together of."""
    return lambda observation, _: float(observation // divisor % base)


def _first(series: str, value: float) -> Callable[[Episode], Value]:
    """A measure: the step at which `series` first has `value`; None where it never has."""
    return lambda episode: next(
        (i for i, x in enumerate(episode.series[series].steps, 1) if x == value), None
    )


def _steps_with_reward(reward: float) -> Callable[[Episode], Value]:
    return lambda episode: sum(x == reward for x in episode.series["reward"].steps)


def _solved(episode: Episode) -> bool:
    return episode.terminated


def _steps_to_solve(episode: Episode) -> Value:
    return episode.length if episode.terminated else None


# --- Taxi -----------------------------------------------------------------------------------------

TAXI = Profile(
    slug="taxi",
    id="toy_text/Taxi-v4",
    env_id="Taxi-v4",
    title="Taxi",
    goal=(
        "A taxi drives on a grid of 5 by 5 fields with four marked ones: red (row 0, column 0), "
        "green (0, 4), yellow (4, 0) and blue (4, 3). A passenger waits at one of them and wants "
        "to another. Fetch the passenger and bring it there in as few steps as possible.\n\n"
        "Rows count from the top and columns from the left, from 0. Moves go where they are meant "
        "to, one field; the border and some walls between fields of one row stop them. The walls "
        "are the same in every Episode; they are drawn in replays. Every Episode draws the taxi's "
        "field, where the passenger waits and where it wants to."
    ),
    scoring=(
        "The step that sets the passenger down where it wants to gives 20. A pick-up where it "
        "does not wait, and a drop-off without it or on a field that is not marked, give -10. "
        "Every other step gives -1, a stopped move and a drop-off at another marked field too: "
        "there the passenger gets out and waits. The score of an Episode is their sum, at least "
        "-2000. A Policy that fails in an Episode scores -2000 in it: failing never pays."
    ),
    ending="**Terminated** when the passenger is where it wants to be. **Truncated** after 200 "
    "steps.",
    failure_score=-2000.0,
    observation_fields=(
        Field(
            "state",
            "",
            0,
            499,
            "`((row * 5 + column) * 5 + passenger) * 4 + destination`, see below.",
        ),
    ),
    observation_text=(
        "`row` and `column` are the taxi's; `passenger` is 0 waiting at red, 1 at green, 2 at "
        "yellow, 3 at blue, 4 in the taxi; `destination` is 0 red, 1 green, 2 yellow, 3 blue."
    ),
    action_fields=(
        Field("action", "", 0, 5, "0 down, 1 up, 2 right, 3 left, 4 pick up, 5 drop off."),
    ),
    columns=(
        Column("taxi_row", "", "From 0 at the top.", _digit(100, 5)),
        Column("taxi_column", "", "From 0 at the left.", _digit(20, 5)),
        Column("passenger", "", "0 to 3 the mark it waits at, 4 in the taxi.", _digit(4, 5)),
        Column("destination", "", "0 to 3, the mark it wants to.", _digit(1, 4)),
    ),
    measures=(
        Measure("delivered", "", "Whether the passenger came where it wants to.", how=_solved),
        Measure(
            "steps_to_deliver", "steps", "Steps of an Episode that ended so.", how=_steps_to_solve
        ),
        Measure(
            "picked_up_step",
            "steps",
            "When the passenger was first in the taxi.",
            how=_first("passenger", 4.0),
        ),
        Measure(
            "penalties",
            "steps",
            "Pick-ups and drop-offs that cost 10.",
            how=_steps_with_reward(-10.0),
        ),
    ),
)


# --- FrozenLake -----------------------------------------------------------------------------------


def _fell(episode: Episode) -> bool:
    return episode.terminated and episode.episode_return <= 0


def _fields_visited(episode: Episode) -> int:
    return len(set(zip(episode.series["row"].steps, episode.series["column"].steps, strict=True)))


def _lake(slug: str, env_id: str, side: int, max_steps: int) -> Profile:
    return Profile(
        slug=slug,
        programs_of={"initial": "frozen_lake"},
        id=f"toy_text/{env_id}",
        env_id=env_id,
        title=f"FrozenLake, {side} by {side}",
        goal=(
            f"Cross a frozen lake of {side} by {side} fields from the upper left corner to the "
            "goal in the lower right one without stepping into a hole. The ice is slippery: a "
            "move goes where it was meant to with probability 1/3, and to either side of that, "
            "at a right angle, with 1/3 each; the border stops it.\n\n"
            "Where the holes are is the same in every Episode; they are drawn in replays."
        ),
        scoring=(
            "The step onto the goal gives 1, every other 0; the score of an Episode is their sum, "
            "1 or 0. A Policy that fails in an Episode scores 0 in it, as much as one that falls "
            "into a hole."
        ),
        ending=f"**Terminated** at the goal or in a hole. **Truncated** after {max_steps} steps.",
        failure_score=0.0,
        observation_fields=(
            Field(
                "field",
                "",
                0,
                side**2 - 1,
                f"`row * {side} + column`, both from 0 in the upper left corner.",
            ),
        ),
        action_fields=(Field("move", "", 0, 3, "0 left, 1 down, 2 right, 3 up."),),
        columns=(
            Column("row", "", "From 0 at the top.", _digit(side, side)),
            Column("column", "", "From 0 at the left.", _digit(1, side)),
        ),
        measures=(
            Measure(
                "reached_goal",
                "",
                "Whether it got across.",
                how=lambda episode: episode.episode_return > 0,
            ),
            Measure("fell", "", "Whether it stepped into a hole.", how=_fell),
            Measure("final_field", "", "Row and column at the end, as text.", how=_final_field),
            Measure("fields_visited", "", "Different fields it stepped onto.", how=_fields_visited),
        ),
    )


def _final_field(episode: Episode) -> Value:
    row, column = episode.series["row"].value("last"), episode.series["column"].value("last")
    return None if row is None or column is None else f"{row:.0f},{column:.0f}"


FROZEN_LAKE = _lake("frozen_lake", "FrozenLake-v1", 4, 100)
FROZEN_LAKE_8X8 = _lake("frozen_lake_8x8", "FrozenLake8x8-v1", 8, 200)


# --- CliffWalking ---------------------------------------------------------------------------------


def _cliff(slug: str, env_id: str, title: str, ground: str) -> Profile:
    return Profile(
        slug=slug,
        programs_of={"initial": "cliff_walking"},
        id=f"toy_text/{env_id}",
        env_id=env_id,
        title=title,
        goal=(
            "A grid of 4 rows and 12 columns: the start is its lower left field (row 3, column "
            "0), the goal its lower right one (row 3, column 11), and all fields of the lowest "
            "row between them are a cliff. Walk to the goal in as few steps as possible; who "
            f"steps onto the cliff is back at the start.\n\n{ground}"
        ),
        scoring=(
            "Every step gives -1, one onto the cliff -100 instead. The score of an Episode is "
            "their sum, at least -20000. A Policy that fails in an Episode scores -20000 in it: "
            "failing never pays."
        ),
        ending="**Terminated** at the goal. **Truncated** after 200 steps.",
        failure_score=-20000.0,
        observation_fields=(
            Field(
                "field",
                "",
                0,
                47,
                "`row * 12 + column`, both from 0 in the upper left corner; the start is 36.",
            ),
        ),
        action_fields=(Field("move", "", 0, 3, "0 up, 1 right, 2 down, 3 left."),),
        columns=(
            Column("row", "", "From 0 at the top.", _digit(12, 4)),
            Column("column", "", "From 0 at the left.", _digit(1, 12)),
        ),
        measures=(
            Measure("reached_goal", "", "Whether it came to the goal.", how=_solved),
            Measure("steps_to_goal", "steps", "Steps of an Episode that did.", how=_steps_to_solve),
            Measure("falls", "", "Steps onto the cliff.", how=_steps_with_reward(-100.0)),
            Measure("farthest_column", "", "Farthest to the right.", "column", "max"),
        ),
        max_steps=200,
    )


CLIFF_WALKING = _cliff(
    "cliff_walking",
    "CliffWalking-v1",
    "CliffWalking",
    "Moves go where they are meant to; the border stops them. All Episodes begin alike and "
    "nothing is drawn.",
)
CLIFF_WALKING_SLIPPERY = _cliff(
    "cliff_walking_slippery",
    "CliffWalkingSlippery-v1",
    "CliffWalking on slippery ground",
    "The ground is slippery: a move goes where it was meant to with probability 1/3, and to "
    "either side of that, at a right angle, with 1/3 each; the border stops it. All Episodes "
    "begin alike.",
)
