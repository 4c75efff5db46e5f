"""Puts another file in the place of the wire."""

import os


def attack():
    os.dup2(os.open("/dev/null", os.O_RDWR), 3)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
