"""Who works in a folder: one command at a time, by a lock that is gone with its last process,
however that ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.durable import make_folder
from evopolicy.kernel.secrecy.secrets import NO_SECRETS
from evopolicy.kernel.shown import clean

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST = 4096
"""Bytes of what an owner says of itself."""
_COMMAND = 200
_MOMENT = 0.001
_ENDING_SECONDS = 60.0
"""What a killed command's processes have to end by themselves; they take far less."""


@dataclass(frozen=True)
class Owner:
    """What a command says of itself. For people: that it works there is told by its lock alone."""

    pid: int = 0
    since: float = 0.0
    """Unix seconds."""
    command: str = ""

    @property
    def has_ended(self) -> bool:
        """The command is gone; what it started is not yet."""
        return self.pid > 0 and not _lives(self.pid)

    def __str__(self) -> str:
        if not self.pid:
            return "it has not said which yet"
        try:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        except (OverflowError, ValueError, OSError):
            since = "?"
        ended = "; that was killed, and a process it started still runs" if self.has_ended else ""
        return f"pid {self.pid}, since {since}: {clean(self.command, _COMMAND)}{ended}"


class Owned(RecordError):
    """Another command works in the folder."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        super().__init__(
            f"{folder}: another command works there ({owner}); wait for it, or end it with Ctrl-C"
        )
        self.owner = owner


class Ownership:
    """A folder that is this command's until `close`, and no other's. The lock lies beside the
    folder, which may move.

    A child process that is given `fd` keeps it as well, so that what outlives its command is not
    taken for gone."""

    def __init__(self, folder: Path) -> None:
        """Make `folder` ours. Nothing in it is touched. Waits, bounded, for what is left of a
        command that was killed.

        Raises Owned, which says who has it, and RecordError where no lock can be had.
        """
        self._path = _lock_path(folder)
        try:
            make_folder(self._path.parent)
            self.fd = _taken(self._path)
            deadline = time.monotonic() + _ENDING_SECONDS
            while (
                self.fd < 0
                and _recorded_owner(self._path).has_ended
                and time.monotonic() < deadline
            ):
                time.sleep(0.1)
                self.fd = _taken(self._path)
        except OSError as error:
            raise RecordError(
                f"{self._path}: no lock can be had there ({error.strerror}); choose another "
                "output folder"
            ) from None
        if self.fd < 0:
            raise Owned(folder, _recorded_owner(self._path))
        with contextlib.suppress(OSError):  # a full disk costs the words, not the lock
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, msgspec.json.encode(Owner(os.getpid(), time.time(), _command())), 0)

    def close(self) -> None:
        """Give it up, once no process that was given `fd` works there any more. Idempotent."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_owned(folder: Path) -> bool:
    """Whether a command works in `folder` at this moment."""
    try:
        fd = os.open(_lock_path(folder), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _locks(fd, fcntl.LOCK_SH)
    except OSError:
        return False
    finally:
        os.close(fd)


def _lock_path(folder: Path) -> Path:
    place = folder.absolute()
    return place.with_name(f".{place.name}.lock")


def _taken(path: Path) -> int:
    """The descriptor of the lock that is ours now; -1 where it is another's."""
    while True:
        fd = os.open(path, _OPEN | os.O_CREAT, 0o600)
        try:
            if not _locks(fd, fcntl.LOCK_EX):
                # Somebody who only asks holds it for a moment, and shares it; an owner does not.
                if not _locks(fd, fcntl.LOCK_SH):
                    os.close(fd)
                    return -1
                time.sleep(_MOMENT)
            elif os.fstat(fd).st_ino == path.stat().st_ino:
                return fd
        except FileNotFoundError:
            pass  # Its owner gave it up, and removed it, between its opening and its lock.
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _locks(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _recorded_owner(path: Path) -> Owner:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            return msgspec.json.decode(file.read(_MOST), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return Owner()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _command() -> str:
    """The words of this process; of an address only its key, since it may hold a password."""
    words = [word.partition("=")[0] + "=..." if "://" in word else word for word in sys.argv[1:]]
    name = Path(sys.argv[0]).name if sys.argv else ""
    return NO_SECRETS.text(shlex.join(["evopolicy" if name == "main.py" else name, *words]))[
        :_COMMAND
    ]
