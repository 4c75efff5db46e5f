"""Answers with an object whose `__array__` raises."""


class Raises:
    def __array__(self, dtype=None, copy=None):
        raise KeyboardInterrupt


def answer():
    return Raises()


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
