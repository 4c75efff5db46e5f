"""A small Gymnasium task whose every property a test can set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

LIMITED, UNLIMITED = "evopolicy-test/Toy-v0", "evopolicy-test/Endless-v0"


class Toy(gymnasium.Env[Any, Any]):
    """Position on a line: the Action is added to it; ends beyond `end`. Draws a grey picture."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        end: float = 3.0,
        reward: float | None = None,
        kind: str = "flat",
        render_mode: str | None = None,
    ) -> None:
        self.end, self.fixed_reward, self.kind, self.render_mode = end, reward, kind, render_mode
        box = spaces.Box(-100.0, 100.0, (2,), np.float32)
        kinds: dict[str, spaces.Space[Any]] = {
            "flat": box,
            "image": spaces.Box(0, 255, (32, 32, 3), np.uint8),
            "dict": spaces.Dict({"place": box, "count": spaces.Discrete(1_000)}),
        }
        self.observation_space = kinds[kind]
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._buffer = np.zeros(2, np.float32)
        self.over = False

    def _observation(self) -> Any:
        self._buffer[:] = self.position, self.steps
        if self.kind == "image":
            return np.full((32, 32, 3), self.steps % 256, np.uint8)
        return (
            {"place": self._buffer, "count": np.int64(self.steps)}
            if self.kind == "dict"
            else self._buffer
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed, options=options)
        self.position, self.steps, self.over = float(self.np_random.uniform(-1, 1)), 0, False
        return self._observation(), {"place": self.position}

    def step(self, action: Any) -> Any:
        if self.over:
            raise RuntimeError("stepped past the end")
        self.position += float(action[0])
        self.steps += 1
        self.over = abs(self.position) > self.end
        reward = self.position if self.fixed_reward is None else self.fixed_reward
        info = {
            "place": self.position,
            "twice": np.float32(2 * self.position),
            "word": "text",
            "bad": float("nan"),
        }
        return self._observation(), reward, self.over, False, info

    def render(self) -> Any:
        return np.full((60, 80, 3), min(255, 40 * self.steps), np.uint8)


@pytest.fixture(scope="session", autouse=True)
def _toys() -> Iterator[None]:
    gymnasium.register(
        LIMITED, entry_point=cast(Any, Toy), max_episode_steps=50, reward_threshold=5.0
    )
    gymnasium.register(UNLIMITED, entry_point=cast(Any, Toy))
    yield
    for name in (LIMITED, UNLIMITED):
        gymnasium.registry.pop(name)
