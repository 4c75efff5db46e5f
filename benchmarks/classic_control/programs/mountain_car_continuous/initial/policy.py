"""Pushes towards the flag with half the motor's force at every step."""


class MountainCarPolicy:
    def act(self, observation):
        position, velocity = observation
        return [0.5]


def make_policy(context):
    return MountainCarPolicy()
