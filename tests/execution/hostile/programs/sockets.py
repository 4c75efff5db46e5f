"""Opens sockets of every family, abstract ones too."""

import ctypes
import socket


def attack():
    for family in range(46):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                socket.socket(family, kind)
            except OSError:
                continue
            print("ESCAPED: socket of family", family)
    if ctypes.CDLL(None).socketpair(1, 1, 0, ctypes.create_string_buffer(8)) == 0:
        print("ESCAPED: socketpair")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
