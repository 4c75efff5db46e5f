"""Keeps lane and speed, whatever comes."""

LEFT, KEEP, RIGHT, FASTER, SLOWER = range(5)


class UTurnPolicy:
    def act(self, observation):
        ahead = observation[1][1]
        return KEEP


def make_policy(context):
    return UTurnPolicy()
