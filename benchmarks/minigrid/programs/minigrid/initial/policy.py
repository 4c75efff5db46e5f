"""Walks straight on and turns at random; tries at random what can be done with the thing in front."""

import random

TURN_LEFT, TURN_RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
DOOR, KEY, BALL, BOX = 4, 5, 6, 7
EMPTY, FLOOR, GOAL = 1, 3, 8


class Wanderer:
    def __init__(self, seed, actions):
        self.random = random.Random(seed)
        self.actions = actions

    def act(self, observation):
        action = self.choose(observation["image"])
        return action if action < self.actions else TURN_LEFT

    def choose(self, image):
        size = len(image)
        kind, _, state = image[size // 2, size - 2]
        if kind in (KEY, BALL, BOX) or (kind == DOOR and state != 0):
            return self.random.choice((TURN_LEFT, TURN_RIGHT, PICKUP, TOGGLE))
        if kind == EMPTY and self.random.random() < 0.02:
            return DROP
        if kind in (EMPTY, FLOOR, GOAL, DOOR) and self.random.random() < 0.9:
            return FORWARD
        return self.random.choice((TURN_LEFT, TURN_RIGHT))


def make_policy(context):
    return Wanderer(context.seed, context.action_space.n)
