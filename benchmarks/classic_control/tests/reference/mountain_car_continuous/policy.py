"""Pumps energy gently: a force in proportion to the speed, for as long as the car has too little to
reach the flag."""

import math

FLAG = 0.46


class Pump:
    def act(self, observation):
        position, velocity = map(float, observation)
        # 0.0025 cos(3 x) is the slope's pull: its potential is 0.0025 / 3 sin(3 x).
        energy = velocity**2 / 2 + 0.0025 / 3 * math.sin(3 * position)
        needed = 0.0025 / 3 * math.sin(3 * FLAG)
        if energy > needed and velocity > 0:
            return [0.0]
        return [max(-1.0, min(1.0, 12.0 * velocity + math.copysign(0.02, velocity)))]


def make_policy(_):
    return Pump()
