"""Comes down on the block, shuts the fingers, carries it; distances (0.1 m) and gains are in params.json."""

import json
from pathlib import Path

import numpy as np

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


class Carry:
    def act(self, observation):
        offset = observation["observation"][6:9]
        beside = np.linalg.norm(offset[:2])
        if np.linalg.norm(offset) < 0.1 * PARAMS["near"]:
            way = observation["desired_goal"] - observation["achieved_goal"]
            return np.clip([*(20 * PARAMS["carry"] * way), -5 * PARAMS["shut"]], -1, 1)
        above = 0.1 * PARAMS["height"] if beside > 0.1 * PARAMS["near"] else 0.0
        return np.clip([*(20 * PARAMS["descend"] * (offset + [0, 0, above])), 1.0], -1, 1)


def make_policy(context):
    return Carry()
