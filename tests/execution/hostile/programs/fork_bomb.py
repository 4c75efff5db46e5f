"""Starts processes as fast as it can."""

import os


def attack():
    for _ in range(200):
        try:
            if os.fork() == 0:
                os._exit(0)
        except OSError:
            continue
        print("ESCAPED: a new process")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
