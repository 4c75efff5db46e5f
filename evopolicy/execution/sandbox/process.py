"""What a process asks of the kernel for itself: die with its parent, give up privileges, limits,
one thread."""

from __future__ import annotations

import _thread
import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from evopolicy.execution.sandbox.syscalls import NUMBERS

_PDEATHSIG, _DUMPABLE, _NO_NEW_PRIVILEGES, _SUBREAPER = 1, 4, 38, 36
_CAPABILITY_VERSION = 0x20080522
_NO_RANDOM_ADDRESSES = 0x0040000

ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ),
    "1",
)
"""Numerical libraries read these when they are loaded: workers and Policies share the cores by
processes."""


_LIBC = ctypes.CDLL(None, use_errno=True)


_MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 2, 4, 32


def bound_files(folder: str, size: int, names: int) -> None:
    """Bound the file system in memory that is mounted at `folder` to `size` bytes and `names`
    names. Raises OSError."""
    options = f"size={size},nr_inodes={names}".encode()
    if _LIBC.mount(None, folder.encode(), None, _MS_REMOUNT | _MS_NOSUID | _MS_NODEV, options) != 0:
        raise OSError(ctypes.get_errno(), f"{folder}: the kernel refuses to bound its names")


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} refused")


def die_with_parent(parent: int) -> None:
    """Be killed when the thread that started this process ends; end now where `parent` is gone
    already (0: unknown)."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(0)


def signal_with_parent(parent: int, number: signal.Signals) -> None:
    """Be sent `number` when the thread that started this process ends; at once where `parent` is
    gone already."""
    _prctl(_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def adopt_orphans(wanted: bool = True) -> None:
    """Become, or no longer be, the parent of every descendant whose own parent ends."""
    _prctl(_SUBREAPER, int(wanted))


def leave_no_core() -> None:
    """Write no core when this process crashes, whatever handler the machine has; nobody of its user
    may trace it."""
    _prctl(_DUMPABLE, 0)


_FORK_SECONDS = 60.0
_FORK = ctypes.PyDLL(None).fork
REFUSED = (
    "the kernel refuses new processes: raise the limit on them (`ulimit -u`, pids.max of "
    "the container or cgroup)"
)


def plain_fork() -> int:
    """`fork` of the C library alone, where this process has one thread: 0 in the new process.

    What Python does after a fork puts right what other threads left behind. Where there are none it
    is left out: it touches so many pages (each one copied then) that it would double what a fork
    costs. Where there are some it is needed: one that was waiting for the interpreter's lock would
    be waited for in the new process for ever. Raises BlockingIOError where the kernel refuses a new
    process, for now."""
    try:
        pid = os.fork() if _thread._count() else int(_FORK())
    except OSError as error:
        raise BlockingIOError(error.errno, REFUSED) from None
    if pid < 0:
        raise BlockingIOError(errno.EAGAIN, REFUSED)
    return pid


def patient_fork() -> int:
    """`plain_fork`, tried again while the kernel refuses: whoever has taken all there may be will
    be ended.

    Raises BlockingIOError where it still does after that.
    """
    until = time.monotonic() + _FORK_SECONDS
    while True:
        try:
            return plain_fork()
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        time.sleep(0.05)


def give_up_privileges() -> None:
    """No new privileges by any exec; every capability dropped, so that root is a user like
    others."""
    _prctl(_NO_NEW_PRIVILEGES, 1)
    if os.geteuid() == 0 and platform.machine() in NUMBERS:
        header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
        if _LIBC.syscall(NUMBERS[platform.machine()]["capset"], header, bytes(24)) != 0:
            raise OSError(ctypes.get_errno(), "capset refused to drop the capabilities")


def fix_addresses() -> int:
    """Have programs this process executes from now on loaded at the same addresses; returns the
    personality before.

    Objects without a hash of their own are ordered by address in sets: the same Program then walks
    them the same way."""
    before = int(_LIBC.personality(0xFFFFFFFF))
    if before >= 0:
        _LIBC.personality(before | _NO_RANDOM_ADDRESSES)
    return before


def restore_addresses(before: int) -> None:
    """Take back `fix_addresses`."""
    if before >= 0:
        _LIBC.personality(before)


def virtual_bytes() -> int:
    """Address space of this process now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return tried_virtual_bytes()


_TRIED = 1 << 37
_MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NORESERVE = 2, 0x20, 0x4000
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def tried_virtual_bytes() -> int:
    """The same where there is no `/proc`: a limit, less the most that can still be mapped under it.
    To the page.

    What is mapped for this cannot be touched, so that it takes no memory.
    """
    page = resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit(resource.RLIMIT_AS, _TRIED, before[1])
    ceiling, _ = resource.getrlimit(resource.RLIMIT_AS)
    fits, too_much = 0, ceiling // page + 1
    try:
        while too_much - fits > 1:
            pages = (fits + too_much) // 2
            place = _LIBC.mmap(
                None, pages * page, 0, _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE, -1, 0
            )
            if place == ctypes.c_void_p(-1).value:
                too_much = pages
            else:
                fits = pages
                _LIBC.munmap(place, pages * page)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    return (ceiling // page - fits) * page


def limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Lower one resource limit; never above the hard limit that already holds."""
    _, ceiling = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))
