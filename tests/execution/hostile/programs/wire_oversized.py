"""Announces a frame of four gigabytes."""

import os


def attack():
    os.write(3, b"\xff" * 9)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
