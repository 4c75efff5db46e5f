"""The way that loses least on slippery ground, worked out by value iteration."""

import numpy as np

ROWS, COLUMNS = 4, 12
START, GOAL = 36, 47
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


def landing(field, move):
    """`(field, reward)` of a move that goes where it is meant to."""
    row = min(max(field // COLUMNS + MOVES[move % 4][0], 0), ROWS - 1)
    column = min(max(field % COLUMNS + MOVES[move % 4][1], 0), COLUMNS - 1)
    return (START, -100.0) if row == 3 and 0 < column < 11 else (row * COLUMNS + column, -1.0)


def plan():
    value = np.zeros(ROWS * COLUMNS)
    fields = [
        [[landing(s, m + turn) for turn in (-1, 0, 1)] for m in range(4)]
        for s in range(ROWS * COLUMNS)
    ]
    after = np.array([[[field for field, _ in move] for move in moves] for moves in fields])
    reward = np.array([[[r for _, r in move] for move in moves] for moves in fields])
    for _ in range(2_000):
        values = (reward + value[after]).mean(2)
        value = values.max(1)
        value[GOAL] = 0.0
    return values.argmax(1)


class Walker:
    def __init__(self):
        self.moves = plan()

    def act(self, field):
        return int(self.moves[field])


def make_policy(_context):
    return Walker()
