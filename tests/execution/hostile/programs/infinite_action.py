"""Answers with infinity."""


def answer():
    return float("inf")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
