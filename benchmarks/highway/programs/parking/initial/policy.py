"""Drives slowly towards the spot, whatever the heading it should have there, and stops beside it."""

import math


class ParkingPolicy:
    def act(self, observation):
        x, y, vx, vy, cos_h, sin_h = observation["achieved_goal"]
        goal_x, goal_y = observation["desired_goal"][:2]
        speed = 5 * (vx * cos_h + vy * sin_h)
        distance = 100 * math.hypot(goal_x - x, goal_y - y)
        turn = math.atan2(goal_y - y, goal_x - x) - math.atan2(sin_h, cos_h)
        turn = math.remainder(turn, 2 * math.pi)
        wanted = 2.0 if distance > 6.0 else 0.0
        acceleration = max(-1.0, min(1.0, 0.2 * (wanted - speed)))
        steering = max(-1.0, min(1.0, 0.5 * turn))
        return [acceleration, steering]


def make_policy(context):
    return ParkingPolicy()
