"""Writes bytes that are no frame to the wire."""

import os


def attack():
    os.write(3, bytes(range(200)))


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
