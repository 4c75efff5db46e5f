"""Work in a folder that somebody else writes to: by descriptors, one name at a time, and no link is
ever followed.

An agent, a Policy, or a process either has left behind, may put a link, a folder or a pipe under
any name, and put it there between two steps of the Host. So nothing here takes a path below such a
folder: each step is by one name in a folder that is open already, what is made gets a name nobody
can foresee, and only regular files are read. Every function raises OSError."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe without a writer, or a device, must not hold the Host up before it is seen for what it is.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNERS = 0o700
_PART = 4096
_HANDLES = Path("/proc/self/fd")
_READ = 1 << 20


@contextmanager
def opened(folder: Path, parts: Sequence[str] = (), *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder at `parts` below `folder`; with `make`, whatever else is on the
    way is removed.

    `folder` itself is no link either; the path that leads to it is the Host's own.
    """
    fd = entered(os.fspath(folder), None)
    try:
        for name in parts:
            fd = _moved(fd, own_folder(name, fd) if make else entered(name, fd))
        yield fd
    finally:
        os.close(fd)


def is_folder(name: str, fd: int) -> bool:
    status = status_of(name, fd)
    return status is not None and stat.S_ISDIR(status.st_mode)


def is_file(name: str, fd: int) -> bool:
    """Whether it is a regular file."""
    status = status_of(name, fd)
    return status is not None and stat.S_ISREG(status.st_mode)


def status_of(name: str, fd: int) -> os.stat_result | None:
    """Of `name` itself, no link followed; None where nothing is there."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def entered(name: str, fd: int | None) -> int:
    """A descriptor of the folder `name`, which its owner may list, enter and change from now on."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=fd)
    except PermissionError:
        unlock(name, fd, _OWNERS)
        inner = os.open(name, _FOLDER, dir_fd=fd)
    try:
        mode = stat.S_IMODE(os.fstat(inner).st_mode)
        if mode & _OWNERS != _OWNERS:
            os.fchmod(inner, mode | _OWNERS)
    except BaseException:
        os.close(inner)
        raise
    return inner


def own_folder(name: str, fd: int) -> int:
    """A descriptor of the real folder `name`, made where there is none. What else lies in its place
    is removed."""
    if not is_folder(name, fd):
        remove(name, fd)
        os.mkdir(name, _OWNERS, dir_fd=fd)
    return entered(name, fd)


def unlock(name: str, fd: int | None, mode: int) -> None:
    """Give `name`, a folder or a file without a second name, the mode `mode`, although it cannot be
    opened yet."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
            if _HANDLES.is_dir():
                (_HANDLES / str(handle)).chmod(mode)  # the very thing that was looked at
            # A Policies' sandbox has no process table; what is removed in it has nobody left who
            # changes it.
            else:
                os.chmod(name, mode, dir_fd=fd)
    finally:
        os.close(handle)


def reading(name: str, fd: int) -> FileIO:
    """The regular file `name`, to be read. Raises OSError (EINVAL) where it is none: a link, a
    pipe, a device."""
    handle = os.open(name, _FILE, dir_fd=fd)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", name)
    return FileIO(handle, "rb")


def first_bytes(file: FileIO, most: int) -> bytes:
    """At most `most` bytes, from where the file is: one read of a file gives no more than 2 GiB,
    and may give less."""
    parts: list[bytes] = []
    while most > 0 and (data := file.read(min(most, _READ))):
        parts.append(data)
        most -= len(data)
    return b"".join(parts)


@contextmanager
def replacing(name: str, fd: int, mode: int) -> Iterator[BinaryIO]:
    """A new file to write, which takes the place of `name` when the block ends, whole, or not at
    all."""
    staging = f".{secrets.token_hex(16)}"
    handle = os.open(staging, _NEW, 0o600, dir_fd=fd)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(handle, mode)
        os.rename(staging, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(staging, dir_fd=fd)
        raise


def write(name: str, fd: int, content: bytes, mode: int) -> None:
    """Put `content` at `name`, in place of whatever is there."""
    if is_folder(name, fd):
        remove(name, fd)
    with replacing(name, fd, mode) as file:
        file.write(content)


def move_in(path: Path, name: str, fd: int) -> None:
    """Move what the Host has made at `path`, on the same disk, to `name`, where nothing may be, or
    a file."""
    os.rename(path, name, dst_dir_fd=fd)


def names_in(fd: int) -> Iterator[tuple[str, bool]]:
    """Each name in a folder, unsorted, and whether it is a folder's; a link is none."""
    with os.scandir(fd) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir(follow_symlinks=False)


# --- removing -------------------------------------------------------------------------------------


def remove(name: str, fd: int) -> None:
    """Remove what is at `name`: a file, a link, a tree however deep it is and whatever its folders'
    modes are."""
    if is_folder(name, fd):
        _empty(entered(name, fd))
        os.rmdir(name, dir_fd=fd)
    else:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)


def _empty(fd: int) -> None:
    """Closes `fd`, an open folder, once it holds nothing. Each step is by one name: no path is too
    long for it."""
    way: list[tuple[str, tuple[int, int]]] = []
    """Names of the folders that were entered, and which folder each was seen in."""
    waiting: list[list[str]] = [
        []
    ]  # For each level folders in it that were seen and not entered yet.
    try:
        while True:
            waiting[-1] = waiting[-1] or _unlink_some(fd)
            if waiting[-1]:
                name = waiting[-1].pop()
                way.append((name, _identity(fd)))
                waiting.append([])
                fd = _moved(fd, entered(name, fd))
            elif way:
                waiting.pop()
                name, parent = way.pop()
                fd = _moved(fd, os.open("..", _FOLDER, dir_fd=fd))
                if _identity(fd) != parent:
                    raise OSError(errno.ESTALE, "was moved while it was removed", name)
                os.rmdir(name, dir_fd=fd)
            else:
                return
    finally:
        os.close(fd)


def _moved(fd: int, to: int) -> int:
    os.close(fd)
    return to


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _unlink_some(fd: int) -> list[str]:
    """Removes files and empty folders until there are others: some of their names, none where
    nothing is left.

    In parts: a folder may hold a million names.
    """
    while True:
        entries = list(islice(names_in(fd), _PART))
        filled = [name for name, folder in entries if folder and not _emptied(fd, name)]
        for name, folder in entries:
            if not folder:
                os.unlink(name, dir_fd=fd)
        if filled or not entries:
            return filled


def _emptied(fd: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError:
        return False
    return True
