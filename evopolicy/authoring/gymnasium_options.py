"""What `benchmark=gymnasium` may be asked with: the keys of `conf/benchmark/gymnasium.yaml`,
once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, get_args

from evopolicy.authoring.benchmark import OutOfBounds, check_options
from evopolicy.authoring.profile import Column, How, Measure
from evopolicy.kernel.errors import ConfigError, did_you_mean
from evopolicy.kernel.ports.benchmark import Field
from evopolicy.kernel.ports.pool import SEED_BITS
from evopolicy.kernel.values import Value, digest

_TEXT = {
    "title": "title",
    "goal": "goal",
    "scoring": "scoring",
    "ending": "ending",
    "observation": "observation_text",
    "action": "action_text",
}
_DESCRIBING = ("text", "observation_fields", "action_fields", "measures")
_FIELD = ("name", "unit", "low", "high", "meaning")
_MEASURE = ("of", "how", "unit", "meaning")


@dataclass(frozen=True)
class GymnasiumOptions:
    """A registered Gymnasium id and what is said of it. Raises ConfigError, naming the key, for
    what cannot be."""

    env_id: str = ""
    failure_score: float | None = None
    """What an Episode scores at most when the Policy fails in it: lower than any finished
    Episode."""
    kwargs: Mapping[str, Value] | None = None
    """For `gymnasium.make`."""
    max_steps: int | None = None
    """Needed where the id has no limit of its own."""
    out_of_bounds: OutOfBounds = "invalid"
    seed_bits: int = SEED_BITS
    """Its Episodes' seeds are below 2**seed_bits. Records from before there was a choice name none
    and keep 63."""
    text: Mapping[str, str | None] = field(default_factory=dict)
    """Paragraphs of TASK.md in place of those made here: title, goal, scoring, ending, observation,
    action."""
    observation_fields: Sequence[Any] = ()
    """A name for each number, or a mapping of name, unit, low, high, meaning."""
    action_fields: Sequence[Any] = ()
    measures: Mapping[str, Any] = field(default_factory=dict)
    """What Feedback says of each Episode: name -> of (an entry of `info`, a field of the
    observation, 'reward'), how (sum, mean, min, max, first, last, ...), unit, meaning."""

    def __post_init__(self) -> None:
        check_options(self.out_of_bounds, self.max_steps, self.kwargs, self.seed_bits)
        if not isinstance(self.env_id, str) or not self.env_id:
            raise ConfigError(
                "benchmark.env_id is missing: give a registered Gymnasium id, such as "
                "LunarLander-v3"
            )
        value = self.failure_score
        if value is None:
            raise ConfigError(
                "benchmark.failure_score is missing: say what an Episode scores when the Policy "
                "fails in it, lower than any finished Episode's return"
            )
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise ConfigError(f"benchmark.failure_score is a finite number, found {value!r}")
        _ = self.profile_parts

    @property
    def score(self) -> float:
        assert self.failure_score is not None
        return float(self.failure_score)

    @cached_property
    def options(self) -> dict[str, Value]:
        """With which another process makes the same; what nobody asked for is left out."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        given["text"] = {key: value for key, value in self.text.items() if value is not None}
        options: dict[str, Value] = {name: value for name, value in given.items() if value}
        if self.seed_bits == SEED_BITS:
            del options["seed_bits"]
        return {**options, "failure_score": self.score}

    @property
    def parameters(self) -> dict[str, Value]:
        """Public ones that make it another task, beside those every Gymnasium task has."""
        described = {name: self.options[name] for name in _DESCRIBING if name in self.options}
        about: dict[str, Value] = (
            {"described": digest("evopolicy/described/1", described)[:12]} if described else {}
        )
        return {"env_id": self.env_id, "failure_score": self.score, **about}

    @cached_property
    def profile_parts(self) -> dict[str, Any]:
        """The parts of a `Profile` that are given."""
        given = {
            key: value
            for key, value in _mapping("text", self.text, _TEXT).items()
            if value is not None
        }
        for key, value in given.items():
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"benchmark.text.{key} is a text, found {value!r}")
        measures = [_measure(name, about) for name, about in self.measures.items()]
        named = {
            "observation_fields": _fields("observation_fields", self.observation_fields),
            "action_fields": _fields("action_fields", self.action_fields),
        }
        known = {"reward", *(one.name for one in named["observation_fields"])}
        columns = {
            one.of
            for one in measures
            if one.of not in known and not one.of.startswith("observation")
        }
        more = {
            "measures": tuple(measures),
            "columns": tuple(Column(name, read=name) for name in sorted(columns)),
        }
        return {_TEXT[key]: value for key, value in given.items()} | named | more


def _mapping(key: str, value: Any, known: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"benchmark.{key} is a mapping of {', '.join(known)}, found {value!r:.80}"
        )
    for name in value:
        if name not in known:
            raise ConfigError(
                f"benchmark.{key}.{name} is not one of its "
                f"keys.{did_you_mean(str(name), list(known))}"
            )
    return value


def _fields(key: str, given: Any) -> tuple[Field, ...]:
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise ConfigError(
            f"benchmark.{key} is a list with a name for each number, found {given!r:.80}"
        )
    named = [
        {"name": one} if isinstance(one, str) else _mapping(f"{key}[{i}]", one, _FIELD)
        for i, one in enumerate(given)
    ]
    for i, one in enumerate(named):
        if not one.get("name"):
            raise ConfigError(f"benchmark.{key}[{i}].name is missing")
    return tuple(Field(**one) for one in named)


def _measure(name: str, given: Any) -> Measure:
    about = _mapping(f"measures.{name}", given, _MEASURE)
    how = about.get("how", "last")
    if not about.get("of"):
        raise ConfigError(
            f"benchmark.measures.{name}.of is missing: an entry of info, a field, or reward"
        )
    if how not in get_args(How):
        raise ConfigError(
            f"benchmark.measures.{name}.how is {how!r}; it is one of {', '.join(get_args(How))}"
        )
    return Measure(name, **about)
