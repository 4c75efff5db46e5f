"""An Environment whose `info` tells what a watch reads from it. Imports gymnasium, so import it
late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import gymnasium


class Watch(Protocol):
    """Reads numbers from a task's bodies; never changes them."""

    def start(self, observation: Any) -> Mapping[str, float]:
        """After the reset."""

    def step(
        self, observation: Any, action: Any, reward: float, terminated: bool
    ) -> Mapping[str, float]:
        """After a step."""


class Watched(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Passes everything on and adds the watch's numbers to `info`."""

    def __init__(self, env: Any, watch: Callable[[Any], Watch]) -> None:
        super().__init__(env)
        self._watch = watch(env.unwrapped)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, **self._watch.start(observation)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        read = self._watch.step(observation, action, float(reward), terminated)
        return observation, reward, terminated, truncated, {**info, **read}
