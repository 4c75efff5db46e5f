"""A gallop: every joint follows a sine of its own around a middle of its own, and the thighs keep
the torso level."""

import numpy as np

FREQUENCY = 2.2 * 2.0**0.591  # Hz
# Of back thigh, shin, foot, front thigh, shin, foot: rad, turns of pi, rad.
SWING = np.array([2.586, -0.094, 0.999, 1.158, -0.543, 0.209])
LAG = np.array([0.458, 0.662, 0.219, 1.029, 0.466, 1.03])
MIDDLE = np.array([-0.097, -1.245, -1.862, -1.518, -1.062, -0.515])
STIFFNESS, DAMPING, LEVEL = 0.738, 0.0055, 0.251
THIGHS = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])


class Gallop:
    def __init__(self):
        self.step = 0

    def act(self, observation):
        angles, speeds, pitch = observation[2:8], observation[11:17], observation[1]
        phase = 2 * np.pi * FREQUENCY * self.step * 0.05
        self.step += 1
        wanted = SWING * np.sin(phase + np.pi * LAG) + MIDDLE
        torque = STIFFNESS * (wanted - angles) - DAMPING * speeds - LEVEL * pitch * THIGHS
        return np.clip(torque, -1.0, 1.0)


def make_policy(_):
    return Gallop()
