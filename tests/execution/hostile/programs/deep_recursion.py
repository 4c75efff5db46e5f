"""Recurses without end."""


def down(level):
    return down(level + 1)


def attack():
    down(0)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
