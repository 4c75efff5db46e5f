"""Slows down for cars near a point ahead of it; how far ahead and how near is in params.json."""

import json
import math
from pathlib import Path

PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
KEEP, FASTER, SLOWER = 1, 3, 4


class Caution:
    def act(self, observation):
        x, y, vx, vy = observation[0][1:5]
        seconds = 2 * PARAMS["ahead"]
        ahead_x, ahead_y = 100 * x + 15 * vx * seconds, 100 * y + 15 * vy * seconds
        nearest = 1e3
        for present, other_x, other_y, other_vx, other_vy in observation[1:]:
            if present:
                gap_x = 100 * other_x + 15 * other_vx * seconds - ahead_x
                gap_y = 100 * other_y + 15 * other_vy * seconds - ahead_y
                nearest = min(nearest, math.hypot(gap_x, gap_y))
        if nearest < 10 * PARAMS["near"]:
            return SLOWER
        if nearest > 10 * PARAMS["far"] or 15 * math.hypot(vx, vy) < 10 * PARAMS["slow_down"]:
            return FASTER
        return KEEP


def make_policy(context):
    return Caution()
