"""Leaves a process behind that outlives the Episode."""

import os
import time


def attack():
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(3600)
            os._exit(0)
    except OSError:
        return
    print("ESCAPED: a daemon")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
