"""Holds every joint where it is when standing, by a weak spring and a damper; it does not try to move."""

import numpy as np

STIFFNESS, DAMPING = 0.2, 0.02


class HopperPolicy:
    def act(self, observation):
        # Thigh, leg, foot, as in the Action.
        angles, velocities = observation[2:5], observation[8:11]
        return np.clip(-STIFFNESS * angles - DAMPING * velocities, -1.0, 1.0)


def make_policy(context):
    return HopperPolicy()
