"""Along the edge of the cliff."""

UP, RIGHT, DOWN = range(3)


class Walker:
    def act(self, field):
        row, column = divmod(field, 12)
        if row == 3:
            return UP
        return RIGHT if column < 11 else DOWN


def make_policy(_context):
    return Walker()
