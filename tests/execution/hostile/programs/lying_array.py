"""Answers with an object whose `__array__` lies."""

import numpy as np


class Liar:
    def __array__(self, dtype=None, copy=None):
        array = np.empty(1, object)
        array[0] = self
        return array


def answer():
    return Liar()


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
