"""Stops its own process."""

import os
import signal


def attack():
    os.kill(os.getpid(), signal.SIGSTOP)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
