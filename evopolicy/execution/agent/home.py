"""An agent's home: logins written into it, what is kept of it in the logs, and that it can be
removed.

An agent may leave anything in a home that its next attempt is given again: on the way to a file no
link is followed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath

from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.files import beneath
from evopolicy.kernel.secrecy.masking import Masking
from evopolicy.kernel.secrecy.secrets import Masker

MAX_LAID = 500
"""Files and folders that are let into a home: each file is a mount of its own."""
MAX_FILES, MAX_FILE_BYTES, MAX_BYTES = 1_000, 64 << 20, 256 << 20
"""Of what is collected; of a larger file its first bytes are kept."""
MAX_LOOKED_AT = 200_000
_DEEP = 100
_CHUNK = 1 << 20


def copied(wanted: Mapping[str, Path], to: Path) -> list[str]:
    """Copy `wanted` (by relative path) into the empty folder `to`; returns its files. Raises
    AgentError."""
    for name, source in wanted.items():
        target = to / inside(name, "home")
        target.parent.mkdir(parents=True, exist_ok=True)
        left = _Left(source)
        try:
            if source.is_dir():
                shutil.copytree(source, target, ignore=left, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, target)
        except OSError as error:
            raise AgentError(
                f"the agent's home needs '{source}' as '{name}', which cannot be read "
                f"({error.strerror or error}); log in with the agent's own command first"
            ) from None
    return sorted(str(path.relative_to(to)) for path in to.rglob("*") if path.is_file())


class _Left:
    """What of a folder is not copied: what is neither file nor folder. Raises AgentError for a
    folder of too many."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._seen = 0

    def __call__(self, folder: str, names: list[str]) -> list[str]:
        self._seen += len(names)
        if self._seen > MAX_LAID:
            raise AgentError(
                f"the agent's home is to have a copy of '{self._source}', which holds more than "
                f"{MAX_LAID} files; copy those it needs to a folder of their own and name that"
            )
        paths = [Path(folder, name) for name in names]
        return [path.name for path in paths if not path.is_file() and not path.is_dir()]


def inside(name: str, word: str) -> Path:
    """`name` as a relative path. Raises AgentError for one that leads out of the folder that `word`
    calls."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise AgentError(f"the integration puts a file '{name}' outside its {word}")
    return path


def opened(home: Path) -> None:
    """Have `home` there, its owner's alone."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)


def give(home: Path, copies: Path, names: Sequence[str], *, empty: bool) -> None:
    """Copy the files `names` of `copies`, and its folders, into `home`; with `empty` only places to
    mount them at."""
    for folder, _, _ in os.walk(copies):
        with beneath.opened(home, Path(folder).relative_to(copies).parts, make=True):
            pass
    for name in names:
        *parts, last = Path(name).parts
        with beneath.opened(home, parts, make=True) as fd:
            if not (empty and beneath.is_file(last, fd)):
                beneath.write(last, fd, b"" if empty else (copies / name).read_bytes(), 0o600)


def take_back(home: Path, names: Sequence[str]) -> None:
    """Remove the files `names` from `home`, as far as they are there."""
    for name in names:
        *parts, last = Path(name).parts
        with contextlib.suppress(OSError), beneath.opened(home, parts) as fd:
            beneath.remove(last, fd)


# --- after its end --------------------------------------------------------------------------------


def made_removable(home: Path) -> None:
    """Open every folder below `home` to its owner, and remove what is nested too deep."""
    with contextlib.suppress(OSError), beneath.opened(home) as fd:
        for folder, parts, names in _walked(fd, ()):
            for name in names if len(parts) >= _DEEP else ():
                with contextlib.suppress(OSError):
                    if beneath.is_folder(name, folder):
                        beneath.remove(name, folder)


def checked_globs(globs: Sequence[str]) -> None:
    """Raises AgentError for one that leads out of the home."""
    for glob in globs:
        inside(glob, "home (collect)")


def collect(
    home: Path, globs: Sequence[str], without: Collection[str], to: Path, mask: Masker
) -> None:
    """Copy the regular files below `home` that match one of `globs`, but `without`, into the folder
    `to`, masked.

    `*` stands for anything in one name, `**` for any number of folders. What cannot be read is left
    out."""
    patterns = [PurePosixPath(glob).parts for glob in globs]
    left, count, seen = MAX_BYTES, 0, 0
    if not patterns:
        return
    with contextlib.suppress(FileNotFoundError), beneath.opened(home) as top:
        for folder, above, names in _walked(top, ()):
            for name in names:
                parts = (*above, name)
                if str(Path(*parts)) in without or not any(
                    _matches(parts, pattern) for pattern in patterns
                ):
                    continue
                if count >= MAX_FILES or left <= 0:
                    return
                with contextlib.suppress(OSError):
                    left -= _copied_masked(
                        name, folder, to.joinpath(*parts), min(left, MAX_FILE_BYTES), mask
                    )
                    count += 1
            seen += len(names)
            if seen > MAX_LOOKED_AT:
                return


def _walked(fd: int, parts: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...], list[str]]]:
    """Each folder from `fd` down, _DEEP levels: it, open; its parts below `fd`; and the names in
    it, sorted."""
    names = sorted(islice(beneath.names_in(fd), MAX_LOOKED_AT))
    yield fd, parts, [name for name, _ in names]
    for name in [name for name, folder in names if folder and len(parts) < _DEEP]:
        with contextlib.suppress(OSError):
            inner = beneath.entered(name, fd)
            try:
                yield from _walked(inner, (*parts, name))
            finally:
                os.close(inner)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        rest = pattern[1:]
        return any(_matches(parts[skipped:], rest) for skipped in range(len(parts) + 1)) or not rest
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _copied_masked(name: str, folder: int, target: Path, most: int, mask: Masker) -> int:
    """Bytes that were read."""
    with beneath.reading(name, folder) as file:
        target.parent.mkdir(parents=True, exist_ok=True)
        masking, read = Masking(mask), 0
        with target.open("wb") as kept:
            while read < most and (data := file.read(min(_CHUNK, most - read))):
                read += len(data)
                kept.write(masking.feed(data))
            kept.write(masking.end())
    return read
