"""Keeps the arm at rest: a damper on every joint."""

import numpy as np

DAMPING = 0.2


class PusherPolicy:
    def act(self, observation):
        angles, velocities = observation[:7], observation[7:14]
        tip, cylinder, goal = observation[14:17], observation[17:20], observation[20:23]
        return np.clip(-DAMPING * velocities, -2.0, 2.0)


def make_policy(context):
    return PusherPolicy()
