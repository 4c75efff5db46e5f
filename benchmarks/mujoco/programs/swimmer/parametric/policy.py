"""Both joints swing in a rhythm, one behind the other, around a straight course; gains are in params.json."""

import json
from pathlib import Path

import numpy as np

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
DT = 0.04


class Wave:
    def __init__(self):
        self.step = 0

    def act(self, observation):
        front_angle = observation[0]
        phase = 2 * np.pi * 0.5 * 2.0 ** PARAMS["frequency"] * self.step * DT
        self.step += 1
        wave = np.sin(phase - np.pi * np.array([0.0, PARAMS["lag"]]))
        return np.clip(PARAMS["drive"] * wave + PARAMS["steer"] * front_angle, -1.0, 1.0)


def make_policy(context):
    return Wave()
