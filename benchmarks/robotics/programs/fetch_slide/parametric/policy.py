"""Goes behind the puck, seen from the goal, and pushes; distances (0.1 m) and gains are in params.json."""

import json
from pathlib import Path

import numpy as np

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
HEIGHT = 0.42


class Push:
    def act(self, observation):
        seen = observation["observation"]
        gripper, puck = seen[:3], seen[3:6]
        to_goal = (observation["desired_goal"] - puck)[:2]
        distance = np.linalg.norm(to_goal) + 1e-6
        along = to_goal / distance
        across = np.array([-along[1], along[0]])
        offset = (gripper - puck)[:2]
        lead, side = offset @ along, offset @ across
        if lead < 0 and abs(side) < 0.1 * PARAMS["line"]:
            move = PARAMS["push"] * np.tanh(distance / max(0.1 * PARAMS["brake"], 1e-3)) * along - PARAMS["side"] * 10 * side * across
        else:
            behind = puck[:2] - 0.2 * PARAMS["behind"] * along
            move = 20 * PARAMS["travel"] * (behind - gripper[:2])
        return np.clip([*move, 10 * (HEIGHT - gripper[2]), 0.0], -1, 1)


def make_policy(context):
    return Push()
