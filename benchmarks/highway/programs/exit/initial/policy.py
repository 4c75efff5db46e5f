"""Keeps its lane, and slows down for a car close ahead on it."""

LEFT, KEEP, RIGHT, FASTER, SLOWER = range(5)


class ExitPolicy:
    def act(self, observation):
        car, *others = observation
        for present, x, y, *_ in others:
            if present and abs(24 * y) < 2 and 0 < 200 * x < 30:
                return SLOWER
        return KEEP


def make_policy(context):
    return ExitPolicy()
