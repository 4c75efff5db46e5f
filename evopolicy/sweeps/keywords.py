"""A sweep asked for from Python: its keywords as a command line's overrides, and each cell's config
without Hydra."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import msgspec

from evopolicy.kernel.errors import ConfigError, EvoPolicyError
from evopolicy.presets import NAMED_GROUPS, load_config, option
from evopolicy.sweeps.plan import Command, default_sweep_name, plan_command

_BARE = re.compile(r"[\w./:@%+-]+")
"""A text that an override needs no quotes around."""


def plan_keywords(
    settings: Mapping[str, Any],
    name: str | None,
    launcher: Mapping[str, Any],
    suite: str | None = None,
) -> tuple[Command, str]:
    """The cells of a sweep over every list among `settings`, and the sweep's name: those of the
    same command line.

    Raises ConfigError naming the first cell that cannot run, and counts the others.
    """
    if suite is not None:
        settings = {"benchmark": _benchmarks(suite), **settings, "suite": suite}
    whole = {
        **({"launcher": launcher} if launcher else {}),
        **({"sweep": name} if name is not None else {}),
    }
    configured = {
        "dry_run": False,
        "launcher": {**option("launcher", "local"), **launcher},
        "sweep": name,
    }
    cells = [(_overrides({**cell, **whole}), cell) for cell in _cells(settings)]
    by_words, overrides = dict(cells), [words for words, _ in cells]
    command = plan_command(
        overrides, lambda words: {**_composed(by_words[tuple(words)]), **configured}, _sentence
    )
    return command, name or default_sweep_name(overrides)


def _cells(settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of what is listed, in the order of a command line's: the last key changes
    first."""
    for values in product(*(_choices(key, value) for key, value in settings.items())):
        yield dict(zip(settings, values, strict=True))


def _choices(key: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple | range):
        return [value]
    if not value:
        raise ConfigError(
            f"{key}: the list is empty, so there is no cell to run; give it one value at least"
        )
    return value


def _benchmarks(suite: str) -> list[str]:
    benchmarks: str = option("suite", suite)["hydra"]["sweeper"]["params"]["benchmark"]
    return benchmarks.split(",")


def _composed(cell: Mapping[str, Any]) -> dict[str, Any]:
    """The plain config of a Run, as Hydra composes it."""
    composed: dict[str, Any] = msgspec.to_builtins(load_config(**cell))
    return composed


def _sentence(error: BaseException) -> str | None:
    return str(error) if isinstance(error, EvoPolicyError) else None


def _overrides(cell: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of a command line that make `cell`: `agent=cma_es`, `agent.sigma=0.3`, `seed=1`."""
    return tuple(word for key, value in cell.items() for word in _words(key, value))


def _words(key: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{key}={_text(value)}"
        return
    chosen = value.get("name") if key in NAMED_GROUPS else None
    if chosen:
        yield f"{key}={chosen}"
    for inner, setting in value.items():
        if not (chosen and inner == "name"):
            yield from _words(f"{key}.{inner}", setting)


def _text(value: Any) -> str:
    """As Hydra writes it in a cell's overrides, of which a sweep's default name is a digest."""
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    text = str(value)
    if not text or isinstance(value, int | float) or _BARE.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
