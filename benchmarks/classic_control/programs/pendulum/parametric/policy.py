"""Feeds energy to the swing away from upright and brakes it near upright; the gains are in params.json."""

import json
import math
from pathlib import Path

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


class SwingAndCatch:
    def act(self, observation):
        cos_theta, sin_theta, velocity = (float(x) for x in observation)
        theta = math.atan2(sin_theta, cos_theta)
        # Energy of the rod per unit of its inertia; 15 is what it has at rest upright.
        missing = 15.0 * (1.0 + PARAMS["energy"]) - (0.5 * velocity**2 + 15.0 * cos_theta)
        if abs(theta) < 0.5 + 0.2 * PARAMS["catch"]:
            torque = -10.0 * PARAMS["stiffness"] * theta - 2.0 * PARAMS["damping"] * velocity
        else:
            torque = 0.2 * PARAMS["pump"] * missing * velocity
        return [max(-2.0, min(2.0, torque))]


def make_policy(context):
    return SwingAndCatch()
