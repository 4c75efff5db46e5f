"""The config groups and their options, of evopolicy and of what is installed beside it."""

from __future__ import annotations

from evopolicy.authoring.discovery import without_yaml
from evopolicy.presets import conf_folder, foreign_conf_folders


def group_options(group: str) -> list[str]:
    """The options of a group that come with evopolicy or an installed distribution; for '' the
    groups themselves.

    An option may lie in a folder (`paper/random`), but not in one beside an option of its name:
    that holds its parts."""
    folders = [folder / group for folder in (conf_folder(), *foreign_conf_folders())]
    folders = [folder for folder in folders if folder.is_dir()]
    if not group:
        return sorted(
            {path.name for folder in folders for path in folder.iterdir() if path.is_dir()}
        )
    found = {
        path.relative_to(folder).with_suffix("")
        for folder in folders
        for path in folder.rglob("*.yaml")
    }
    options = {path.as_posix() for path in found if path.parent not in found}
    return sorted(options | set(installed_benchmarks() if group == "benchmark" else ()))


def installed_benchmarks() -> list[str]:
    """Names of installed Benchmarks whose distributions ship no YAML for any."""
    return without_yaml(
        {folder.parent.name for folder in foreign_conf_folders() if (folder / "benchmark").is_dir()}
    )
