"""Ends its process."""

import os


def attack():
    os._exit(3)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
