"""Answers with a list that holds itself."""


def answer():
    found = []
    found.append(found)
    return found


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
