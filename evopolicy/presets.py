"""The shipped YAML read without Hydra: the same defaults for Python users, from the same files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evopolicy.authoring.discovery import default_options, known_benchmarks
from evopolicy.config import RunConfig, config_from
from evopolicy.kernel.errors import ConfigError, did_you_mean

GROUPS = (
    "agent",
    "benchmark",
    "budget",
    "pool",
    "selection",
    "feedback",
    "prompt",
    "session",
    "prices",
    "execution",
    "tracking",
)
"""Config groups that are a part of RunConfig under the same name."""
NAMED_GROUPS = ("agent", "benchmark", "prompt")
"""Groups of whose mappings `name` says which option they change."""


def conf_folder() -> Path:
    """The shipped config: beside the package in a source tree, inside it when installed from a
    wheel."""
    package = Path(__file__).resolve().parent
    beside = package.parent
    if (beside / "conf" / "config.yaml").is_file() and (beside / "pyproject.toml").is_file():
        return beside / "conf"
    if (package / "conf" / "config.yaml").is_file():
        return package / "conf"
    raise ConfigError(f"evopolicy's own config is missing from {package}; install evopolicy again")


def foreign_conf_folders() -> list[Path]:
    """Folders `conf` that installed distributions ship inside the packages of what they bring."""
    packages = {
        point.module.partition(".")[0]
        for group in ("evopolicy.benchmarks", "evopolicy.agents", "evopolicy.selection")
        for point in entry_points(group=group)
    }
    folders: list[Path] = []
    for package in sorted(packages - {"evopolicy"}):
        spec = find_spec(package)
        places = (spec.submodule_search_locations or []) if spec else []
        folders.extend(Path(place) / "conf" for place in places)
    return [folder for folder in folders if folder.is_dir()]


def load_config(protocol: str | None = None, **settings: Any) -> RunConfig:
    """A RunConfig from the shipped defaults, a protocol and `settings`.

    A setting is the name of an option (`pool="paper"`), a mapping of values over the default option
    (`budget={"episodes": 16}`, `agent={"name": "cma_es", "sigma": 0.3}`; `name` chooses the option
    where the group has names), or a value of a key that is in no group (`seed=1`); a path may be a
    Path. Raises ConfigError naming the key."""
    primary = _read(conf_folder() / "config.yaml")
    chosen = {
        key: str(option)
        for key, option in _defaults(primary).items()
        if key in GROUPS and option is not None
    }
    fixed: dict[str, Any] = {}
    if protocol is not None:
        choices, fixed = _protocol(protocol, _named("benchmark", settings.get("benchmark")))
        chosen.update(choices)
    plain = {key: value for key, value in primary.items() if key in RunConfig.__dataclass_fields__}
    for key, value in settings.items():
        if key not in RunConfig.__dataclass_fields__:
            raise ConfigError(
                f"{key}: is not a key of a Run.{did_you_mean(key, RunConfig.__dataclass_fields__)}"
            )
        said = _paths_as_text(value)
        plain[key] = _group(key, said, chosen, fixed.get(key, {})) if key in GROUPS else said
    for group in GROUPS:
        if group not in plain:
            plain[group] = _merge(option(group, _chosen(group, chosen)), fixed.get(group, {}))
    return config_from(plain)


def _paths_as_text(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: _paths_as_text(item) for key, item in value.items()}
    return [_paths_as_text(item) for item in value] if isinstance(value, list | tuple) else value


def option(group: str, name: str) -> dict[str, Any]:
    """The values of `conf/<group>/<name>.yaml`, ours or a distribution's, with what it builds on
    merged in."""
    folders = [conf_folder() / group]
    if not (folders[0] / f"{name}.yaml").is_file():
        folders += [folder / group for folder in foreign_conf_folders()]
    path = next((path for folder in folders if (path := folder / f"{name}.yaml").is_file()), None)
    if path is None:
        if group == "benchmark" and name in known_benchmarks():
            return default_options(name)
        known = {file.stem for folder in folders for file in folder.glob("*.yaml")}
        raise ConfigError(f"{group}: '{name}' is unknown.{did_you_mean(name, known)}")
    values = dict(_read(path))
    merged: dict[str, Any] = {}
    for base in values.pop("defaults", []):
        if isinstance(base, str) and base != "_self_":
            merged = _merge(merged, option(group, base))
    return _merge(merged, values)


def _group(
    group: str, value: Any, chosen: Mapping[str, str], fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """The setting `value` of `group`: over what the protocol fixes, which is over the option."""
    if isinstance(value, str):
        return _merge(option(group, value), fixed)
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{group}: an option's name or a mapping is needed, found a {type(value).__name__}"
        )
    return _merge(
        _merge(option(group, _named(group, value) or _chosen(group, chosen)), fixed), value
    )


def _named(group: str, value: Any) -> str | None:
    """The option the setting `value` of `group` names, if it does."""
    if isinstance(value, Mapping) and group in NAMED_GROUPS:
        value = value.get("name")
    return value if isinstance(value, str) and value else None


def _chosen(group: str, chosen: Mapping[str, str]) -> str:
    if group not in chosen:
        raise ConfigError(
            f"{group}: choose one, such as {group}='{'cma_es' if group == 'agent' else 'cartpole'}'"
        )
    return chosen[group]


def _protocol(name: str, benchmark: str | None) -> tuple[dict[str, str], dict[str, Any]]:
    """The options a protocol chooses, by group, and the single values it fixes, some in one
    Benchmark alone."""
    fixed = option("protocol", name)
    if (conf_folder() / "protocol" / name / f"{benchmark}.yaml").is_file():
        fixed = _merge(fixed, {"benchmark": option("protocol", f"{name}/{benchmark}")})
    defaults = _defaults(_read(conf_folder() / "protocol" / f"{name}.yaml"))
    return {key.removeprefix("override /"): str(choice) for key, choice in defaults.items()}, fixed


def _defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """The `group: option` entries of a defaults list."""
    return {
        key: choice
        for entry in values.get("defaults", [])
        if isinstance(entry, dict)
        for key, choice in entry.items()
    }


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = (
            _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


@cache
def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML ({error})") from None
    return values or {}
