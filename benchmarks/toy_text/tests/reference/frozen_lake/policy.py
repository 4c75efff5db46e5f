"""The most likely way across: chances of arriving, worked out backwards from the last step on the
known map."""

import numpy as np

# By the number of fields.
MAPS = {
    16: ("SFFF", "FHFH", "FFFH", "HFFG"),
    64: (
        "SFFFFFFF",
        "FFFFFFFF",
        "FFFHFFFF",
        "FFFFFHFF",
        "FFFHFFFF",
        "FHHFFFHF",
        "FHFFHFHF",
        "FFFHFFFG",
    ),
}
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))


def landings(field, move, side):
    """The three fields a move leads to, equally likely."""
    for turned in (move - 1, move, move + 1):
        row, column = (field // side + MOVES[turned % 4][0], field % side + MOVES[turned % 4][1])
        yield min(max(row, 0), side - 1) * side + min(max(column, 0), side - 1)


def plan(steps, rows):
    """`moves[n][field]`: the best move with n + 1 steps left."""
    letters, side = "".join(rows), len(rows)
    after = np.array(
        [[list(landings(field, move, side)) for move in range(4)] for field in range(len(letters))]
    )
    ended = np.array([letter in "GH" for letter in letters])
    chance = np.array([float(letter == "G") for letter in letters])
    moves = []
    for _ in range(steps):
        values = chance[after].mean(2)
        moves.append(values.argmax(1))
        chance = np.where(ended, chance, values.max(1))
    return moves


class Walker:
    def __init__(self, steps, rows):
        self.moves = plan(steps, rows)

    def act(self, field):
        return int(self.moves.pop()[field])


def make_policy(context):
    return Walker(context.max_steps, MAPS[context.observation_space.n])
