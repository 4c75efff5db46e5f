"""Temporary folders that do not outlive their Host for long: each has a locked file, the next start sweeps the rest."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from itertools import islice
from pathlib import Path

from evopolicy.kernel.errors import ExecutionError

_PREFIX = "evopolicy-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PART = 4096


class HeldFolder:
    """A fresh private folder, removed by `close`; a killed Host's is removed by the next one that is made."""

    def __init__(self, purpose: str, root: Path | None = None) -> None:
        """`purpose`: a word for a person who lists temporary folders. Raises ExecutionError where none can be made."""
        root = root or Path(tempfile.gettempdir())
        try:
            sweep(root)
            self.path = root.resolve() / f"{_PREFIX}{purpose}-{secrets.token_hex(8)}"
            self._lock_path = self.path.with_name(self.path.name + ".lock")
            self._lock = _locked(self._lock_path)
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise ExecutionError(
                f"no temporary folder can be made in {root}: {error.strerror}; set TMPDIR to one that can be written"
            ) from error

    def close(self) -> None:
        """Remove the folder and all it holds. Idempotent."""
        if self._lock >= 0:
            remove(self.path)
            with contextlib.suppress(OSError):
                self._lock_path.unlink()
            os.close(self._lock)
            self._lock = -1


def _locked(path: Path) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if os.fstat(fd).st_ino == path.stat().st_ino:
                return fd
        except FileNotFoundError:
            pass  # A sweep took the file between its making and its lock.
        os.close(fd)


def sweep(root: Path) -> None:
    """Remove this user's folders whose Host is gone: nobody holds their lock any more."""
    for lock in root.glob(f"{_PREFIX}*.lock"):
        try:
            fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(lock.with_name(lock.name.removesuffix(".lock")))
                lock.unlink(missing_ok=True)
        except OSError:
            continue
        finally:
            os.close(fd)


def remove(folder: Path) -> None:
    """Remove a tree, however deep it is and whatever its folders' modes are; what cannot be is left for the next sweep.

    Nobody may be changing it meanwhile.
    """
    try:
        folder.chmod(0o700)
        fd = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        _empty(fd)
        folder.rmdir()
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def _empty(fd: int) -> None:
    """Closes `fd`, an open folder, once it holds nothing. Each step is by one name: no path is too long for it."""
    names: list[str] = []
    waiting: list[list[str]] = [[]]  # For each level folders in it that were seen and not entered yet.
    try:
        while True:
            waiting[-1] = waiting[-1] or _unlink_some(fd)
            if waiting[-1]:
                names.append(waiting[-1].pop())
                waiting.append([])
                os.chmod(names[-1], 0o700, dir_fd=fd)
                fd = _moved(fd, names[-1])
            elif names:
                waiting.pop()
                fd = _moved(fd, "..")
                os.rmdir(names.pop(), dir_fd=fd)
            else:
                return
    finally:
        os.close(fd)


def _moved(fd: int, name: str) -> int:
    inner = os.open(name, _FOLDER, dir_fd=fd)
    os.close(fd)
    return inner


def _unlink_some(fd: int) -> list[str]:
    """Removes files and empty folders until there are others: some of their names, none where nothing is left.

    In parts: a scratch folder may hold a million names.
    """
    while True:
        with os.scandir(fd) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, _PART)]
        filled = [name for name, is_folder in found if is_folder and not _emptied(fd, name)]
        for name, is_folder in found:
            if not is_folder:
                os.unlink(name, dir_fd=fd)
        if filled or not found:
            return filled


def _emptied(fd: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError:
        return False
    return True
