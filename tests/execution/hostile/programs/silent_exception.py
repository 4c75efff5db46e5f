"""Raises an exception whose text cannot be made."""


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def attack():
    raise Silent


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
