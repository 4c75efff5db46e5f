"""Traces the middle of the road upward through the picture and pursues a point on it, slower before
bends."""

import math

import numpy as np

WIDE, HIGH = 0.643, 0.514  # m a pixel
CAR_ROW, CAR_COLUMN = 72, 47.5
WHEELBASE = 3.24
NEAR, FAR = 10.0, 24.0  # m ahead


def road_in(picture):
    red, green = picture[:84, :, 0].astype(int), picture[:84, :, 1].astype(int)
    return (abs(red - green) < 25) & (red > 80) & (red < 140)


def middle_line(road):
    """(row, column) of the road's middle, row by row upward from the car, as far as it can be
    followed."""
    points, column = [], CAR_COLUMN
    for row in range(CAR_ROW - 8, -1, -1):
        found = np.flatnonzero(road[row])
        if not len(found):
            break
        runs = np.split(found, np.flatnonzero(np.diff(found) > 1) + 1)
        run = min(runs, key=lambda r: max(r[0] - column, column - r[-1], 0))
        if max(run[0] - column, column - run[-1], 0) > 6:
            break
        column = (run[0] + run[-1]) / 2
        points.append((row, column))
        if run[0] == 0 or run[-1] == 95:  # it leaves the picture to a side
            break
    return points


class Driver:
    def __init__(self):
        self.step = 0

    def act(self, picture):
        self.step += 1
        if self.step < 40:  # the view is still zooming in
            return np.array([0.0, 0.4, 0.0])
        bar = picture[84:94, 12:14, :].mean(axis=(1, 2)).sum() / 255
        speed = bar / 0.048
        road = road_in(picture)
        points = middle_line(road)
        if not points:
            return self.back_to(road, speed)
        ahead = np.array(
            [((CAR_ROW - row) * HIGH, (column - CAR_COLUMN) * WIDE) for row, column in points]
        )
        far_away = np.hypot(ahead[:, 0], ahead[:, 1])
        near = ahead[np.argmin(abs(far_away - (NEAR + 0.08 * speed)))]
        far = ahead[np.argmin(abs(far_away - FAR))]
        bend = max(abs(math.atan2(near[1], near[0])), abs(math.atan2(far[1], far[0])))
        angle = math.atan2(near[1], near[0])
        steer = 1.2 * math.atan(2 * WHEELBASE * math.sin(angle) / math.hypot(*near))
        wanted = float(np.clip(62 - 55 * bend, 22, 60))
        if far_away[-1] < 14:  # the road is lost from sight close by
            wanted = min(wanted, 25.0)
        gas = np.clip(0.1 * (wanted - speed), 0, 0.6) * max(0.0, 1 - 2.5 * abs(steer))
        brake = np.clip(0.03 * (speed - wanted - 3), 0, 0.4)
        return np.array([np.clip(steer, -1, 1), gas, brake])

    def back_to(self, road, speed):
        rows, columns = np.nonzero(road)
        if not len(rows):
            return np.array([0.4, 0.05, 0.0])
        distance = np.hypot((rows - CAR_ROW) * HIGH, (columns - CAR_COLUMN) * WIDE)
        nearest = int(np.argmin(distance))
        angle = math.atan2((columns[nearest] - CAR_COLUMN) * WIDE, (CAR_ROW - rows[nearest]) * HIGH)
        gas = 0.1 if speed < 12 else 0.0
        return np.array([np.clip(angle, -0.4, 0.4), gas, 0.2 if speed > 20 else 0.0])


def make_policy(_):
    return Driver()
