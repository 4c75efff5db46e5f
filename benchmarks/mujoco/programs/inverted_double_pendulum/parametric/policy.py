"""A force in proportion to a weighted sum of places and velocities; the weights are in params.json."""

import json
from pathlib import Path

import numpy as np

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


class Linear:
    def act(self, observation):
        cart_position, sin_lower, sin_upper, cos_lower, cos_upper = observation[:5]
        cart_velocity, lower_velocity, upper_velocity, rail_force = observation[5:]
        force = (
            0.3 * PARAMS["cart_position"] * cart_position
            + 0.3 * PARAMS["cart_velocity"] * cart_velocity
            + 3.0 * PARAMS["lower"] * np.arctan2(sin_lower, cos_lower)
            + 3.0 * PARAMS["upper"] * np.arctan2(sin_upper, cos_upper)
            + 0.5 * PARAMS["lower_velocity"] * lower_velocity
            + 0.5 * PARAMS["upper_velocity"] * upper_velocity
        )
        return np.clip([force], -1.0, 1.0)


def make_policy(context):
    return Linear()
