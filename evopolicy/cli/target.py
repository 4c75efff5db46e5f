"""The file that `to=` names: what cannot be written is found before the work, and what is written
is whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from evopolicy.kernel.errors import ConfigError


def check_target(path: Path | str) -> Path:
    """`path`, where a file can be written as far as can be known; nothing is made yet.

    Raises ConfigError for a folder, for a place below a file, and where this user may not write.
    """
    path = Path(path)
    if path.is_dir():
        raise ConfigError(f"to: '{path}' is a folder; name a file in it")
    if path.exists() and not os.access(path, os.W_OK):
        raise _refused(path, "you may not write it")
    above = path.absolute().parent
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        raise _refused(path, f"{above} is not a folder")
    if not path.exists() and not os.access(above, os.W_OK | os.X_OK):
        raise _refused(path, f"you may not write into {above}")
    return path


def write_target(path: Path, content: bytes | str) -> None:
    """Make the folders `path` needs and write it, whole or not at all: what was there stays where
    this fails.

    Text is written as UTF-8. Raises ConfigError.
    """
    content = content.encode() if isinstance(content, str) else content
    place = path.resolve()  # a link goes on naming the file it names
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(
                content
            )  # a pipe or a terminal is written to, never replaced by a file
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        _replace(place, content)
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None


def _replace(place: Path, content: bytes) -> None:
    new = place.with_name(f".{place.name[:200]}.{os.getpid()}.new")
    try:
        new.write_bytes(content)
        if place.exists():
            shutil.copymode(place, new)
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)


def _refused(path: Path, why: str) -> ConfigError:
    return ConfigError(f"to: '{path}' cannot be written ({why}); name another file")
