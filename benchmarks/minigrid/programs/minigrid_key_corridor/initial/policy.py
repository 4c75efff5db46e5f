"""Walks straight on and turns at random; takes what lies in front and toggles doors that happen to be there."""

import random

TURN_LEFT, TURN_RIGHT, FORWARD, PICKUP, TOGGLE = 0, 1, 2, 3, 5
DOOR, KEY, BALL = 4, 5, 6
EMPTY = 1


class Wanderer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def act(self, observation):
        kind, _, state = observation["image"][3, 5]
        if kind in (KEY, BALL):
            return PICKUP if self.random.random() < 0.5 else TURN_RIGHT
        if kind == DOOR and state != 0:
            return self.random.choice((TOGGLE, TURN_LEFT, TURN_RIGHT))
        if kind in (EMPTY, DOOR) and self.random.random() < 0.9:
            return FORWARD
        return self.random.choice((TURN_LEFT, TURN_RIGHT))


def make_policy(context):
    return Wanderer(context.seed)
