"""The config of a table or a figure out of plain values: those of its YAML, and the command line's
over them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from evopolicy.kernel.errors import ConfigError, did_you_mean, wrong_type

Config = TypeVar("Config")


def read_config(cls: type[Config], values: Mapping[str, Any], what: str) -> Config:
    """`values` as a `cls`, a dataclass for `what`, say "table".

    A list of names may be one text with commas between. None is the default, also for what has none
    but an empty list. Raises ConfigError with the near name for a key or a choice there is not, and
    for a value that is missing or of the wrong type."""
    hints = get_type_hints(cls)
    for key in values:
        if key not in hints:
            raise ConfigError(f"{what}: there is no key '{key}'.{did_you_mean(str(key), hints)}")
    plain: dict[str, Any] = {}
    for field in fields(cls):  # type: ignore[arg-type]  # a dataclass, which no bound says
        key, hint, value = field.name, hints[field.name], values.get(field.name)
        if value in (None, "") and field.default is MISSING:
            choices = f", one of {', '.join(get_args(hint))}" if get_origin(hint) is Literal else ""
            raise ConfigError(f"{key}: a {what} needs it{choices}")
        if value is None:
            continue
        if get_origin(hint) is Literal:
            check_choice(key, str(value), get_args(hint))
        elif get_origin(hint) is tuple and isinstance(value, str):
            value = [word.strip() for word in value.split(",") if word.strip()]
        elif bool in (hint, *get_args(hint)) and not isinstance(value, bool):
            raise ConfigError(f"{key}: true or false is needed, found '{value}'")
        plain[key] = value
    try:
        return msgspec.convert(plain, cls)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ConfigError):
            raise error.__cause__ from None
        raise wrong_type(error, "") from None


def check_choice(key: str, name: str, choices: Collection[str]) -> None:
    """Raises ConfigError with the near name where `name` is none of `choices`."""
    if name not in choices:
        raise ConfigError(f"{key}: there is no '{name}'.{did_you_mean(name, choices)}")
