"""Connects to an abstract socket of the Host, by every call that could."""

import ctypes
import os
import socket

with open(os.path.join(os.path.dirname(__file__), "listener.txt")) as file:
    LISTENER = file.read()


def attack():
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect("\0" + LISTENER)
        print("ESCAPED: connected")
    except OSError:
        pass
    libc = ctypes.CDLL(None, use_errno=True)
    address = b"\x01\x00\x00" + LISTENER.encode()
    for fd in range(3, 8):
        if libc.connect(fd, address, len(address)) == 0 or libc.bind(fd, address, len(address)) == 0:
            print("ESCAPED: connected by", fd)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
