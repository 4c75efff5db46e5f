"""Opens files until there can be no more."""

kept = []


def attack():
    for _ in range(100_000):
        kept.append(open(__file__))


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
