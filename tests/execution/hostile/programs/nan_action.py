"""Answers with what is no number."""


def answer():
    return float("nan")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
