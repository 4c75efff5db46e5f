"""A wanted angle and a wanted fall in proportion to place and speed; the weights are in params.json."""

import json
from pathlib import Path

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


class Linear:
    def act(self, observation):
        x, y, x_velocity, y_velocity, angle, angular_velocity, right_leg, left_leg = map(float, observation)
        turn = PARAMS["angle"] * angle + PARAMS["angular_velocity"] * angular_velocity
        turn += PARAMS["x"] * x + PARAMS["x_velocity"] * x_velocity
        lift = PARAMS["y"] * y + PARAMS["y_velocity"] * y_velocity + 0.2 * PARAMS["offset"]
        if lift > abs(turn) and lift > 0.1:
            return 2
        if abs(turn) > 0.1:
            return 1 if turn > 0 else 3
        return 0


def make_policy(context):
    return Linear()
