"""A table or a figure by its name: of `conf/`, of a YAML file, or of what an installed distribution
ships."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from evopolicy.cli.sources import KEYS
from evopolicy.kernel.errors import ConfigError, did_you_mean

WHERE = ("name", *KEYS, "to")
"""Options that say what is made, of which Runs and where it goes; the others are keys of its
config."""


def is_file(name: str) -> bool:
    """Whether `name` is that of a YAML file."""
    return name.endswith((".yaml", ".yml"))


def plain_name(name: str) -> str:
    """As a label: a file's name without its ending."""
    return Path(name).stem if is_file(name) else name


def read_named(group: str, name: str) -> dict[str, Any]:
    """Values of `name`, an option of the group `table` or `figure` or a YAML file. Raises
    ConfigError."""
    from evopolicy.presets import conf_folder, foreign_conf_folders

    if is_file(name):
        return _load(Path(name), group)
    folders = [conf_folder()]
    if not (folders[0] / group / f"{name}.yaml").is_file():
        from evopolicy.cli.hydra.groups import group_options

        folders = foreign_conf_folders()
        known = group_options(group)
        if name not in known:
            raise ConfigError(
                f"name: there is no {group} '{name}'.{did_you_mean(name, known)} A file's name "
                "ends in .yaml."
            )
    return next(
        _load(path, group)
        for folder in folders
        if (path := folder / group / f"{name}.yaml").is_file()
    )


def overrides(config: type, options: Mapping[str, str]) -> dict[str, Any]:
    """The `options` that are keys of `config`, as its YAML would have them: `true`, `3`, `null`,
    `[a, b]`.

    What the dataclass has as text stays text.
    """
    import yaml

    hints = get_type_hints(config)
    found: dict[str, Any] = {}
    for key, text in options.items():
        if key in WHERE:
            continue
        try:
            found[key] = text if hints.get(key) is str else yaml.safe_load(text)
        except yaml.YAMLError:
            found[key] = text
    return found


def _load(path: Path, group: str) -> dict[str, Any]:
    import yaml

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"name: {path} cannot be read as YAML ({' '.join(str(error).split())})"
        ) from None
    if not isinstance(values, dict):
        raise ConfigError(f"name: {path} has no keys; copy one of conf/{group}/ and change it")
    return values
