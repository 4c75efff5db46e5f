"""Writes a file larger than its scratch folder may be."""


def attack():
    with open("large", "wb") as file:
        while True:
            file.write(b"x" * (1 << 20))


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
