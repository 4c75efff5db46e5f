"""Both legs swing in a rhythm, the lower parts behind the upper; rhythm and gains are in params.json."""

import json
from pathlib import Path

import numpy as np

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
DT = 0.05


class Gait:
    def __init__(self):
        self.step = 0

    def act(self, observation):
        torso_angle, torso_angular_velocity = observation[1], observation[10]
        phase = 2 * np.pi * 2.0 * 2.0 ** PARAMS["frequency"] * self.step * DT
        self.step += 1
        lags = np.array([0.0, PARAMS["lag_shin"], PARAMS["lag_foot"]])
        back = PARAMS["back"] * np.sin(phase - np.pi * lags)
        front = PARAMS["front"] * np.sin(phase - np.pi * (lags + PARAMS["lag_front"]))
        level = PARAMS["level"] * (torso_angle + 0.1 * torso_angular_velocity)
        return np.clip(np.concatenate([back - level, front + level]), -1.0, 1.0)


def make_policy(context):
    return Gait()
