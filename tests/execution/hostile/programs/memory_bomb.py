"""Keeps what it allocates."""

kept = []


def attack():
    while True:
        kept.append(b"x" * (1 << 20))


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
