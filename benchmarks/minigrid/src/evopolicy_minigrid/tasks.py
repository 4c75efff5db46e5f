"""The profiles of the four tasks that have names of their own."""

from __future__ import annotations

from typing import Any

from evopolicy.authoring import Episode, Measure, Profile
from evopolicy_minigrid.texts import (
    ACTION_TEXT,
    COLUMNS,
    EXPLORED,
    KEY,
    LIMIT,
    LOCKED_DOOR,
    OBSERVATION,
    SCORING,
    SOLVED,
    STEPS_TO_SOLVE,
    TARGET_SEEN,
    actions,
    first_step,
    happened,
    subgoals,
)

IMPORTS = ("minigrid",)
DRAWING = {"tile_size": 16}
_SEES = (
    "The agent sees 7 by 7 cells: its own row and the six ahead of it, three to either side, as "
    "far as no wall or closed door hides them."
)


def profile(
    slug: str, env_id: str, max_steps: int, measures: tuple[Measure, ...], **texts: Any
) -> Profile:
    """A MiniGrid task: what all share, with its own texts and measures before those of
    exploring."""
    fields: dict[str, Any] = {
        "scoring": SCORING,
        "observation_text": OBSERVATION,
        "action_fields": actions(),
        "action_text": ACTION_TEXT,
        "failure_score": 0.0,
        **texts,
    }
    return Profile(
        slug=slug,
        programs_of={"parametric": "minigrid_door_key"},
        id=f"minigrid/{env_id}",
        env_id=env_id,
        columns=COLUMNS,
        measures=(SOLVED, STEPS_TO_SOLVE, *measures, *EXPLORED),
        max_steps=max_steps,
        imports=IMPORTS,
        drawing=DRAWING,
        **fields,
    )


def _subgoals(meaning: str, *series: str) -> Measure:
    return Measure("subgoals_reached", "", meaning, how=subgoals(*series))


def _rooms(episode: Episode) -> int:
    """Quarters of the 19 by 19 grid the agent was in; the walls between them are at 9."""
    places = zip(episode.series["agent_x"].steps, episode.series["agent_y"].steps, strict=True)
    return len({(x > 9, y > 9) for x, y in places if x != 9 and y != 9})


DOOR_KEY = profile(
    "minigrid_door_key",
    "MiniGrid-DoorKey-16x16-v0",
    2560,
    (
        _subgoals(
            "Of 3: key picked up, door opened, goal reached.", "keys_taken", "locked_doors_opened"
        ),
        *KEY,
        *LOCKED_DOOR,
        TARGET_SEEN,
    ),
    title="MiniGrid DoorKey, 16 by 16",
    goal=(
        "A square of 16 by 16 cells with a wall around it is split by a wall from top to bottom, "
        "with one locked door in it. The agent and a key of the door's colour are on the left "
        "side, the green goal is on the right. Get to the goal in as few steps as possible.\n\n"
        "Every Episode draws where the wall, the door and the key are and where the agent starts "
        f"and looks; the goal is always in the lower right corner. {_SEES}"
    ),
    ending=f"**Terminated** when the agent moves onto the goal. **Truncated** after {LIMIT} steps.",
)

KEY_CORRIDOR = profile(
    "minigrid_key_corridor",
    "MiniGrid-KeyCorridorS4R3-v0",
    480,
    (
        _subgoals(
            "Of 3: key picked up, locked door opened, ball picked up.",
            "keys_taken",
            "locked_doors_opened",
        ),
        *KEY,
        *LOCKED_DOOR,
        Measure(
            "doors_opened", "", "Closed doors opened that were not locked.", "doors_opened", "last"
        ),
        TARGET_SEEN,
    ),
    title="MiniGrid KeyCorridor, S4R3",
    goal=(
        "Three columns of three small rooms, each two by two cells inside; the middle column is "
        "one corridor. A ball is in a room on the right whose door to the corridor is locked; "
        "the key to it, of the door's colour, is in some room on the left. Other doors are "
        "closed and not locked; some lead from room to room. Pick up the ball the mission names, "
        "in as few steps as possible.\n\n"
        "The grid has 10 by 10 cells, walls included. Every Episode draws doors, colours, places "
        f"and where the agent looks; it starts in the middle of the corridor's length. {_SEES}"
    ),
    ending=f"**Terminated** when the agent picks up the ball. **Truncated** after {LIMIT} steps.",
)

FOUR_ROOMS = profile(
    "minigrid_four_rooms",
    "MiniGrid-FourRooms-v0",
    100,
    (
        TARGET_SEEN,
        Measure(
            "rooms_visited", "", "Of the four, how many the agent was in after a step.", how=_rooms
        ),
    ),
    title="MiniGrid FourRooms",
    goal=(
        "A square of 19 by 19 cells, walls included, is split into four rooms by a wall down the "
        "middle and one across; each of the four stretches of wall has one gap of one cell. Get "
        "to the green goal in as few steps as possible.\n\n"
        "Every Episode draws the gaps, the goal's place in any of the rooms, and where the agent "
        f"starts and looks. {_SEES}"
    ),
    ending=f"**Terminated** when the agent moves onto the goal. **Truncated** after {LIMIT} steps.",
)

OBSTRUCTED_MAZE = profile(
    "minigrid_obstructed_maze",
    "MiniGrid-ObstructedMaze-1Q-v1",
    720,
    (
        _subgoals(
            "Of 4: box opened, key picked up, locked door opened, blue ball picked up.",
            "boxes_opened",
            "keys_taken",
            "locked_doors_opened",
        ),
        Measure(
            "box_opened_step",
            "steps",
            "When the first box was opened.",
            how=first_step("boxes_opened"),
        ),
        *KEY,
        *LOCKED_DOOR,
        Measure(
            "obstacle_moved", "", "Whether any ball was picked up.", how=happened("balls_taken")
        ),
        Measure(
            "obstacle_moved_step", "steps", "When the first one was.", how=first_step("balls_taken")
        ),
        TARGET_SEEN,
    ),
    title="MiniGrid ObstructedMaze, 1Q",
    goal=(
        "Three by three rooms, each four by four cells inside. The agent starts in the middle "
        "room; a closed door leads from it to one side room, and two locked doors lead on from "
        "there. A green ball lies before each locked door, and the keys, each of its door's "
        "colour, are hidden in grey boxes in the side room. Pick up the blue ball, which is in a "
        "corner room, in as few steps as possible.\n\n"
        "The grid has 16 by 16 cells, walls included. Every Episode draws where in their walls "
        "the doors are, their colours, the places of boxes and blue ball, and where the agent "
        f"starts and looks. {_SEES}"
    ),
    ending=f"**Terminated** when the agent picks up the blue ball. **Truncated** after {LIMIT} "
    "steps.",
)
