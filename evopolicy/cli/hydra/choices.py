"""Several options of one group: what the words of a command line mean, and how to write what they
do not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from hydra.core.override_parser.types import Override

from evopolicy.cli.hydra.groups import group_options
from evopolicy.cli.hydra.named import read_named
from evopolicy.kernel.errors import ConfigError


def check_choices(overrides: Sequence[Override]) -> None:
    """Raises ConfigError where a group is given several options in a way that drops some, or that
    none can have."""
    groups = set(group_options(""))
    for one in overrides:
        if one.key_or_group not in groups or one.is_delete():
            continue
        value, found = one.value(), str(one.input_line).partition("=")[2]
        several = [str(name) for name in value] if isinstance(value, list) else None
        if one.key_or_group in _OF_ONE and (several or one.is_sweep_override()):
            names = several or (list(one.sweep_string_iterator()) if one.is_choice_sweep() else [])
            raise ConfigError(
                f"{one.key_or_group}: a command takes one, found {found}; {_instead(one, names)}"
            )
        if several is not None:
            as_sweep = f"{one.key_or_group}={','.join(several)}"
            raise ConfigError(
                f"{one.key_or_group}: a Run takes one, found the list {found}; write {as_sweep}"
                " for a sweep with a Run of each"
            )


_OF_ONE = ("suite", "experiment")
"""Groups whose options say what a sweep is made of."""


def _instead(one: Override, names: Sequence[str]) -> str:
    if one.key_or_group == "experiment":
        return "run one after the other"
    benchmarks: list[str] = []
    with suppress(ConfigError, KeyError, TypeError):
        for name in names:
            params = read_named("suite", name)["hydra"]["sweeper"]["params"]
            benchmarks += [
                each for each in params["benchmark"].split(",") if each not in benchmarks
            ]
    return (
        "to have the Benchmarks of several, list them: "
        f"benchmark={','.join(benchmarks) or 'A,B,...'}"
    )


def check_sweeps(overrides: Sequence[Override]) -> None:
    """Raises ConfigError for a glob that matches no option, and for what is no list of values.

    The overrides know where options lie.
    """
    for one in overrides:
        found = str(one.input_line).partition("=")[2]
        if one.is_sweep_override() and not one.is_discrete_sweep():
            raise ConfigError(
                f"{one.key_or_group}: {found} has no values to list; write them (a,b or "
                "range(0,3)), or have an optimizer choose: hydra/sweeper=optuna"
            )
        if one.is_sweep_override() and not list(one.sweep_string_iterator()):
            known = ", ".join(group_options(one.key_or_group)) or "none"
            raise ConfigError(f"{one.key_or_group}: no option matches {found}. Known: {known}.")
