"""Pumps energy: always pushes in the direction in which the car moves."""


class Pump:
    def act(self, observation):
        return 2 if observation[1] > 0 else 0


def make_policy(_):
    return Pump()
