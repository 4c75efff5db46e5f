"""What every agent's config has, and how a YAML's mapping becomes it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, TypeVar

import msgspec

from evopolicy.kernel.errors import ConfigError, did_you_mean, wrong_type
from evopolicy.kernel.ports.protocols import AgentIdentity

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""Linux starts no process with a longer argument."""


@dataclass(frozen=True)
class AgentConfig:
    """The keys every `conf/agent/<name>.yaml` has; an agent's own class adds its options."""

    name: str
    """The integration: a name in AGENTS."""
    label: str
    """As tables show it, one entry per label; '' for the name."""
    model: str
    """The provider's model id; '' for agents that need none."""


Config = TypeVar("Config", bound=AgentConfig)


def make_config(cls: type[Config], config: AgentConfig | Mapping[str, Any]) -> Config:
    """`config` as a `cls`. Raises ConfigError for a key that is unknown, missing or of the wrong
    type."""
    if isinstance(config, cls):
        return config
    if not isinstance(config, Mapping):
        raise ConfigError(
            f"agent: a {cls.__name__} or a mapping is needed, found {type(config).__name__}"
        )
    known = {field.name: field for field in fields(cls)}
    for key in config:
        if key not in known:
            raise ConfigError(
                f"agent.{key}: this agent has no such option.{did_you_mean(str(key), known)}"
            )
    for key, field in known.items():
        if key not in config and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"agent.{key}: is missing; take its value from conf/agent/")
    try:
        return msgspec.convert(dict(config), cls)
    except msgspec.ValidationError as error:
        raise wrong_type(error, "agent") from None


def identity(config: AgentConfig, of_this_machine: Collection[str] = ()) -> AgentIdentity:
    """What names the agent in cells and tables: every option of its config, but what its model
    costs and those named, which say where things lie or how they are reached here and are no part
    of what the agent is."""
    left_out = {"name", "label", "model", "price", *of_this_machine}
    options = {key: value for key, value in asdict(config).items() if key not in left_out}
    return AgentIdentity(
        label=config.label or config.name, name=config.name, model=config.model, options=options
    )


def check_variable_names(names: Iterable[str]) -> None:
    """Raises ConfigError, without the text, for one that is no variable's name: it may be the
    secret itself."""
    if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in names):
        raise ConfigError(
            "agent: variables are named, not given: one of the names is not a variable's name (it "
            "is not shown)"
        )


def check_program(program: str) -> None:
    """Raises ConfigError for none of a Benchmark's Programs."""
    if program not in ("initial", "random", "parametric"):
        raise ConfigError(
            f"agent.program: one of initial, random, parametric is needed, found '{program}'"
        )


def at_least(key: str, value: float | None, least: float) -> None:
    """Raises ConfigError where `value` is below `least`; None passes."""
    if value is not None and not value >= least:
        raise ConfigError(f"agent.{key}: at least {least:g} is needed, found {value:g}")
