"""Straight to the goal."""

import numpy as np


class Reach:
    def act(self, observation):
        way = observation["desired_goal"] - observation["achieved_goal"]
        return np.append(np.clip(20 * way, -1, 1), 0.0).astype(np.float32)


def make_policy(_context):
    return Reach()
