"""Pushes by the sign of a weighted sum of the observation; the weights are in params.json."""

import json
from pathlib import Path

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
# One weight of 1 counts a usual value of its field as 1.
SCALES = {"cart_position": 1.0, "cart_velocity": 1.0, "pole_angle": 0.2, "pole_angular_velocity": 1.0}


class Linear:
    def __init__(self):
        self.weights = [PARAMS[name] / scale for name, scale in SCALES.items()]

    def act(self, observation):
        return int(sum(w * float(x) for w, x in zip(self.weights, observation)) > 0)


def make_policy(context):
    return Linear()
