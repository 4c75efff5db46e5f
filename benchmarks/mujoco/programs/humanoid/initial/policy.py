"""Holds every joint near where it is when standing, by a weak spring and a damper."""

import numpy as np

STIFFNESS, DAMPING = 0.2, 0.02
# The observation has the twist of the waist before its bend, the Action the bend first.
ORDER = [1, 0, *range(2, 17)]


class HumanoidPolicy:
    def act(self, observation):
        angles, velocities = observation[5:22], observation[28:45]
        torques = -STIFFNESS * angles - DAMPING * velocities
        return np.clip(torques[ORDER], -0.4, 0.4)


def make_policy(context):
    return HumanoidPolicy()
