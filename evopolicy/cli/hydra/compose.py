"""From the command line to Hydra: where the config lies, whether it is a sweep, and one composed
config."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from evopolicy.cli.hydra import schema
from evopolicy.cli.hydra.choices import check_choices
from evopolicy.kernel.errors import ConfigError, did_you_mean
from evopolicy.presets import conf_folder, foreign_conf_folders

_VALUED = {
    "--config-dir": "-cd",
    "--config-name": "-cn",
    "--config-path": "-cp",
    "--cfg": "-c",
    "--package": "-p",
    "--info": "-i",
}
_PLAIN = {
    "--multirun": "-m",
    "--run": "-r",
    "--resolve": "",
    "--hydra-help": "",
    "--shell-completion": "-sc",
}
_SHOWS = {"--cfg", "-c", "--info", "-i"}
_OURS = {"--dry-run": "", "--help": "-h", "--version": ""}


def normalize(arguments: Sequence[str]) -> list[str]:
    """Arguments for Hydra: `--dry-run` as an override, `-m` where the overrides are those of a
    sweep.

    Raises ConfigError for an unknown flag and for a word that is not an override.
    """
    flags, overrides = _split(arguments)
    if not any(override.startswith("hydra.searchpath=") for override in overrides):
        places = [f"file://{folder}" for folder in foreign_conf_folders()]
        if places:
            overrides.append(f"hydra.searchpath=[{','.join(places)}]")
    parsed = OverridesParser.create().parse_overrides(overrides)
    check_choices(parsed)
    sweeps = any(one.is_sweep_override() for one in parsed)
    names = {flag.partition("=")[0] for flag in flags}
    if shows := sorted(names & _SHOWS):
        if sweeps or names & {"-m", "--multirun"}:
            raise ConfigError(
                f"{shows[0]}: it shows one config, so leave -m away and give every key one value;"
                " --dry-run lists the cells of a sweep"
            )
    elif sweeps and not names & {"-m", "--multirun", "-r", "--run"}:
        flags.append("--multirun")
    return [*flags, *_for_each_cell(overrides)]


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    flags: list[str] = []
    overrides: list[str] = []
    rest = list(arguments)
    valued = {*_VALUED, *_VALUED.values()}
    plain = {*_PLAIN, *filter(None, _PLAIN.values())}
    while rest:
        word = rest.pop(0)
        if word == "--dry-run":
            overrides.append("dry_run=true")
        elif not word.startswith("-"):
            _check_override(word)
            overrides.append(word)
        elif word.partition("=")[0] in valued:
            flags.append(word)
            if "=" not in word:
                if not rest:
                    raise ConfigError(f"{word}: a value is missing after it")
                flags.append(rest.pop(0))
        elif word in plain:
            flags.append(word)
        else:
            raise ConfigError(
                f"the flag '{word}' is unknown.{did_you_mean(word, [*_VALUED, *_PLAIN, *_OURS])}"
            )
    return flags, overrides


def _check_override(word: str) -> None:
    if "=" not in word and not word.startswith("~"):
        raise ConfigError(
            f"'{word}' is not an override; write key=value, such as agent=cma_es; `evopolicy "
            "--help` has more"
        )


def swept_keys(master: DictConfig) -> set[str]:
    """The keys that a sweep's command line, or its sweeper's `params`, gives several values."""
    words = [str(word) for word in master.hydra.overrides.task]
    params = OmegaConf.select(master, "hydra.sweeper.params") or {}
    words += [f"{key}={value}" for key, value in params.items() if value is not None]
    parsed = OverridesParser.create().parse_overrides(words)
    return {one.key_or_group.replace("/", ".") for one in parsed if one.is_sweep_override()}


_OPEN_GROUPS = ("agent", "benchmark")
"""Groups whose options have mappings of any keys."""


def _for_each_cell(overrides: Sequence[str]) -> list[str]:
    """`overrides`, those of keys below a swept group as sweeps of one value each.

    Hydra composes what belongs to the whole sweep first, with no option of such a group chosen:
    there is no key yet."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    swept = {one.key_or_group for one in parsed if one.is_sweep_override()}
    found = []
    for word, one in zip(overrides, parsed, strict=True):
        key, _, value = word.partition("=")
        group, _, below = key.partition(".")
        if group.lstrip("+") in swept and below and group.startswith("+"):
            bare = key.lstrip("+")
            raise ConfigError(
                f"{word}: '{group.lstrip('+')}' is swept, so its keys are set without '+'; write "
                f"{bare}={value}"
            )
        plain_change = (
            bool(below and value) and not key.startswith(("+", "~")) and not one.is_sweep_override()
        )
        if plain_change and group in swept:
            word = f"{key}=choice({value})"
        elif plain_change and group in _OPEN_GROUPS and isinstance(one.value(), dict):
            # a mapping's keys are the user's own; a misspelt option is refused by its own config
            word = f"++{word}"
        found.append(word)
    return found


def run_hydra(arguments: Sequence[str], task: Callable[[DictConfig], Any]) -> None:
    """Compose what `arguments` say and call `task` with it, or hand a sweep to the launcher. Lets
    errors through."""
    schema.store()
    entry = hydra.main(config_path=str(conf_folder()), config_name="config", version_base="1.3")(
        task
    )
    with _as_command(normalize(arguments)):
        entry()


def compose_one(arguments: Sequence[str]) -> DictConfig:
    """The config of one cell, for verbs that need some of its groups. Raises ConfigError for what
    makes a sweep."""
    found: list[DictConfig] = []

    def keep(config: DictConfig) -> None:
        found.append(config)

    words = normalize(arguments)
    if "--multirun" in words or "-m" in words:
        raise ConfigError("this verb takes one value for every key, a list or range is for sweeps")
    run_hydra(arguments, keep)
    return found[0]


def plain(config: DictConfig) -> dict[str, Any]:
    """Resolved plain values, without Hydra's node. Raises OmegaConf's errors for what is missing or
    unresolvable."""
    return {str(key): _plain(config[key]) for key in config if key != "hydra"}


def _plain(node: Any) -> Any:
    if not OmegaConf.is_config(node):
        return node
    return OmegaConf.to_container(node, resolve=True, throw_on_missing=True, enum_to_str=True)


def mentions(config: DictConfig, key: str) -> bool:
    """Whether another value of `config` is computed from `key`."""
    text = "".join(
        OmegaConf.to_yaml(config[name]) for name in config if OmegaConf.is_config(config[name])
    )
    return f"${{{key}" in text or any(
        OmegaConf.is_interpolation(config, str(name)) for name in config
    )


@contextmanager
def _as_command(arguments: Sequence[str]) -> Iterator[None]:
    """Hydra reads `sys.argv`, and prints tracebacks of its own unless told to let errors
    through."""
    argv, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = ["evopolicy", *arguments], "1"
    try:
        yield
    finally:
        sys.argv = argv
        if full is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full
