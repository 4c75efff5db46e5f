"""Sleeps through every deadline."""

import time


def attack():
    time.sleep(3600)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
