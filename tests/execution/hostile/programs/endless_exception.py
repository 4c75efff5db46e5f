"""Raises an exception with an endless text and an endless chain."""


def attack():
    error = ValueError("x" * (1 << 24))
    for _ in range(300):
        after = ValueError("y" * 10_000)
        after.__cause__ = error
        error = after
    raise error


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
