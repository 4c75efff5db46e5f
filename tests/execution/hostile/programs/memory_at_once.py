"""Asks for more memory than any machine has."""

import numpy as np


def attack():
    np.ones(1 << 45)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
