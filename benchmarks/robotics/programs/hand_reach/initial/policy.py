"""Holds every joint in the middle of its reach."""

import numpy as np


class HandPolicy:
    def __init__(self, context):
        self.size = context.action_space.shape

    def act(self, observation):
        angles, tips = observation["observation"][:24], observation["achieved_goal"]
        return np.zeros(self.size)


def make_policy(context):
    return HandPolicy(context)
