"""Sends descriptors over the wire."""

import ctypes


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sendmsg(3, ctypes.create_string_buffer(56), 0) >= 0:
        print("ESCAPED: sendmsg")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
