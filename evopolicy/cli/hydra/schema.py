"""The only ConfigStore: what Hydra checks keys and types against, mirrored from the plain config
dataclasses.

The dataclasses are frozen and use tuples and Mappings, none of which OmegaConf composes into; so
each gets a mutable twin, made here from its type hints. The twins lie outside the option groups, so
that `glob(*)` finds only options."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Optional, Union

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from evopolicy.authoring.discovery import default_options
from evopolicy.cli.hydra.groups import installed_benchmarks
from evopolicy.config import RunConfig
from evopolicy.sweeps.config import CommandConfig

SCHEMA = "evopolicy_schema"
_LAUNCHER = "hydra_plugins.evopolicy_launcher.launcher.EvoPolicyLauncher"
_SWEEPER = "hydra_plugins.evopolicy_launcher.sweeper.EvoPolicySweeper"


_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "root": {"level": "WARNING"},
    "formatters": {"plain": {"format": "%(message)s"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "plain",
            "stream": "ext://sys.stdout",
        }
    },
    "loggers": {"hydra_plugins": {"level": "INFO", "handlers": ["console"], "propagate": False}},
}
"""Other launchers and sweepers are heard, an optimizer with its best parameters; Hydra itself is
silent."""


@dataclass
class _LauncherNode:
    _target_: str = _LAUNCHER


@dataclass
class _SweeperNode:
    """As Hydra's basic sweeper, which ours is but for its files and its stop at the first
    failure."""

    _target_: str = _SWEEPER
    max_batch_size: Optional[int] = None  # noqa: UP045
    params: Optional[dict[str, str]] = None  # noqa: UP045


def store() -> None:
    """Fill Hydra's ConfigStore. Idempotent."""
    config_store = ConfigStore.instance()
    config_store.store(name=SCHEMA, node=_WHOLE)
    config_store.store(group="hydra/launcher", name="evopolicy", node=_LauncherNode)
    config_store.store(group="hydra/sweeper", name="evopolicy", node=_SweeperNode)
    config_store.store(group="hydra/hydra_logging", name="evopolicy", node=_LOGGING)
    for name in installed_benchmarks():
        config_store.store(group="benchmark", name=name, node=default_options(name))


@cache
def twin(cls: type) -> type:
    """A mutable dataclass with the fields of the dataclass `cls`, in types OmegaConf knows."""
    return _made(f"{cls.__name__}Node", _twin_fields(cls))


def _made(name: str, fields: list[tuple[str, Any, Any]]) -> type:
    """A dataclass that lies in this module by its name: a launcher that pickles it has it imported,
    not made again."""
    made = dataclasses.make_dataclass(name, fields)
    made.__module__ = __name__
    globals()[name] = made
    return made


def _twin_fields(cls: type) -> list[tuple[str, Any, Any]]:
    hints = typing.get_type_hints(cls)
    return [(f.name, _twin_type(hints[f.name]), _default(f)) for f in dataclasses.fields(cls)]


def _default(field: dataclasses.Field[Any]) -> Any:
    if dataclasses.is_dataclass(field.default):
        return dataclasses.field(default=MISSING)  # a group: its values are the YAML's
    if field.default is not dataclasses.MISSING:
        return dataclasses.field(default=field.default)
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory)
    return dataclasses.field(default=MISSING)


def _twin_type(hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return twin(typing.cast(type, hint))
    if origin in (Union, types.UnionType):
        inner = [_twin_type(a) for a in arguments if a is not type(None)]
        return Optional[inner[0]] if len(inner) == 1 else Any  # noqa: UP045
    if origin in (tuple, list):
        return list[_twin_type(arguments[0])]  # type: ignore[misc]
    if origin is not None and issubclass(origin, Mapping):
        return dict[arguments[0], _twin_type(arguments[1])]  # type: ignore[misc,valid-type]
    return hint


_WHOLE = _made("EvoPolicyConfig", [*_twin_fields(RunConfig), *_twin_fields(CommandConfig)])


def known_keys(cls: type = RunConfig, prefix: str = "") -> Iterator[str]:
    """Every dotted key the schema knows: `budget`, `budget.episodes`, ... Open mappings end at
    their own name."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        yield prefix + field.name
        if dataclasses.is_dataclass(hints[field.name]):
            yield from known_keys(typing.cast(type, hints[field.name]), f"{prefix}{field.name}.")
    if cls is RunConfig:
        yield from known_keys(CommandConfig)
