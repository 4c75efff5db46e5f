"""Plans a fall that slows towards the ground, leans to where it has to push, and burns the engine
it lacks most."""

import math

BRAKING = 6.0  # m/s^2 the main engine is trusted with


class Lander:
    def act(self, observation):
        x, y, vx, vy, angle, spin, right, left = map(float, observation)
        height, fall, sideways = y * 6.667, vy * 7.5, vx * 5.0
        if right and left:
            return 2 if fall < -0.4 else 0
        lean = 0.0 if right or left else max(-0.45, min(0.45, 0.55 * x + 0.14 * sideways))
        turn = 1.6 * (lean - angle) - spin
        allowed = -max(0.35, 0.65 * math.sqrt(2 * BRAKING * max(height - 0.15, 0.0)))
        # Over the rim of the pad it stays higher, as far as it is beside it.
        lack = allowed - fall + 0.4 * max(0.0, abs(10 * x) - 1.0 - height)
        if lack > 0 and abs(angle - lean) < 0.6 and abs(turn) < 0.5:
            return 2
        if abs(turn) > 0.08:
            return 1 if turn > 0 else 3
        return 2 if lack > 0 else 0


def make_policy(_):
    return Lander()
