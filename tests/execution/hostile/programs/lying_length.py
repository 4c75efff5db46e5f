"""Answers with a list that lies about its length and never ends."""


class Endless(list):
    def __len__(self):
        return 1

    def __iter__(self):
        while True:
            yield 1


def answer():
    return Endless()


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        return answer()
