"""Answers with an Action of another shape."""

import numpy as np


def answer():
    return np.ones((2, 2), np.int64)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
