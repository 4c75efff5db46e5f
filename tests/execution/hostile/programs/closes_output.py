"""Closes its output and prints."""

import os
import sys


def attack():
    sys.stdout.close()
    os.closerange(1, 3)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
