"""A force in proportion to velocity and place; the weights are in params.json."""

import json
from pathlib import Path

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


class Linear:
    def act(self, observation):
        position, velocity = (float(x) for x in observation)
        force = PARAMS["velocity"] * velocity / 0.02 + PARAMS["position"] * (position + 0.5) + 0.2 * PARAMS["offset"]
        return [max(-1.0, min(1.0, force))]


def make_policy(context):
    return Linear()
