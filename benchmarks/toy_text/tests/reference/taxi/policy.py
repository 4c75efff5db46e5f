"""Shortest ways over the known map to the passenger, then to where it wants to be."""

MAP = ("|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |")
PLACES = ((0, 0), (0, 4), (4, 0), (4, 3))


def neighbours(row, column):
    """`(action, field)` of the moves that are not stopped."""
    if row < 4:
        yield 0, (row + 1, column)
    if row > 0:
        yield 1, (row - 1, column)
    if MAP[row][2 * column + 2] == ":":
        yield 2, (row, column + 1)
    if MAP[row][2 * column] == ":":
        yield 3, (row, column - 1)


def distances(goal):
    found, front = {goal: 0}, [goal]
    for field in front:
        for _, near in neighbours(*field):
            if near not in found:
                found[near] = found[field] + 1
                front.append(near)
    return found


WAYS = [distances(place) for place in PLACES]


class Driver:
    def act(self, state):
        field = state // 100, state // 20 % 5
        passenger, destination = state // 4 % 5, state % 4
        way = WAYS[destination if passenger == 4 else passenger]
        if way[field] == 0:
            return 5 if passenger == 4 else 4
        return min(neighbours(*field), key=lambda move: way[move[1]])[0]


def make_policy(_context):
    return Driver()
