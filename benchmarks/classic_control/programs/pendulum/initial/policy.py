"""Turns the rod towards upright with a torque in proportion to its angle, and does nothing else."""

import math


class PendulumPolicy:
    def act(self, observation):
        cos_theta, sin_theta, angular_velocity = observation
        theta = math.atan2(sin_theta, cos_theta)
        return [max(-2.0, min(2.0, -theta))]


def make_policy(context):
    return PendulumPolicy()
