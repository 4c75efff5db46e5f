"""Prints without end in sight."""

import os


def attack():
    for _ in range(400):
        os.write(1, b"y" * (1 << 17))


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
