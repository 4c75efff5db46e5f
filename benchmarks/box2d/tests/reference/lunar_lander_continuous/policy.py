"""As for the four Actions, with throttles: both engines at once, each as hard as it lacks."""

import math

BRAKING = 6.0  # m/s^2 the main engine is trusted with


class Lander:
    def act(self, observation):
        x, y, vx, vy, angle, spin, right, left = map(float, observation)
        height, fall, sideways = y * 6.667, vy * 7.5, vx * 5.0
        if right and left:
            return [0.1 if fall < -0.4 else -1.0, 0.0]
        lean = 0.0 if right or left else max(-0.45, min(0.45, 0.55 * x + 0.14 * sideways))
        turn = 1.6 * (lean - angle) - spin
        allowed = -max(0.35, 0.65 * math.sqrt(2 * BRAKING * max(height - 0.15, 0.0)))
        lack = allowed - fall + 0.4 * max(0.0, abs(10 * x) - 1.0 - height)
        main = lack - 0.2 if lack > 0.2 and abs(angle - lean) < 0.6 else -1.0
        side = math.copysign(max(0.51, abs(turn)), -turn) if abs(turn) > 0.08 else 0.0
        return [min(1.0, main), max(-1.0, min(1.0, side))]


def make_policy(_):
    return Lander()
