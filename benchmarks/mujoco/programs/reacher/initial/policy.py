"""Turns the first link towards the target and leaves the second alone."""

import math

import numpy as np


class ReacherPolicy:
    def act(self, observation):
        cos_first, cos_second, sin_first, sin_second = observation[:4]
        target_x, target_y = observation[4:6]
        first_velocity, second_velocity = observation[6:8]
        error = math.atan2(target_y, target_x) - math.atan2(sin_first, cos_first)
        error = math.remainder(error, 2 * math.pi)
        return np.clip([0.02 * error - 0.01 * first_velocity, 0.0], -1.0, 1.0)


def make_policy(context):
    return ReacherPolicy()
