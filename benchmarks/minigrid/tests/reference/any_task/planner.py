"""A map drawn from partial views, and shortest ways over it."""

from heapq import heappop, heappush

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA = range(10)
OPEN, CLOSED, LOCKED = range(3)
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
KINDS = {"key": KEY, "ball": BALL, "box": BOX}
COLORS = {"red": 0, "green": 1, "blue": 2, "purple": 3, "yellow": 4, "grey": 5}
FREE = (EMPTY, FLOOR, GOAL)
THINGS = (KEY, BALL, BOX)
CLEARING = 6
"""Actions it takes about to pick up what is in the way and lay it aside."""


class Map:
    """Cells by place relative to the start, as (kind, colour, state); the agent's place and what it
    carries."""

    def __init__(self):
        self.cells = {}
        self.place = (0, 0)
        self.direction = 0
        self.carried = None

    def front(self, place=None, direction=None):
        x, y = self.place if place is None else place
        dx, dy = STEPS[self.direction if direction is None else direction]
        return x + dx, y + dy

    def see(self, observation, action):
        """Enter a view; `action` led to it."""
        image = observation["image"]
        if action == FORWARD and self.passable(self.front()):
            self.place = self.front()
        self.direction = int(observation["direction"])
        size = image.shape[0]
        (dx, dy), (x, y) = STEPS[self.direction], self.place
        for i in range(size):
            for j in range(size):
                kind, color, state = (int(part) for part in image[i, j])
                ahead, right = size - 1 - j, i - size // 2
                if kind and (ahead or right):
                    self.cells[x + dx * ahead - dy * right, y + dy * ahead + dx * right] = (
                        kind,
                        color,
                        state,
                    )
        kind, color, _ = (int(part) for part in image[size // 2, size - 1])
        self.carried = (kind, color) if kind in THINGS else None
        self.cells.setdefault(self.place, (EMPTY, 0, 0))

    def kind(self, place):
        return self.cells.get(place, (UNSEEN, 0, 0))[0]

    def passable(self, place):
        kind, _, state = self.cells.get(place, (UNSEEN, 0, 0))
        return kind in FREE or (kind == DOOR and state == OPEN)

    def entry_cost(self, place):
        """Extra Actions to enter a cell that must be opened or cleared first; None where it cannot
        be."""
        kind, color, state = self.cells.get(place, (UNSEEN, 0, 0))
        if kind in FREE or (kind == DOOR and state == OPEN):
            return 0
        if kind == DOOR and (state == CLOSED or self.carried == (KEY, color)):
            return 1
        if kind in THINGS:
            return CLEARING + (0 if self.carried is None else CLEARING)
        return None

    def ways(self):
        """`{(place, direction): (cost, first Action)}` of all that can be reached.

        The first Action is None where the way begins with an obstacle to clear in front.
        """
        start = (self.place, self.direction)
        found, queue, count = {}, [(0, 0, start, ())], 0
        while queue:
            cost, _, state, first = heappop(queue)
            if state in found:
                continue
            found[state] = (cost, first)
            place, direction = state
            options = [
                (1, (place, (direction + 1) % 4), RIGHT),
                (1, (place, (direction - 1) % 4), LEFT),
            ]
            ahead = self.front(place, direction)
            extra = self.entry_cost(ahead)
            if extra is not None:
                kind = self.kind(ahead)
                action = FORWARD if extra == 0 else TOGGLE if kind == DOOR else None
                options.append((1 + extra, (ahead, direction), action))
            for price, after, action in options:
                if after not in found:
                    count += 1
                    heappush(queue, (cost + price, count, after, first or (action,)))
        return found

    def beside(self, place):
        """The states that look at `place` from a cell next to it."""
        for direction, (dx, dy) in enumerate(STEPS):
            yield (place[0] - dx, place[1] - dy), direction

    def fresh(self, place, direction, reach):
        """Cells never seen that a look from there would show, if only known walls and doors hide
        them."""
        return self._visible(*place, *STEPS[direction], reach)

    def frontier(self):
        """Cells never seen next to one that light passes: the first new cell of any look is one of
        them."""
        near = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]
        clear = [place for place in self.cells if self.kind(place) == DOOR or self._clear(*place)]
        return {(x + dx, y + dy) for x, y in clear for dx, dy in near} - self.cells.keys()

    def looks_at(self, place, direction, cells, reach):
        """Whether any of `cells` lies in the square a look takes in."""
        (x, y), (dx, dy) = place, STEPS[direction]
        for other_x, other_y in cells:
            ahead = (other_x - x) * dx + (other_y - y) * dy
            right = (other_y - y) * dx - (other_x - x) * dy
            if 0 <= ahead < reach and abs(right) <= reach // 2:
                return True
        return False

    def _visible(self, x, y, dx, dy, reach):
        """Unseen cells in a view: light spreads forward and sideways as far as what is known lets
        it."""
        half, new, lit = reach // 2, set(), {0}
        for ahead in range(reach):
            line = {
                r: (x + dx * ahead - dy * r, y + dy * ahead + dx * r)
                for r in range(-half, half + 1)
            }
            clear = {r for r, place in line.items() if place == (x, y) or self._clear(*place)}
            for sideways, span in ((1, range(-half, half)), (-1, range(half, -half, -1))):
                for right in span:
                    if right in lit and right in clear:
                        lit.add(right + sideways)
            new.update(line[right] for right in lit if line[right] not in self.cells)
            lit = {
                r
                for right in lit & clear
                for r in (right - 1, right, right + 1)
                if -half <= r <= half
            }
        return new

    def _clear(self, x, y):
        kind, _, state = self.cells.get((x, y), (UNSEEN, 0, 0))
        return kind != WALL and not (kind == DOOR and state != OPEN)
