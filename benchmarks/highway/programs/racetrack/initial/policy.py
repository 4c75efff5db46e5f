"""Steers a little towards the side on which more of the road lies ahead."""

import numpy as np


class RacetrackPolicy:
    def act(self, observation):
        presence, road = observation
        ahead = road[6:9]
        left, right = ahead[:, :6].sum(), ahead[:, 6:].sum()
        return np.array([0.02 * (right - left)], np.float32).clip(-1, 1)


def make_policy(context):
    return RacetrackPolicy()
