"""Temporary folders that do not outlive their Host for long: each has a locked file, the next start
sweeps the rest."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from evopolicy.kernel.errors import ExecutionError
from evopolicy.kernel.files import beneath

_PREFIX = "evopolicy-"


class HeldFolder:
    """A fresh private folder, removed by `close`; a killed Host's is removed by the next one that
    is made."""

    def __init__(self, purpose: str) -> None:
        """`purpose`: a word for a person who lists temporary folders. Raises ExecutionError where
        none can be made."""
        root = Path(tempfile.gettempdir())
        try:
            sweep(root)
            self.path = root.resolve() / f"{_PREFIX}{purpose}-{secrets.token_hex(8)}"
            self._lock_path = self.path.with_name(self.path.name + ".lock")
            self._lock = _locked(self._lock_path)
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise ExecutionError(
                f"no temporary folder can be made in {root}: {error.strerror}; set TMPDIR to one "
                "that can be written"
            ) from error

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

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
    """Remove a tree, however deep it is and whatever its folders' modes are; what cannot be is left
    for the next sweep.

    Whoever may be changing it meanwhile, nothing outside it is touched.
    """
    try:
        with beneath.opened(folder.parent.resolve()) as fd:
            beneath.remove(folder.name, fd)
    except OSError:
        with contextlib.suppress(RecursionError):
            shutil.rmtree(folder, ignore_errors=True)
