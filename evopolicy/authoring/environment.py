"""One Episode of a Gymnasium Environment, as the kernel's `Environment`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from evopolicy.authoring.profile import Episode, Profile, Series
from evopolicy.authoring.spaces import member_of
from evopolicy.kernel.benchmark import BenchmarkSpec, EpisodeSpec, Transition
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.spaces import Box
from evopolicy.kernel.values import Value

_INFO_LIMIT = 32


class GymnasiumEnvironment:
    """A fresh `gymnasium.Env` for one Episode. Raises ExecutionError where its reward is not finite."""

    def __init__(self, env: Any, profile: Profile, spec: BenchmarkSpec, episode: EpisodeSpec) -> None:
        self._env = env
        self._episode = episode
        self._member = member_of(spec.observation_space)
        self._all_info = profile.all_info
        self._meter = _Meter(profile, spec)

    def reset(self) -> Any:
        seed = self._episode.seed
        self._env.action_space.seed(seed + 1)
        self._env.observation_space.seed(seed + 2)
        raw, info = self._env.reset(seed=seed)
        observation = self._member(raw)
        self._meter.start(observation, info)
        return observation

    def step(self, action: Any) -> Transition:
        raw, raw_reward, terminated, truncated, info = self._env.step(action)
        reward = float(raw_reward)
        if not math.isfinite(reward):
            raise ExecutionError(f"the Environment gave the reward {reward}; rewards must be finite numbers")
        observation = self._member(raw)
        columns = self._meter.add(observation, action, reward, info)
        if self._all_info:
            columns = {**_numbers(info), **columns}
        self._meter.terminated, self._meter.truncated = bool(terminated), bool(truncated)
        return Transition(observation, reward, bool(terminated), bool(truncated), columns)

    def measures(self) -> Mapping[str, Value]:
        return self._meter.measures()

    def close(self) -> None:
        self._env.close()


class _Meter:
    """Reads a profile's columns at every step and its measures at the end."""

    def __init__(self, profile: Profile, spec: BenchmarkSpec) -> None:
        self._profile = profile
        self.terminated = self.truncated = False
        wanted = {measure.of for measure in profile.measures if measure.of}
        flat = isinstance(spec.observation_space, Box) and len(spec.observation_space.shape) == 1
        names = [field.name for field in spec.observation_fields] if flat else []
        self._fields = [(i, Series(), name) for i, name in enumerate(names) if name in wanted]
        self._columns = [(column.name, column.read, Series()) for column in profile.columns]
        self._reward = Series()
        self.series: dict[str, Series] = {"reward": self._reward}
        self.series.update({name: series for _, series, name in self._fields})
        self.series.update({name: series for name, _, series in self._columns})

    def start(self, observation: Any, info: Mapping[str, Any]) -> None:
        self._first = self._last = observation
        for i, series, _ in self._fields:
            series.start(float(observation[i]))
        for name, read, series in self._columns:
            if read is None and name in info:
                series.start(float(info[name]))

    def add(self, observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> dict[str, Any]:
        self._last = observation
        self._reward.add(reward)
        for i, series, _ in self._fields:
            series.add(float(observation[i]))
        columns: dict[str, Any] = {}
        for name, read, series in self._columns:
            if read is not None:
                value = float(read(observation, action))
            elif name in info:
                value = float(info[name])
            else:
                continue
            series.add(value)
            if math.isfinite(value):
                columns[name] = value
        return columns

    def measures(self) -> dict[str, Value]:
        episode = Episode(
            first=self._first,
            last=self._last,
            length=self._reward.count,
            episode_return=self._reward.total,
            terminated=self.terminated,
            truncated=self.truncated,
            series=self.series,
        )
        values: dict[str, Value] = {}
        for measure in self._profile.measures:
            if callable(measure.how):
                values[measure.name] = _finite(measure.how(episode))
            else:
                values[measure.name] = self.series[measure.of].value(measure.how)
        return values


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(info: Mapping[str, Any]) -> dict[str, Any]:
    """The plain finite numbers of a step's `info`, at most _INFO_LIMIT of them."""
    numbers: dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool | int | float) and math.isfinite(value) and abs(value) < 2**63:
            numbers[str(key)] = value
        if len(numbers) == _INFO_LIMIT:
            break
    return numbers
