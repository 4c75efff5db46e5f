"""An agent's home: logins laid into it, what is kept of it in the logs, and that it can be removed.

An agent may leave anything in a home that its next attempt is given again: on the way to a file no link is followed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from evopolicy.execution import folders
from evopolicy.execution.agent_output import Masking
from evopolicy.kernel.errors import AgentError
from evopolicy.kernel.secrets import Masker

MAX_LAID = 500
"""Files and folders that are let into a home: each file is a mount of its own."""
MAX_FILES, MAX_FILE_BYTES, MAX_BYTES = 1_000, 64 << 20, 256 << 20
"""Of what is collected; of a larger file its first bytes are kept."""
MAX_LOOKED_AT = 200_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DEEP = 100
_LONG = 3000
_CHUNK = 1 << 20


def copied(wanted: Mapping[str, Path], to: Path) -> list[str]:
    """Copy `wanted` (by relative path) into the empty folder `to`; returns its files. Raises AgentError."""
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
                f"the agent's home needs '{source}' as '{name}', which cannot be read ({error.strerror or error}); log"
                " in with the agent's own command first"
            ) from None
    return sorted(str(path.relative_to(to)) for path in to.rglob("*") if path.is_file())


class _Left:
    """What of a folder is not copied: what is neither file nor folder. Raises AgentError for a folder of too many."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._seen = 0

    def __call__(self, folder: str, names: list[str]) -> list[str]:
        self._seen += len(names)
        if self._seen > MAX_LAID:
            raise AgentError(
                f"the agent's home is to have a copy of '{self._source}', which holds more than {MAX_LAID} files; copy"
                " those it needs to a folder of their own and name that"
            )
        paths = [Path(folder, name) for name in names]
        return [path.name for path in paths if not path.is_file() and not path.is_dir()]


def inside(name: str, word: str) -> Path:
    """`name` as a relative path. Raises AgentError for one that leads out of the folder that `word` calls."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise AgentError(f"the integration lays a file '{name}' outside its {word}")
    return path


def opened(home: Path) -> None:
    """Have `home` there, its owner's alone."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)


def give(home: Path, copies: Path, names: Sequence[str], *, empty: bool) -> None:
    """Lay the files `names` of `copies`, and its folders, into `home`; with `empty` only places to mount them at."""
    for folder, _, _ in os.walk(copies):
        os.close(_folder(home, Path(folder).relative_to(copies).parts, make=True))
    for name in names:
        *parts, last = Path(name).parts
        fd = _folder(home, parts, make=True)
        try:
            if not (empty and _is_file(last, fd)):
                _clear(home / name, fd)
                file = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=fd)
                with os.fdopen(file, "wb") as target:
                    target.write(b"" if empty else (copies / name).read_bytes())
        finally:
            os.close(fd)


def take_back(home: Path, names: Sequence[str]) -> None:
    """Remove the files `names` from `home`, as far as they are there."""
    for name in names:
        *parts, last = Path(name).parts
        with contextlib.suppress(OSError):
            fd = _folder(home, parts, make=False)
            try:
                os.unlink(last, dir_fd=fd)
            finally:
                os.close(fd)


def _folder(home: Path, parts: Sequence[str], *, make: bool) -> int:
    """A descriptor of the folder at `parts` below `home`; with `make`, whatever else is on the way is removed."""
    fd = os.open(home, _FOLDER)
    try:
        for name in parts:
            if make:
                if not _is_folder(name, fd):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=fd)
                    os.mkdir(name, 0o700, dir_fd=fd)
                os.chmod(name, 0o700, dir_fd=fd)
            inner = os.open(name, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
    except BaseException:
        os.close(fd)
        raise
    return fd


def _is_folder(name: str, fd: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    return False


def _is_file(name: str, fd: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    return False


def _clear(path: Path, fd: int) -> None:
    """Remove whatever is at `path`, whose folder is open as `fd`."""
    if _is_folder(path.name, fd):
        folders.remove(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=fd)


# --- after its end -------------------------------------------------------------------------------------------------


def made_removable(home: Path) -> None:
    """Open every folder below `home` to its owner, and remove what is nested too deep. Nobody may be changing it."""
    for root, names, _ in os.walk(home):
        for path in [Path(root, name) for name in names]:
            with contextlib.suppress(OSError):
                if path.is_symlink():
                    continue
                if len(str(path)) > _LONG or len(path.parts) - len(home.parts) > _DEEP:
                    names.remove(path.name)
                    folders.remove(path)
                else:
                    path.chmod(0o700)


def checked_globs(globs: Sequence[str]) -> None:
    """Raises AgentError for one that leads out of the home."""
    for glob in globs:
        inside(glob, "home (collect)")


def collect(home: Path, globs: Sequence[str], without: Collection[str], to: Path, mask: Masker) -> None:
    """Copy the regular files below `home` that match one of `globs`, but `without`, into the folder `to`, masked.

    `*` stands for anything in one name, `**` for any number of folders. What cannot be read is left out.
    """
    patterns = [PurePosixPath(glob).parts for glob in globs]
    left, count = MAX_BYTES, 0
    for parts in _files(home) if patterns else ():
        if str(Path(*parts)) in without or not any(_matches(parts, pattern) for pattern in patterns):
            continue
        if count >= MAX_FILES or left <= 0:
            return
        with contextlib.suppress(OSError):
            left -= _copied_masked(home, parts, to, min(left, MAX_FILE_BYTES), mask)
            count += 1


def _files(home: Path) -> Iterator[tuple[str, ...]]:
    seen = 0
    for root, inner, names in os.walk(home):
        inner.sort()
        for name in sorted(names):
            yield (*Path(root).relative_to(home).parts, name)
        seen += len(inner) + len(names)
        if seen > MAX_LOOKED_AT:
            return


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        rest = pattern[1:]
        return any(_matches(parts[skipped:], rest) for skipped in range(len(parts) + 1)) or not rest
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _copied_masked(home: Path, parts: Sequence[str], to: Path, most: int, mask: Masker) -> int:
    """Bytes that were read."""
    folder = _folder(home, parts[:-1], make=False)
    try:
        source = os.open(parts[-1], os.O_RDONLY | _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(source, "rb") as file:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            return 0
        target = to.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        masking, read = Masking(mask), 0
        with target.open("wb") as kept:
            while read < most and (data := file.read(min(_CHUNK, most - read))):
                read += len(data)
                kept.write(masking.feed(data))
            kept.write(masking.end())
    return read
