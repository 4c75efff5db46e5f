"""Answers questions that were not asked."""

import os
import struct


def attack():
    for number in range(50):
        os.write(3, struct.pack("<IIB", 1, number, 18) + b"\x01")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
