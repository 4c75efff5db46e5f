"""Reading the files of a record, whoever sent it: regular files of bounded size, and no link is
followed to them.

Every function takes the folder that was named by the reader, `top`, and what lies in it by a
relative name. The folder itself may be reached by links; nothing below it may."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path, PurePosixPath

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files import beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ENTRIES = 200_000
"""Names that are looked at below one folder."""
DEPTH = 32
"""Folders within each other that are looked into."""


@dataclass(frozen=True)
class Part:
    """A regular file below a folder."""

    name: str
    """POSIX path relative to the folder."""
    bytes: int


def read_part(top: Path, name: str, limit: int) -> bytes:
    """The content of the file `name` below `top`.

    Raises FileNotFoundError where there is none, and RecordError, naming the file, for what is not
    a regular file, is reached by a link, has more than `limit` bytes or cannot be read."""
    with open_part(top, name) as file:
        try:
            large = os.fstat(file.fileno()).st_size > limit  # so that nothing of it is read
            content = b"" if large else beneath.first_bytes(file, limit + 1)
        except OSError as error:
            raise _refused(top / name, error) from None
    if large or len(content) > limit:
        raise too_large(top / name, limit)
    return content


def too_large(path: Path, limit: int) -> RecordError:
    return RecordError(f"{path}: has more than {limit:,} bytes, which no such file has")


def lines_of(data: bytes) -> Iterator[bytes]:
    """The lines of `data`, the last one whether it is whole or not, and none behind it: one at a
    time."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        yield data[begin:end]
        begin = end + 1


@contextmanager
def open_part(top: Path, name: str) -> Iterator[FileIO]:
    """The file `name` below `top`, to read from. Raises as `read_part` does."""
    with _open_above(top, name) as (handle, last):
        try:
            file = beneath.reading(last, handle)
        except OSError as error:
            raise _refused(top / name, error) from None
        with file:
            yield file


def is_inside(top: Path, path: Path) -> bool:
    """Whether `path`, links and all, lies below `top`."""
    try:
        return path.resolve().is_relative_to(top.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name no file may have
        return False


def size_of(top: Path, name: str) -> int | None:
    """Bytes of the regular file `name` below `top`; None where there is none that may be read."""
    try:
        with open_part(top, name) as file:
            return os.fstat(file.fileno()).st_size
    except (OSError, RecordError):
        return None


def parts_below(top: Path, name: str = "") -> Iterator[Part]:
    """Every regular file below the folder `name` of `top`, in order; links and special files are
    left out.

    Nothing where there is no such folder. Raises RecordError for a folder with more than ENTRIES
    names."""
    try:
        with _open_above(top, f"{name}/." if name else ".") as (handle, _):
            yield from _below(handle, f"{name}/" if name else "", top, [0], 0)
    except (FileNotFoundError, NotADirectoryError):
        return


def names_in(top: Path, name: str) -> list[str]:
    """The names in the folder `name` of `top`, sorted; [] where there is none. Raises
    RecordError."""
    try:
        with _open_above(top, f"{name}/.") as (handle, _):
            found: list[str] = []
            with os.scandir(handle) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) > ENTRIES:
                        raise RecordError(f"{top / name}: holds more than {ENTRIES:,} names")
    except FileNotFoundError:
        return []
    return sorted(found)


def _below(handle: int, prefix: str, top: Path, seen: list[int], depth: int) -> Iterator[Part]:
    names = []
    with os.scandir(handle) as entries:
        for entry in entries:
            seen[0] += 1
            if seen[0] > ENTRIES:
                raise RecordError(f"{top / prefix}: holds more than {ENTRIES:,} names")
            names.append(entry.name)
    for name in sorted(names):
        try:
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield Part(prefix + name, status.st_size)
            if not stat.S_ISDIR(status.st_mode) or depth >= DEPTH:
                continue
            inner = os.open(name, _FOLDER, dir_fd=handle)
        except OSError:
            continue
        try:
            yield from _below(inner, f"{prefix}{name}/", top, seen, depth + 1)
        finally:
            os.close(inner)


@contextmanager
def _open_above(top: Path, name: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder that `name` lies in, and the last part of `name`."""
    path = PurePosixPath(name)
    parts = [*path.parts, "."] if name.endswith(".") else list(path.parts)
    if path.is_absolute() or ".." in parts or not parts or "\0" in name:
        raise RecordError(f"{top}: {name!r} is not the name of a file in it")
    handles: list[int] = []
    try:
        try:
            handles.append(os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for part in parts[:-1]:
                handles.append(os.open(part, _FOLDER, dir_fd=handles[-1]))
        except OSError as error:
            raise _refused(top / name, error) from None
        yield handles[-1], parts[-1]
    finally:
        for handle in reversed(handles):
            os.close(handle)


def _refused(path: Path, error: OSError) -> OSError | RecordError:
    """What is to be raised for `error`: that nothing is there is for the caller to judge."""
    if error.errno == errno.ENOENT:
        return FileNotFoundError(error.errno, error.strerror, str(path))
    if error.errno in (errno.EINVAL, errno.ENXIO, errno.EISDIR):
        return RecordError(
            f"{path}: cannot be read (it is not a regular file); restore it or remove it"
        )
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return RecordError(
            f"{path}: cannot be read (it is a link or lies behind one, and those of a record are "
            "not followed)"
        )
    return RecordError(f"{path}: cannot be read ({error.strerror})")
