"""Pushes the cart in proportion to the lower pole's lean."""

import numpy as np


class InvertedDoublePendulumPolicy:
    def act(self, observation):
        cart_position, sin_lower, sin_upper, cos_lower, cos_upper = observation[:5]
        cart_velocity, lower_velocity, upper_velocity, rail_force = observation[5:]
        return np.clip([0.5 * sin_lower], -1.0, 1.0)


def make_policy(context):
    return InvertedDoublePendulumPolicy()
