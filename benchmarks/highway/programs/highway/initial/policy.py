"""Asks for more speed at every step and stays on its lane."""

LEFT, KEEP, RIGHT, FASTER, SLOWER = range(5)


class HighwayPolicy:
    def act(self, observation):
        car, *others = observation
        return FASTER


def make_policy(context):
    return HighwayPolicy()
