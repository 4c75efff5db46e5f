"""Pulls the fingertip to the target like a spring, against a damper; the gains are in params.json."""

import json
from pathlib import Path

import numpy as np

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
FIRST, SECOND = 0.1, 0.11


class Spring:
    def act(self, observation):
        cos1, cos2, sin1, sin2 = observation[:4]
        velocities, offset = observation[6:8], observation[8:10]
        cos12, sin12 = cos1 * cos2 - sin1 * sin2, sin1 * cos2 + cos1 * sin2
        reach = np.array(
            [
                [-FIRST * sin1 - SECOND * sin12, FIRST * cos1 + SECOND * cos12],
                [-SECOND * sin12, SECOND * cos12],
            ]
        )
        spring = np.array([PARAMS["pull_first"], PARAMS["pull_second"]]) * (reach @ -offset)
        damper = np.array([PARAMS["damping_first"], PARAMS["damping_second"]]) * velocities
        return np.clip(2.0 * spring - 0.05 * damper, -1.0, 1.0)


def make_policy(context):
    return Spring()
