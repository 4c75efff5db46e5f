"""Throttles in proportion to place, angle and speeds; the weights are in params.json."""

import json
from pathlib import Path

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


class Linear:
    def act(self, observation):
        x, y, x_velocity, y_velocity, angle, angular_velocity, right_leg, left_leg = map(float, observation)
        turn = PARAMS["angle"] * angle + PARAMS["angular_velocity"] * angular_velocity
        turn += PARAMS["x"] * x + PARAMS["x_velocity"] * x_velocity
        lift = PARAMS["y"] * y + PARAMS["y_velocity"] * y_velocity + 0.2 * PARAMS["offset"]
        return [max(-1.0, min(1.0, 5 * lift)), max(-1.0, min(1.0, -5 * turn))]


def make_policy(context):
    return Linear()
