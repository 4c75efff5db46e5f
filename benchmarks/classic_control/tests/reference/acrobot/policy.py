"""Pumps energy: the motor always works in the direction in which the outer link swings relative to
the inner."""


class Pump:
    def act(self, observation):
        return 2 if observation[5] > 0 else 0


def make_policy(_):
    return Pump()
