"""Chooses the torque by a weighted sum of angles and velocities; the weights are in params.json."""

import json
import math
from pathlib import Path

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


class Linear:
    def act(self, observation):
        cos1, sin1, cos2, sin2, velocity1, velocity2 = (float(x) for x in observation)
        drive = (
            PARAMS["theta1"] * math.atan2(sin1, cos1)
            + PARAMS["theta2"] * math.atan2(sin2, cos2)
            + PARAMS["velocity1"] * velocity1
            + PARAMS["velocity2"] * velocity2
            + 0.1 * PARAMS["offset"]
        )
        return 2 if drive > 0 else 0


def make_policy(context):
    return Linear()
