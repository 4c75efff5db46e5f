"""Drives on at its speed, whoever has the right of way."""

SLOWER, KEEP, FASTER = range(3)


class IntersectionPolicy:
    def act(self, observation):
        car, *others = observation
        return KEEP


def make_policy(context):
    return IntersectionPolicy()
