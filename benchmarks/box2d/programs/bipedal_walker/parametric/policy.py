"""Both legs swing in opposite rhythm around standing; rhythm, swings and gains are in params.json."""

import json
from pathlib import Path

import numpy as np

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
DT = 0.02


class Gait:
    def __init__(self):
        self.step = 0

    def act(self, observation):
        hull_angle, hull_angular_velocity = observation[0], observation[1]
        angles, speeds = observation[[4, 6, 9, 11]], observation[[5, 7, 10, 12]]
        phase = 2 * np.pi * 2.0 ** PARAMS["frequency"] * self.step * DT
        self.step += 1
        phases = phase + np.array([0.0, np.pi * PARAMS["lag"], np.pi, np.pi * (1 + PARAMS["lag"])])
        middle = np.array([PARAMS["hip"], 0.6 + PARAMS["knee"]] * 2)
        swing = np.array([PARAMS["hip_swing"], PARAMS["knee_swing"]] * 2)
        level = PARAMS["level"] * (hull_angle + hull_angular_velocity)
        wanted = middle + swing * np.sin(phases)
        torque = 2.0 ** PARAMS["stiffness"] * (wanted - angles) - 0.2 * speeds + np.array([level, 0.0] * 2)
        return np.clip(torque, -1.0, 1.0)


def make_policy(context):
    return Gait()
