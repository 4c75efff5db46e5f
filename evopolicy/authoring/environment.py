"""One Episode of a Gymnasium Environment, as the kernel's `Environment`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np

from evopolicy.authoring.profile import Episode, Profile, Series
from evopolicy.authoring.spaces import flatten, member_of, own_action
from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.ports.benchmark import BenchmarkSpec, EpisodeSpec, Transition
from evopolicy.kernel.spaces import Box
from evopolicy.kernel.values import Value

RESERVED = ("step", "reward", "terminated", "truncated")
"""Columns every trace has."""
_INFO_LIMIT = 32


class GymnasiumEnvironment:
    """A fresh `gymnasium.Env` for one Episode. Raises ExecutionError where its reward is not
    finite."""

    def __init__(
        self, env: Any, profile: Profile, spec: BenchmarkSpec, episode: EpisodeSpec
    ) -> None:
        self._env = env
        self._episode = episode
        self._seeds = 2**spec.seed_bits
        self._member = member_of(spec.observation_space)
        self._all_info = profile.all_info
        self._taken = {
            *RESERVED,
            *(field.name for field in (*spec.observation_fields, *spec.action_fields)),
        }
        self._meter = _Meter(profile, spec)
        self._own = own_action(env.action_space)
        self._hidden = frozenset(
            f(seed) for seed in (episode.seed, episode.policy_seed) for f in (int, float)
        )

    def reset(self) -> Any:
        seed = self._episode.seed
        self._env.action_space.seed((seed + 1) % self._seeds)
        self._env.observation_space.seed((seed + 2) % self._seeds)
        raw, info = self._env.reset(seed=seed)
        observation = self._member(raw)
        self._meter.start(observation, info)
        return observation

    def step(self, action: Any) -> Transition:
        own = action if self._own is None else self._own(action)
        given = self._env.step(own)
        try:
            return self._transition(action, *given)
        except ExecutionError:
            raise
        # what it gave is no answer to an Action: the Environment's fault, never the Policy's
        except Exception as error:
            raise ExecutionError(
                f"the Environment gave what cannot be read: {type(error).__name__}: {error}"
            ) from error

    def _transition(
        self,
        action: Any,
        raw: Any,
        raw_reward: Any,
        terminated: Any,
        truncated: Any,
        info: Mapping[str, Any],
    ) -> Transition:
        reward = float(raw_reward)
        if not math.isfinite(reward):
            raise ExecutionError(
                f"the Environment gave the reward {reward}; rewards must be finite numbers"
            )
        observation = self._member(raw)
        columns = self._meter.add(observation, action, reward, info)
        if self._all_info:
            columns = {**_numbers(info, self._taken, self._hidden), **columns}
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
        space = spec.observation_space
        names = [field.name for field in spec.observation_fields]
        self._places = [(i, name) for i, name in enumerate(names) if name in wanted]
        vector = isinstance(space, Box) and len(space.shape) == 1
        self._flat = None if vector or not self._places else partial(flatten, space)
        self.series = {
            name: Series()
            for name in ("reward", *names, *(column.name for column in profile.columns))
        }
        # What runs at every step is looked up once.
        self._fields = [(i, self.series[name].add) for i, name in self._places]
        self._reads = [
            (c.name, c.read, self.series[c.name].add) for c in profile.columns if callable(c.read)
        ]
        self._infos = [
            (c.name, c.read or c.name, self.series[c.name].add)
            for c in profile.columns
            if isinstance(c.read, str)
        ]
        self._add_reward = self.series["reward"].add

    def start(self, observation: Any, info: Mapping[str, Any]) -> None:
        self._first = self._last = observation
        numbers = observation if self._flat is None else self._flat(observation)
        for i, name in self._places:
            self.series[name].start(float(numbers[i]))
        for name, key, _ in self._infos:
            if key in info:
                self.series[name].start(float(info[key]))

    def add(
        self, observation: Any, action: Any, reward: float, info: Mapping[str, Any]
    ) -> dict[str, Any]:
        self._last = observation
        self._add_reward(reward)
        numbers = observation if self._flat is None else self._flat(observation)
        for i, add in self._fields:
            add(numbers[i])
        columns: dict[str, Any] = {}
        for name, key, add in self._infos:
            if key in info:
                columns[name] = value = float(info[key])
                add(value)
        for name, read, add in self._reads:
            columns[name] = value = float(read(observation, action))
            add(value)
        for name, value in columns.items():
            if value - value != 0.0:  # not finite: no public number
                return {name: value for name, value in columns.items() if value - value == 0.0}
        return columns

    def measures(self) -> dict[str, Value]:
        episode = Episode(
            first=self._first,
            last=self._last,
            length=len(self.series["reward"].steps),
            episode_return=math.fsum(self.series["reward"].steps),
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


def _numbers(
    info: Mapping[str, Any], taken: Collection[str], hidden: Collection[float] = ()
) -> dict[str, Any]:
    """The plain finite numbers of a step's `info`, at most _INFO_LIMIT of them; a name in `taken`
    gets a prefix.

    Without those in `hidden`: an Environment may tell its seed there.
    """
    numbers: dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, np.generic):
            value = value.item()
        number = (
            isinstance(value, bool | int | float) and math.isfinite(value) and abs(value) < 2**63
        )
        if number and value not in hidden:
            numbers[f"info_{key}" if key in taken else str(key)] = value
        if len(numbers) == _INFO_LIMIT:
            break
    return numbers
