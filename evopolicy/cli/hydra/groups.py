"""The config groups and their options, of evopolicy and of what is installed beside it."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from evopolicy.authoring.discovery import without_yaml
from evopolicy.presets import conf_folder


def foreign_conf_folders() -> list[Path]:
    """Folders `conf` that installed Benchmark and agent distributions ship inside their packages."""
    packages = {
        point.module.partition(".")[0]
        for group in ("evopolicy.benchmarks", "evopolicy.agents")
        for point in entry_points(group=group)
    }
    folders: list[Path] = []
    for package in sorted(packages - {"evopolicy"}):
        spec = find_spec(package)
        places = (spec.submodule_search_locations or []) if spec else []
        folders.extend(Path(place) / "conf" for place in places)
    return [folder for folder in folders if folder.is_dir()]


def group_options(group: str) -> list[str]:
    """The options of a group that come with evopolicy or an installed distribution; for '' the groups themselves.

    An option may lie in a folder (`paper/random`), but not in one beside an option of its name: that holds its parts.
    """
    folders = [folder / group for folder in (conf_folder(), *foreign_conf_folders())]
    folders = [folder for folder in folders if folder.is_dir()]
    if not group:
        return sorted({path.name for folder in folders for path in folder.iterdir() if path.is_dir()})
    found = {path.relative_to(folder).with_suffix("") for folder in folders for path in folder.rglob("*.yaml")}
    options = {path.as_posix() for path in found if path.parent not in found}
    return sorted(options | set(installed_benchmarks() if group == "benchmark" else ()))


def installed_benchmarks() -> list[str]:
    """Names of installed Benchmarks whose distributions ship no YAML for any."""
    return without_yaml({folder.parent.name for folder in foreign_conf_folders() if (folder / "benchmark").is_dir()})
