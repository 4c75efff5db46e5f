"""Sleeps in every call for less than a stall, but in all calls together for longer than any Episode has."""

import time


class Policy:
    def act(self, observation):
        time.sleep(3.5)
        return 0


def make_policy(context):
    return Policy()
