"""Walks straight on and turns at random; picks up a key and toggles a door that happen to be in front."""

import random

TURN_LEFT, TURN_RIGHT, FORWARD, PICKUP, TOGGLE = 0, 1, 2, 3, 5
DOOR, KEY = 4, 5
EMPTY, GOAL = 1, 8


class Wanderer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def act(self, observation):
        kind, _, state = observation["image"][3, 5]
        if kind == KEY:
            return PICKUP
        if kind == DOOR and state != 0:
            return self.random.choice((TOGGLE, TURN_LEFT, TURN_RIGHT))
        if kind in (EMPTY, GOAL, DOOR) and self.random.random() < 0.9:
            return FORWARD
        return self.random.choice((TURN_LEFT, TURN_RIGHT))


def make_policy(context):
    return Wanderer(context.seed)
