"""The driven car's state as plain numbers in `info`, and no state shared between tasks of one
process."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium

# highway-env carries no types.
_Intersection: Any = import_module("highway_env.envs.intersection_env").IntersectionEnv
_Traffic: Any = import_module("highway_env.vehicle.behavior").IDMVehicle
_SHARED = ("DISTANCE_WANTED", "COMFORT_ACC_MAX", "COMFORT_ACC_MIN")
_USUAL = {name: getattr(_Traffic, name) for name in _SHARED}
_INTERSECTION = {"DISTANCE_WANTED": 7, "COMFORT_ACC_MAX": 6, "COMFORT_ACC_MIN": -3}


class Telemetry(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Changes neither observation, reward nor end. `info` holds numbers alone: the car's state and
    the reward's terms.

    An intersection writes how its traffic drives into the class of all traffic, and with it into
    the other tasks of the process. So the class is set to what the task has before anything of it
    runs."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._traffic = _INTERSECTION if isinstance(env.unwrapped, _Intersection) else _USUAL

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._set_traffic()
        # The reward's terms at a reset are those of an Action drawn without a seed: they are left
        # out.
        observation, _ = self.env.reset(**options)
        return observation, self._state()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._set_traffic()
        observation, reward, terminated, truncated, info = self.env.step(action)
        terms = {
            name.removesuffix("_reward"): float(value)
            for name, value in info.get("rewards", {}).items()
        }
        return (
            observation,
            reward,
            terminated,
            truncated,
            {**terms, **self._state(), **_success(info)},
        )

    def render(self) -> Any:
        task: Any = self.env.unwrapped
        if task.viewer is None:
            task.config["offscreen_rendering"] = True
            task.viewer = _viewer()(task)
            task.viewer.enabled = (
                True  # Without a screen it would draw nothing, though it needs none.
            )
        return self.env.render()

    def _set_traffic(self) -> None:
        for name, value in self._traffic.items():
            setattr(_Traffic, name, value)

    def _state(self) -> dict[str, Any]:
        task: Any = self.env.unwrapped
        car = task.vehicle
        return {
            "car_x": float(car.position[0]),
            "car_y": float(car.position[1]),
            "heading": float(car.heading),
            "speed": float(car.speed),
            "lane": int(car.lane_index[2]),
            "on_road": float(car.on_road),
            "crashed": float(car.crashed),
        }


def _viewer() -> Any:
    """Late: only a replay needs what draws."""
    return import_module("highway_env.envs.common.graphics").EnvViewer


def _success(info: dict[str, Any]) -> dict[str, float]:
    return {"success": float(info["is_success"])} if "is_success" in info else {}
