"""Moves the open gripper to a place above the block and waits there."""

import numpy as np

GAIN, HEIGHT = 5.0, 0.1


class PickAndPlacePolicy:
    def act(self, observation):
        seen = observation["observation"]
        gripper, block, offset = seen[:3], seen[3:6], seen[6:9]
        way = offset + [0, 0, HEIGHT]
        return np.append(np.clip(GAIN * way, -1, 1), 1.0)


def make_policy(context):
    return PickAndPlacePolicy()
