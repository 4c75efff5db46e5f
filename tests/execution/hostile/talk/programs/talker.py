"""One end of a talk over futexes on a page of a file all sandboxes see. A Policy's Program and an
agent's script alike.

`attack(role)`: "wait" waits to be woken; "wake" wakes by the call for it, and by threads whose end
the kernel announces there. Prints ESCAPED where anything came across."""

import ctypes
import mmap
import os
import platform
import time
from errno import ETIMEDOUT
from pathlib import Path

WAIT, WAKE = 0, 1
FUTEX, PAGE = {"x86_64": 202, "aarch64": 98}[platform.machine()], mmap.PAGESIZE
SECONDS = 2.5
"""Long enough for a sandbox that is started at the same time to be there too."""
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
# All a C library asks for, and no less: a thread, and a word that is cleared and woken at its end.
THREAD = 0x003D0F00


def attack(role):
    with Path(os.__file__).open("rb") as file:
        place = libc.mmap(None, ctypes.c_size_t(PAGE), 1, 2, file.fileno(), ctypes.c_long(0))
    heard, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        heard += waited(place) if role == "wait" else woke(place)
    print("ESCAPED: it heard" if heard else "nothing", heard, flush=True)


def waited(place):
    word, soon = ctypes.c_int.from_address(place).value, (ctypes.c_long * 2)(0, 30_000_000)
    ended = libc.syscall(FUTEX, ctypes.c_void_p(place), WAIT, word, soon, None, 0)
    if ended != 0 and ctypes.get_errno() != ETIMEDOUT:
        libc.usleep(1_000)
    return ended == 0


def woke(place):
    ended_there(place)
    libc.usleep(10_000)
    return libc.syscall(FUTEX, ctypes.c_void_p(place), WAKE, 1, None, None, 0) > 0


def ended_there(place):
    """Start a thread that ends at once; the kernel says so at `place`."""
    stack, own = ctypes.create_string_buffer(1 << 16), ctypes.create_string_buffer(4096)
    top = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 16) - 256 & ~15)
    thread = ctypes.c_void_p(ctypes.addressof(own) + 2048 & ~63)
    word = ctypes.c_int()
    begun = ctypes.cast(libc.getppid, ctypes.c_void_p)
    libc.clone(begun, top, THREAD, None, ctypes.byref(word), thread, ctypes.c_void_p(place))
    libc.usleep(3_000)  # its stack is let go of below
    KEPT.append((stack, own))


KEPT = []
