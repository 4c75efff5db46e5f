"""Walks straight on and turns right at walls; turns at random now and then."""

import random

TURN_LEFT, TURN_RIGHT, FORWARD = 0, 1, 2
EMPTY, GOAL = 1, 8


class Wanderer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def act(self, observation):
        ahead = int(observation["image"][3, 5, 0])
        if self.random.random() < 0.1:
            return self.random.choice((TURN_LEFT, TURN_RIGHT))
        return FORWARD if ahead in (EMPTY, GOAL) else TURN_RIGHT


def make_policy(context):
    return Wanderer(context.seed)
