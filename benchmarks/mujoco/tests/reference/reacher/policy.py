"""Turns the target into joint angles by geometry and holds the arm there by a
proportional-derivative law."""

import math

import numpy as np

INNER, OUTER = 0.1, 0.11


def angles_for(x, y):
    """Both solutions (first, second) that bring the tip to (x, y), or as near as the arm can."""
    reach = math.hypot(x, y)
    cosine = (reach**2 - INNER**2 - OUTER**2) / (2 * INNER * OUTER)
    bend = math.acos(max(-1.0, min(1.0, cosine)))
    for second in (bend, -bend):
        first = math.atan2(y, x) - math.atan2(
            OUTER * math.sin(second), INNER + OUTER * math.cos(second)
        )
        yield first, second


class Reach:
    def act(self, observation):
        cos_first, cos_second, sin_first, sin_second, x, y, first_speed, second_speed = map(
            float, observation[:8]
        )
        first, second = math.atan2(sin_first, cos_first), math.atan2(sin_second, cos_second)
        ways = [(math.remainder(a - first, 2 * math.pi), b - second) for a, b in angles_for(x, y)]
        turn, bend = min(ways, key=lambda way: abs(way[0]) + abs(way[1]))
        return np.clip(
            [0.6 * turn - 0.12 * first_speed, 0.25 * bend - 0.04 * second_speed], -1.0, 1.0
        )


def make_policy(_):
    return Reach()
