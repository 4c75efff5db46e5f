"""Closes the wire and goes on."""

import os
import time


def attack():
    os.close(3)
    time.sleep(3600)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
