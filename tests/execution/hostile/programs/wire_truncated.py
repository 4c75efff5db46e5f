"""Writes half a frame and answers behind it."""

import os


def attack():
    os.write(3, b"\x40\x00\x00")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
