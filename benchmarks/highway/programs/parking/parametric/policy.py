"""Steers at a point before the spot that moves into it as the car comes near; the gains are in params.json."""

import json
import math
from pathlib import Path

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


class Approach:
    def act(self, observation):
        x, y, vx, vy, cos_h, sin_h = observation["achieved_goal"]
        goal_x, goal_y, _, _, goal_cos, goal_sin = observation["desired_goal"]
        speed = 5 * (vx * cos_h + vy * sin_h)
        distance = 100 * math.hypot(goal_x - x, goal_y - y)
        before = distance * PARAMS["lead"]
        to_x = 100 * (goal_x - x) - before * goal_cos
        to_y = 100 * (goal_y - y) - before * goal_sin
        heading = math.atan2(sin_h, cos_h)
        turn = math.remainder(math.atan2(to_y, to_x) - heading, 2 * math.pi)
        off = math.remainder(math.atan2(goal_sin, goal_cos) - heading, 2 * math.pi)
        near = math.exp(-distance / 10)
        steering = PARAMS["turning"] * turn + PARAMS["heading_pull"] * near * off
        wanted = 10 * PARAMS["speed"] * (math.tanh(distance / 10) - PARAMS["keep_away"] * near)
        acceleration = PARAMS["braking"] * (wanted - speed)
        return [max(-1.0, min(1.0, acceleration)), max(-1.0, min(1.0, steering))]


def make_policy(context):
    return Approach()
