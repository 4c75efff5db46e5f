"""Asks for more speed at every step, whoever is in the way."""

LEFT, KEEP, RIGHT, FASTER, SLOWER = range(5)


class RoundaboutPolicy:
    def act(self, observation):
        car, *others = observation
        return FASTER


def make_policy(context):
    return RoundaboutPolicy()
