"""Asks which pages of a file others have read, and has them forgotten."""

import ctypes
import mmap
import os


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    size = ctypes.c_size_t(mmap.PAGESIZE)
    with open(os.__file__, "rb") as file:
        place = libc.mmap(None, size, 1, 2, file.fileno(), ctypes.c_long(0))
        if libc.posix_fadvise(file.fileno(), 0, 0, 4) == 0:
            print("ESCAPED: fadvise")
        room = (ctypes.c_size_t * 2)(place, mmap.PAGESIZE)
        if libc.preadv2(file.fileno(), room, 1, ctypes.c_long(0), 8) >= 0 or ctypes.get_errno() == 11:
            print("ESCAPED: preadv2 that does not wait")
        if libc.syscall(451, file.fileno(), (ctypes.c_uint64 * 2)(0, 0), ctypes.create_string_buffer(64), 0) == 0:
            print("ESCAPED: cachestat")
    if libc.mincore(ctypes.c_void_p(place), size, ctypes.create_string_buffer(8)) == 0:
        print("ESCAPED: mincore")
    for advice in (3, 12, 20, 21, 22, 25):
        if libc.madvise(ctypes.c_void_p(place), size, advice) == 0:
            print("ESCAPED: madvise", advice)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
