"""What all MiniGrid tasks share: the texts about view, Actions and score, the columns of traces,
the measures."""

from __future__ import annotations

from collections.abc import Callable

from evopolicy.authoring import Column, Episode, Field, Measure, Value

OWN, LIMIT = "{own}", "{limit}"
"""Stand in the texts for the task's own step limit, which the reward refers to, and for the one
that truncates."""

OBSERVATION = """\
In detail:

- `direction`: where the agent looks, 0 right, 1 down, 2 left, 3 up, as the whole grid is drawn.
- `mission`: what is asked for, in English.
- `image`: the part of the grid the agent sees, turned so that it looks towards `j = 0`. `image[i, j]` are three \
integers; with the usual size of 7 the agent itself is at `image[3, 6]`, the cell in front of it is `image[3, 5]`, \
`i < 3` is to its left and `i > 3` to its right. Walls and closed doors hide what is behind them.
  - `image[i, j, 0]`, the kind: 0 unseen, 1 empty, 2 wall, 3 floor, 4 door, 5 key, 6 ball, 7 box, 8 goal, 9 lava. \
(10, an agent, does not occur.) Outside the grid counts as wall. At the agent's own cell it is what the agent carries, \
1 for nothing.
  - `image[i, j, 1]`, the colour: 0 red, 1 green, 2 blue, 3 purple, 4 yellow, 5 grey; 0 for empty and unseen cells.
  - `image[i, j, 2]`, the state of a door: 0 open, 1 closed, 2 locked; 0 for all else.

The place of the agent in the grid is not given."""

_ACTIONS = (
    "turn left",
    "turn right",
    "move forward",
    "pick up what is in front",
    "drop what is carried to the front",
    "toggle what is in front",
    "done",
)


def actions(count: int = len(_ACTIONS)) -> tuple[Field, ...]:
    """The Action's field, of a task that has the first `count` of them."""
    meaning = ", ".join(f"{i} {name}" for i, name in enumerate(_ACTIONS[:count]))
    return (Field("action", "", 0, count - 1, f"{meaning}."),)


ACTION_TEXT = """\
Forward goes one cell ahead where that is empty, floor, goal, lava or an open door; else nothing moves. Keys, balls \
and boxes can be picked up, one at a time, and dropped only where the cell in front is empty. Toggle opens and closes \
a door; a locked one opens only while the agent carries a key of its colour, and is then no longer locked; a toggled \
box is gone and leaves what was in it, if anything. Done changes nothing. An Action that cannot be carried \
out still costs its step."""

SCORING = f"""\
The reward is 0 at every step but the last of a solved Episode, which gives `1 - 0.9 n / {OWN}` where n is the number \
of steps taken. The score of an Episode is their sum: 0 where it is not solved, else from 0.1 to almost 1, the more \
the fewer steps it took. A Policy that fails in an Episode scores 0 in it, as much as one that does not solve it."""

COLUMNS = (
    Column("agent_x", "cells", "Column of the grid the agent is in, 0 at the left border."),
    Column("agent_y", "cells", "Row of the grid the agent is in, 0 at the upper border."),
    Column("carried_object", "", "Kind of what the agent carries, as in the image; 0 for nothing."),
    Column("cells_seen", "cells", "Cells of the grid that were in view so far, walls included."),
    Column("cells_visited", "cells", "Cells the agent has been in so far."),
    Column("key_in_view", "", "1 where a key is in view or carried."),
    Column(
        "target_in_view", "", "1 where the goal, or the object the mission asks for, is in view."
    ),
    Column("bumps", "steps", "Moves forward so far that were blocked."),
    Column(
        "idle_actions", "steps", "Pick-ups, drops, toggles and dones so far that changed nothing."
    ),
    Column("objects_taken", "", "Objects picked up so far."),
    Column("keys_taken", "", "Keys picked up so far."),
    Column("balls_taken", "", "Balls picked up so far."),
    Column("doors_opened", "", "Closed doors opened so far that were not locked."),
    Column("locked_doors_opened", "", "Locked doors opened so far."),
    Column("boxes_opened", "", "Boxes opened so far."),
)


def first_step(series: str) -> Callable[[Episode], Value]:
    """A measure: the step at which `series` is first above 0, 0 being the reset; None where it
    never is."""

    def measure(episode: Episode) -> Value:
        found = episode.series[series]
        if (found.value("first") or 0) > 0:
            return 0
        return next((step for step, value in enumerate(found.steps, 1) if value > 0), None)

    return measure


def happened(series: str) -> Callable[[Episode], Value]:
    """A measure: whether `series` was ever above 0."""
    return lambda episode: (episode.series[series].value("max") or 0) > 0


def solved(episode: Episode) -> bool:
    """Whether the task ended the Episode with its reward."""
    return episode.terminated and episode.episode_return > 0


def subgoals(*series: str) -> Callable[[Episode], Value]:
    """A measure: how many of `series` were ever above 0, and one more where the Episode is
    solved."""
    return lambda episode: (
        sum((episode.series[s].value("max") or 0) > 0 for s in series) + solved(episode)
    )


def ended_by(episode: Episode) -> str:
    """'success', 'failure' (the task ended it without reward), 'limit', or 'policy' where the
    Policy failed."""
    if episode.terminated:
        return "success" if episode.episode_return > 0 else "failure"
    return "limit" if episode.truncated else "policy"


SOLVED = Measure("solved", "", "Whether the mission was fulfilled.", how=solved)
STEPS_TO_SOLVE = Measure(
    "steps_to_solve",
    "steps",
    "Steps a solved Episode took.",
    how=lambda e: e.length if solved(e) else None,
)
EXPLORED = (
    Measure(
        "cells_seen",
        "cells",
        "Cells of the grid that were in view, walls included.",
        "cells_seen",
        "last",
    ),
    Measure("cells_visited", "cells", "Different cells the agent was in.", "cells_visited", "last"),
    Measure("bumps", "steps", "Moves forward that were blocked.", "bumps", "last"),
    Measure(
        "idle_actions",
        "steps",
        "Pick-ups, drops, toggles, dones without effect.",
        "idle_actions",
        "last",
    ),
)
KEY = (
    Measure("key_found", "", "Whether a key was picked up.", how=happened("keys_taken")),
    Measure(
        "key_seen_step", "steps", "When a key first was in view.", how=first_step("key_in_view")
    ),
    Measure(
        "key_found_step", "steps", "When a key was first picked up.", how=first_step("keys_taken")
    ),
)
LOCKED_DOOR = (
    Measure(
        "door_opened", "", "Whether a locked door was opened.", how=happened("locked_doors_opened")
    ),
    Measure(
        "door_opened_step",
        "steps",
        "When the first one was.",
        how=first_step("locked_doors_opened"),
    ),
)
TARGET_SEEN = Measure(
    "target_seen_step",
    "steps",
    "When what the mission ends with first was in view.",
    how=first_step("target_in_view"),
)
