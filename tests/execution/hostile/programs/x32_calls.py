"""Calls the kernel by its other tables."""

import ctypes
import platform


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    if platform.machine() == "x86_64" and libc.syscall(0x40000000 + 41, 1, 1, 0) >= 0:
        print("ESCAPED: x32 socket")
    if libc.syscall(435, ctypes.create_string_buffer(88), 88) >= 0:
        print("ESCAPED: clone3")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
