"""Answers with an integer that lies about itself."""


class Liar(int):
    def __int__(self):
        return 7

    __index__ = __int__

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def answer():
    return Liar(1)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
