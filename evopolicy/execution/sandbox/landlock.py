"""Landlock by ctypes: which files a process may touch, from ABI 1 (kernel 5.13), newer rights where
there are some.

Rights are granted beneath paths, never taken away beneath a granted one. Domains add up: the
strictest wins."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from evopolicy.execution.sandbox.syscalls import NUMBERS

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REMOVE_DIR, REMOVE_FILE = 16, 32
_MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, _MAKE_BLOCK, MAKE_SYM = (
    64,
    128,
    256,
    512,
    1024,
    2048,
    4096,
)
REFER, TRUNCATE, _IOCTL_DEV = 8192, 16384, 32768

READ = READ_FILE | READ_DIR
RUN = READ | EXECUTE
CHANGE = (
    READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER | TRUNCATE
)
"""All a scratch folder needs; no sockets, pipes or devices can be made in it."""

_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | _IOCTL_DEV
_PATH_BENEATH = 1
_NET_ALL = 3
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_NUMBERS = NUMBERS.get(platform.machine(), {})


def _call(name: str, *arguments: object) -> int:
    result = _syscall(_NUMBERS[name], *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return int(result)


def abi() -> int:
    """The kernel's Landlock version, 0 where it has none or it is switched off."""
    if not _NUMBERS:
        return 0
    try:
        return _call("landlock_create_ruleset", None, ctypes.c_size_t(0), 1)
    except OSError:
        return 0


def handled(version: int) -> int:
    """Every right on files that `version` of Landlock can refuse."""
    rights = (1 << 13) - 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, _IOCTL_DEV)):
        if version >= since:
            rights |= right
    return rights


class Ruleset:
    """Rules being gathered; `restrict` puts this process and its children under them for ever."""

    def __init__(self, version: int) -> None:
        """Handles everything `version` can refuse."""
        self.rights = handled(version)
        # Bits of the attribute by version: files, TCP ports (4), scopes (6). An older kernel
        # refuses a longer one.
        fields = [self.rights, _NET_ALL, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS]
        fields = fields[: 3 if version >= 6 else 2 if version >= 4 else 1]
        attribute = struct.pack(f"<{len(fields)}Q", *fields)
        self._fd = _call("landlock_create_ruleset", attribute, ctypes.c_size_t(len(attribute)), 0)

    def allow(self, path: Path | str, rights: int) -> None:
        """Grant `rights` beneath `path`; a path that does not exist grants nothing."""
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
                return
            raise
        try:
            self.allow_fd(fd, rights)
        finally:
            os.close(fd)

    def allow_fd(self, fd: int, rights: int) -> None:
        """Grant `rights` beneath an open path."""
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        _call(
            "landlock_add_rule",
            self._fd,
            _PATH_BENEATH,
            struct.pack("<Qi", rights & self.rights, fd),
            0,
        )

    def restrict(self) -> None:
        """Raises OSError where this process has not given up new privileges first."""
        _call("landlock_restrict_self", self._fd, 0)
        self.close()

    def close(self) -> None:
        """Let the rules go in this process; the ones they were applied to keep them."""
        os.close(self._fd)


def restrict(version: int, rules: Iterable[tuple[Path | str, int]]) -> None:
    """Put this process and its children under `rules` (path, rights) for ever."""
    ruleset = Ruleset(version)
    for path, rights in rules:
        ruleset.allow(path, rights)
    ruleset.restrict()
