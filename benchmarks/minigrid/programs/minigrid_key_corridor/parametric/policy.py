"""A wanderer of numbers: what draws it to the left, to the right and ahead, and how eagerly it handles things.

`params.json` has the numbers: the pull of each kind of cell in view, the inertia, the noise, and for the thing in front
how likely it is to be picked up or toggled.
"""

import json
import math
import random
from pathlib import Path

import numpy as np

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
EMPTY, DOOR, KEY, BALL, BOX, GOAL = 1, 4, 5, 6, 7, 8
PARAMETERS = json.loads((Path(__file__).parent / "params.json").read_text())
PULLS = {
    EMPTY: PARAMETERS["pull_empty"],
    DOOR: PARAMETERS["pull_door"],
    KEY: PARAMETERS["pull_key"],
    BALL: PARAMETERS["pull_ball"],
    BOX: PARAMETERS["pull_box"],
    GOAL: PARAMETERS["pull_goal"],
}


class Wanderer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def act(self, observation):
        image = observation["image"]
        kind, _, state = (int(part) for part in image[3, 5])
        carries = int(image[3, 6, 0]) in (KEY, BALL, BOX)
        if kind in (KEY, BALL, BOX) and not carries and self.chance(2 * PARAMETERS["pick_up"]):
            return PICKUP
        if (kind == BOX or (kind == DOOR and state != 0)) and self.chance(2 * PARAMETERS["toggle"]):
            return TOGGLE
        if kind == EMPTY and carries and self.chance(2 * PARAMETERS["drop"]):
            return DROP
        ahead = PARAMETERS["inertia"] if kind in (EMPTY, GOAL) or (kind == DOOR and state == 0) else -100.0
        pulls = [self.pull(image, slice(0, 3)), self.pull(image, slice(4, 7)), ahead + self.pull(image, slice(3, 4))]
        noise = math.exp(PARAMETERS["noise"])
        return int(np.argmax([pull + noise * self.random.gauss(0, 1) for pull in pulls]))

    def chance(self, logit):
        return self.random.random() < 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))

    def pull(self, image, columns):
        kinds = image[columns, :, 0]
        return sum(pull * float((kinds == kind).sum()) ** 0.5 for kind, pull in PULLS.items())


def make_policy(context):
    return Wanderer(context.seed)
