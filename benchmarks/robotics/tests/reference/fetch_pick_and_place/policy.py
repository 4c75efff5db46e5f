"""Comes down over the block with open fingers, shuts them, carries the block to the goal and holds
it there."""

import numpy as np

GAIN = 2.4
CARRY = 1.6


class PickAndPlace:
    def __init__(self):
        self.shut = 0

    def act(self, observation):
        seen = observation["observation"]
        offset, fingers = seen[6:9], seen[9:11]
        beside = float(np.linalg.norm(offset[:2]))
        if self.shut and float(np.linalg.norm(offset)) > 0.05:  # lost it
            self.shut = 0
        if not self.shut and beside < 0.02 and abs(offset[2]) < 0.02:
            self.shut = 1
        if not self.shut:
            above = 0.0 if beside < 0.03 else min(0.1, beside)
            return self.move(offset + [0, 0, above], 1.0, GAIN)
        self.shut += 1
        if self.shut < 4 and fingers.sum() > 0.052:
            return self.move(offset * 0.5, -1.0, GAIN)
        return self.move(observation["desired_goal"] - observation["achieved_goal"], -1.0, CARRY)

    def move(self, way, fingers, gain):
        return np.append(np.clip(gain * way / 0.05, -1, 1), fingers).astype(np.float32)


def make_policy(_context):
    return PickAndPlace()
