"""Uses most of the time of each call, and so more than the Episode's."""

import time


def attack():
    end = time.process_time() + 0.35
    while time.process_time() < end:
        pass


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
