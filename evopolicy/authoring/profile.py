"""A Gymnasium task as data: what `GymnasiumBenchmark` needs to know of it, one `Profile` per task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evopolicy.kernel.benchmark import Field
from evopolicy.kernel.values import Value

How = Literal["sum", "mean", "min", "max", "first", "last", "change", "mean_abs", "max_abs"]


@dataclass(frozen=True)
class Column:
    """One number of every step: a column of traces, and what measures are made of. The Policy never sees it."""

    name: str
    unit: str = ""
    meaning: str = ""
    read: Callable[[Any, Any], float] | None = None
    """`read(observation after the step, action)`; None: the entry `name` of the step's `info`."""


@dataclass(frozen=True)
class Episode:
    """What a measure may look at when an Episode is over."""

    first: Any
    """Observation of the reset."""
    last: Any
    """Last observation."""
    length: int
    episode_return: float
    terminated: bool
    truncated: bool
    series: Mapping[str, Series]
    """By name of a column, an observation field, or 'reward'."""


@dataclass(frozen=True)
class Measure:
    """One domain measure of an Episode: an aggregate of a series, or any function of the `Episode`."""

    name: str
    unit: str = ""
    meaning: str = ""
    of: str = ""
    """Name of a column, an observation field, or 'reward'; empty where `how` is a function."""
    how: How | Callable[[Episode], Value] = "last"
    """'change' is last - first, the first being the reset's value where the reset gives one."""


@dataclass(frozen=True)
class Profile:
    """One task of a family. Texts are Markdown for the engineer: every field by name, no hint at a solution."""

    slug: str
    """snake_case name: the option, the folder of its Programs."""
    id: str
    """`family/Name-vN`; a task whose meaning changes gets a new version."""
    env_id: str
    """As `gymnasium.make` takes it."""
    title: str
    goal: str
    scoring: str
    ending: str
    failure_score: float
    """What an Episode scores at most when the Policy fails: no finished Episode should score less."""
    observation_fields: tuple[Field, ...] = ()
    action_fields: tuple[Field, ...] = ()
    observation_text: str = ""
    action_text: str = ""
    columns: tuple[Column, ...] = ()
    """With `all_info`, beside every plain number the step's `info` holds."""
    measures: tuple[Measure, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    """For `gymnasium.make`: part of the task's meaning."""
    max_steps: int | None = None
    """Needed where the id has no limit of its own; else overrides it."""
    imports: tuple[str, ...] = ()
    """Modules that register the id when imported."""
    all_info: bool = False
    drawing: Mapping[str, Value] = field(default_factory=dict)
    """For `gymnasium.make`, added when replays are drawn: a size, a camera. No part of the task."""


class Series:
    """Running aggregates of one number over an Episode, in constant memory."""

    __slots__ = ("abs_sum", "count", "first", "high", "last", "low", "max_abs", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = self.abs_sum = self.max_abs = 0.0
        self.low, self.high = math.inf, -math.inf
        self.first = self.last = math.nan

    def start(self, value: float) -> None:
        """The reset's value: where a change is counted from; in no sum, mean or extreme."""
        self.first = self.last = value

    def add(self, value: float) -> None:
        if not self.count and self.first != self.first:
            self.first = value
        self.count += 1
        self.total += value
        size = abs(value)
        self.abs_sum += size
        self.max_abs = max(self.max_abs, size)
        self.low = min(self.low, value)
        self.high = max(self.high, value)
        self.last = value

    def value(self, how: How) -> float | None:
        """The aggregate; None where there was no step, or where it is not finite."""
        if not self.count:
            return None
        number = {
            "sum": self.total,
            "mean": self.total / self.count,
            "min": self.low,
            "max": self.high,
            "first": self.first,
            "last": self.last,
            "change": self.last - self.first,
            "mean_abs": self.abs_sum / self.count,
            "max_abs": self.max_abs,
        }[how]
        return number if math.isfinite(number) else None
