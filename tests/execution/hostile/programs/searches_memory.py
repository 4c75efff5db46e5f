"""Looks through its own memory, which it was born with, for the names of other Episodes' scratch folders."""

import ctypes
import os
import re

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.sbrk.restype = ctypes.c_void_p
_PIECE = 1 << 12
_AROUND = 24 << 20


def attack():
    above, own = os.path.split(os.getcwd())
    name = re.compile(re.escape(os.path.dirname(above).encode()) + rb"/[0-9]+/([0-9a-f]{16})")
    found = {match[1] for memory in pieces() for match in name.finditer(memory)}
    if own.encode() not in found:
        print("ESCAPED: the search finds nothing, not even its own folder")
    for other in found - {own.encode()}:
        print("ESCAPED: found the folder of another", other)


def pieces():
    """All memory below the heap's end and around an object; the kernel says what is there without a crash."""
    file = os.open("found", os.O_CREAT | os.O_RDWR)
    buffer = bytearray(_PIECE)
    for middle in (_LIBC.sbrk(0) - _AROUND, id(buffer)):
        start = (middle - _AROUND) // _PIECE * _PIECE
        for address in range(start, start + 2 * _AROUND, _PIECE):
            if _LIBC.pwrite(file, ctypes.c_void_p(address), ctypes.c_size_t(_PIECE), ctypes.c_long(0)) > 0:
                yield os.pread(file, _PIECE, 0)


def make_policy(context):
    return Hostile()


class Hostile:
    begun = False

    def act(self, observation):
        if not self.begun:
            self.begun = True
            attack()
        return 1
