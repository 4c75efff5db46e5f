"""Answers the question it was asked and the one after it, before that one is asked."""

import os
import struct

FIRST_ACT = 4  # After those to import the Program, to make its Policy and to reset it.


def attack():
    os.write(3, b"".join(struct.pack("<IIB", 1, FIRST_ACT + ahead, 18) + b"\x01" for ahead in range(2)))


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
