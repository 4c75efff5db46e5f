"""Answers with a number of a type that cannot be an Action's."""

import numpy as np


def answer():
    return np.array(1, "complex128")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
