"""What of this machine a coding CLI is started from: its native program inside a package, and its
configuration."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
"""npm's name of a processor, by the kernel's."""


def machine() -> str:
    """npm's name of this machine's processor; the kernel's own where npm has none."""
    return MACHINES.get(platform.machine().lower(), platform.machine())


def is_native(path: Path) -> bool:
    """Whether `path` is a program of the machine's own, and no script."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def native_program(launcher: Path, places: Iterable[str]) -> Path | None:
    """The program that `launcher` starts: itself, or the first of `places` that npm installed
    within its reach.

    `places` are paths below a `node_modules` or the launcher's own package. npm installs a
    package's own needs inside it, beside it, or (pnpm) beside the folder its link leads to."""
    real = launcher.resolve()
    if is_native(real):
        return real
    root = package_of(real)
    if root is None:
        return None
    trees = [
        root,
        root / "node_modules",
        *(folder for folder in root.parents if folder.name == "node_modules"),
    ]
    found = (tree / place for place in places for tree in trees)
    return next((path.resolve() for path in found if is_native(path)), None)


def package_of(program: Path) -> Path | None:
    """Folder of the npm package `program` lies in."""
    return next((folder for folder in program.parents if (folder / "package.json").is_file()), None)


def configuration_files(folder: str, target: str, without: Collection[str]) -> dict[str, Path]:
    """The entries of the user's `folder` as they are copied below `target` in the agent's home.

    `without`: names that stay outside, as logins and what earlier sessions left.
    """
    if not folder:
        return {}
    entries = sorted(Path(folder).expanduser().iterdir())
    return {f"{target}/{entry.name}": entry for entry in entries if entry.name not in without}


def named_files(commands: Mapping[str, Iterable[str]]) -> Iterator[Path]:
    """Files of this machine that command lines name by their full path: a server's program, its
    script."""
    for command in commands.values():
        for part in command:
            path = Path(part)
            if path.is_absolute() and path.is_file():
                yield path
