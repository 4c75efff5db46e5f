"""A Gymnasium task as data: what `GymnasiumBenchmark` needs to know of it, one `Profile` per
task."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evopolicy.kernel.ports.benchmark import Field
from evopolicy.kernel.values import Value

How = Literal["sum", "mean", "min", "max", "first", "last", "change", "mean_abs", "max_abs"]


@dataclass(frozen=True)
class Column:
    """One number of every step: a column of traces, and what measures are made of. The Policy never
    sees it."""

    name: str
    unit: str = ""
    meaning: str = ""
    read: Callable[[Any, Any], float] | str = ""
    """`read(observation after the step, action)`, or the entry of the step's `info`; '': the entry
    called `name`."""


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
    """One domain measure of an Episode: an aggregate of a series, or any function of the
    `Episode`."""

    name: str
    unit: str = ""
    meaning: str = ""
    of: str = ""
    """Name of a column, an observation field, or 'reward'; empty where `how` is a function."""
    how: How | Callable[[Episode], Value] = "last"
    """'change' is last - first, the first being the reset's value where the reset gives one."""


@dataclass(frozen=True)
class Profile:
    """One task of a family. Texts are Markdown for the engineer: every field by name, no hint at a
    solution."""

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
    """What an Episode scores at most when the Policy fails: no finished Episode should score
    less."""
    observation_fields: tuple[Field, ...] = ()
    action_fields: tuple[Field, ...] = ()
    observation_text: str = ""
    action_text: str = ""
    columns: tuple[Column, ...] = ()
    """Their names differ from those of the fields: all are columns of one table."""
    measures: tuple[Measure, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    """For `gymnasium.make`: part of the task's meaning."""
    max_steps: int | None = None
    """Needed where the id has no limit of its own; else overrides it."""
    imports: tuple[str, ...] = ()
    """Modules that register the id when imported."""
    all_info: bool = False
    """Makes a column of every plain number in a step's `info` beside `columns`: for tasks nobody
    described."""
    drawing: Mapping[str, Value] = field(default_factory=dict)
    """For `gymnasium.make`, added when replays are drawn: a size, a camera. No part of the task."""
    programs_of: Mapping[str, str] = field(default_factory=dict)
    """Kinds of Program it has in common with another task of its family: kind -> that task's
    slug."""


class Series:
    """One number of every step of an Episode, eight bytes a step, and its aggregates at the end."""

    __slots__ = ("_start", "add", "steps")

    def __init__(self) -> None:
        self.steps = array("d")
        self.add = self.steps.append
        """`add(value)` appends one step's value: bound once, since it runs at every step."""
        self._start: float | None = None

    def start(self, value: float) -> None:
        """The reset's value: where a change is counted from; in no sum, mean or extreme."""
        self._start = value

    @property
    def values(self) -> NDArray[np.float64]:
        """The steps' values, shape (length,)."""
        return np.frombuffer(self.steps, np.float64) if self.steps else np.zeros(0)

    def value(self, how: How) -> float | None:
        """The aggregate; None where there was no step, or where it is not finite."""
        if not self.steps:
            return None
        number = self._aggregate(how)
        return number if math.isfinite(number) else None

    def _aggregate(self, how: How) -> float:
        steps = self.steps
        first = steps[0] if self._start is None else self._start
        match how:
            case "sum":
                return math.fsum(steps)
            case "mean":
                return math.fsum(steps) / len(steps)
            case "min":
                return min(steps)
            case "max":
                return max(steps)
            case "first":
                return first
            case "last":
                return steps[-1]
            case "change":
                return steps[-1] - first
            case "mean_abs":
                return math.fsum(map(abs, steps)) / len(steps)
            case "max_abs":
                return max(map(abs, steps))
