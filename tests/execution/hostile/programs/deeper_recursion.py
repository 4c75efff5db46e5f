"""Recurses without end after lifting Python's limit."""

import sys


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x")


def attack():
    sys.setrecursionlimit(1 << 30)
    repr_of = []
    repr_of.append(repr_of)
    Deep().x


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
