"""Waits for others, and wakes them, on a page of a file that every sandbox can read."""

import ctypes
import mmap
import os
import platform

WAIT, WAKE, REQUEUE, WAIT_BITSET, WAKE_BITSET, REALTIME = 0, 1, 3, 9, 10, 256
FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    with open(os.__file__, "rb") as file:
        place = libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), 1, 2, file.fileno(), ctypes.c_long(0))
    word = ctypes.c_int.from_address(place).value
    soon = (ctypes.c_long * 2)(0, 20_000_000)
    everybody = 2**31 - 1
    for operation in (WAIT, WAIT_BITSET, WAIT | REALTIME):
        ended = libc.syscall(FUTEX, ctypes.c_void_p(place), operation, word, soon, None, -1)
        if ended == 0 or ctypes.get_errno() == 110:
            print("ESCAPED: it waited for others by operation", operation)
    for operation in (WAKE, WAKE_BITSET, REQUEUE):
        if libc.syscall(FUTEX, ctypes.c_void_p(place), operation, everybody, None, None, -1) > 0:
            print("ESCAPED: it woke others by operation", operation)
    waiter = (ctypes.c_uint64 * 3)(word & 0xFFFFFFFF, place, 2)
    if libc.syscall(449, waiter, 1, 0, soon, 1) >= 0 or ctypes.get_errno() == 110:
        print("ESCAPED: it waited for others by futex_waitv")
    if libc.syscall(455, ctypes.c_void_p(place), ctypes.c_long(word), -1, 2, soon, 1) >= 0 or ctypes.get_errno() == 110:
        print("ESCAPED: it waited for others by futex_wait")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
