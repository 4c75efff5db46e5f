"""Answers with an enormous Action."""

import numpy as np


def answer():
    return np.zeros(40_000_000, np.int8)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
