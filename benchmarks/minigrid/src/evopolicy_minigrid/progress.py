"""What happens in a MiniGrid Episode, counted beside the Environment: cells, objects, doors, wasted
Actions."""

from __future__ import annotations

from typing import Any

import numpy as np

FORWARD, PICKUP, DROP, TOGGLE, DONE = 2, 3, 4, 5, 6
KEY = 5
OBJECTS = (
    "unseen",
    "empty",
    "wall",
    "floor",
    "door",
    "key",
    "ball",
    "box",
    "goal",
    "lava",
    "agent",
)
COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
DIRECTIONS = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""(x, y) of a step forward when looking right, down, left, up: x grows to the right, y
downwards."""


def view_offsets(size: int) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """By direction, how far each cell `image[i, j]` of a view lies from its agent: arrays x and y,
    (size, size)."""
    i, j = np.indices((size, size))
    ahead, right = size - 1 - j, i - size // 2
    return [(dx * ahead - dy * right, dy * ahead + dx * right) for dx, dy in DIRECTIONS]


class Progress:
    """A MiniGrid Environment that adds counts to the `info` of every step; nothing else of it
    changes.

    It looks at the task's inner state, so that none of it is for a Policy: columns of traces and
    measures."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._task = env.unwrapped
        self.action_space, self.observation_space = env.action_space, env.observation_space

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self._env.reset(seed=seed)
        task = self._task
        size = int(observation["image"].shape[0])
        # A margin around the grid takes what lies outside it; cells are marked by their place in
        # the flat array.
        seen = np.zeros((task.width + 2 * size, task.height + 2 * size), bool)
        self._inside, self._seen = (
            seen[size : size + task.width, size : size + task.height],
            seen.ravel(),
        )
        self._stride = seen.shape[1]
        self._offsets = [
            ((x + size) * self._stride + y + size).ravel() for x, y in view_offsets(size)
        ]
        self._visited: set[tuple[int, int]] = set()
        self._target = _target(task)
        names = ("bumps", "idle_actions", "objects_taken", "keys_taken", "balls_taken")
        self._counts = dict.fromkeys(
            (*names, "doors_opened", "locked_doors_opened", "boxes_opened"), 0
        )
        return observation, {**info, **self._columns(observation)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        task = self._task
        before = (*task.agent_pos, task.agent_dir)
        carried, front, state = task.carrying, None, None
        if action == TOGGLE:
            front = task.grid.get(*task.front_pos)
            state = front.encode() if front is not None else None
            place = tuple(task.front_pos)
        observation, reward, terminated, truncated, info = self._env.step(action)
        if action == TOGGLE:
            self._toggled(front, state, task.grid.get(*place))
        elif action >= FORWARD:
            self._acted(action, carried, (*task.agent_pos, task.agent_dir) != before)
        return observation, reward, terminated, truncated, {**info, **self._columns(observation)}

    def close(self) -> None:
        self._env.close()

    def _toggled(self, front: Any, state: Any, after: Any) -> None:
        counts = self._counts
        if front is None or (after is front and front.encode() == state):
            counts["idle_actions"] += 1
        elif front.type == "door" and front.is_open:
            counts["locked_doors_opened" if state[2] == 2 else "doors_opened"] += 1
        elif front.type == "box":
            counts["boxes_opened"] += 1

    def _acted(self, action: int, carried: Any, moved: bool) -> None:
        counts, carrying = self._counts, self._task.carrying
        if action == FORWARD:
            counts["bumps"] += not moved
        elif carrying is carried:
            counts["idle_actions"] += 1
        elif action == PICKUP:
            counts["objects_taken"] += 1
            if carrying.type in ("key", "ball"):
                counts[f"{carrying.type}s_taken"] += 1

    def _columns(self, observation: Any) -> dict[str, Any]:
        task = self._task
        x, y = int(task.agent_pos[0]), int(task.agent_pos[1])
        cells = observation["image"].tobytes()
        kinds = cells[::3]
        visible = np.frombuffer(kinds, np.uint8).nonzero()[0]
        self._seen[self._offsets[int(task.agent_dir)][visible] + (x * self._stride + y)] = True
        self._visited.add((x, y))
        carrying = task.carrying
        return {
            "agent_x": x,
            "agent_y": y,
            "carried_object": 0 if carrying is None else OBJECTS.index(carrying.type),
            "cells_seen": int(np.count_nonzero(self._inside)),
            "cells_visited": len(self._visited),
            "key_in_view": int(KEY in kinds),
            "target_in_view": int(self._target_in_view(kinds, cells[1::3])),
            **self._counts,
        }

    def _target_in_view(self, kinds: bytes, colors: bytes) -> bool:
        if self._target is None or self._target[0] not in kinds:
            return False
        return self._target in zip(kinds, colors, strict=True)


def _target(task: Any) -> tuple[int, int] | None:
    """Kind and colour of what the task is about: its object, else the goal on the grid; None where
    it has neither."""
    thing = getattr(task, "obj", None)
    if thing is None:
        thing = next(
            (cell for cell in task.grid.grid if cell is not None and cell.type == "goal"), None
        )
    if thing is None or not hasattr(thing, "color"):
        return None
    return OBJECTS.index(thing.type), COLORS.index(thing.color)
