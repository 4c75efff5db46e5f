"""Explore by partial views, remember a map, take the key, open the door, fetch what the mission
names."""

from planner import (
    BALL,
    BOX,
    COLORS,
    DOOR,
    DROP,
    EMPTY,
    GOAL,
    KEY,
    KINDS,
    LEFT,
    LOCKED,
    PICKUP,
    RIGHT,
    STEPS,
    THINGS,
    TOGGLE,
    WALL,
    Map,
)

HURRY = 4.0
"""Added to the cost of a look: the smaller, the more a near look is preferred to a wide one."""


class Planner:
    def __init__(self):
        self.map = Map()
        self.action = None
        self.reach = 7
        self.target = (GOAL, None)
        self.putting = False
        self.taken_from = None
        self.boxes = False

    def act(self, observation):
        if self.action is None:
            self.read(observation["mission"])
        self.reach = observation["image"].shape[0]
        self.map.see(observation, self.action)
        self.ways = self.map.ways()
        self.action = self.decide()
        if self.action == PICKUP:
            self.taken_from = self.map.front()
        return self.action

    def read(self, mission):
        words = mission.split()
        if mission.startswith("pick up the") and len(words) == 5 and words[4] in KINDS:
            self.target = (KINDS[words[4]], COLORS.get(words[3]))

    def decide(self):
        carried = self.map.carried
        self.boxes = self.boxes or bool(self.known(BOX))
        self.putting = carried is not None and (self.putting or carried[0] != KEY)
        if self.putting:
            return self.lay_aside()
        for task in (
            self.finish,
            self.unlock,
            self.prepare,
            self.fetch_key,
            self.explore,
            self.break_through,
        ):
            action = task()
            if action is not None:
                return action
        return RIGHT

    # --- what to do next --------------------------------------------------------------------------

    def finish(self):
        """Go to what the mission ends with, once it is known and can be reached."""
        kind, color = self.target
        for place in self.known(kind, color):
            if kind == GOAL:
                states = [(place, direction) for direction in range(4)]
                return self.go(states)
            if self.map.carried is None:
                return self.go(self.map.beside(place), PICKUP)
            return self.go_empty_handed(place)
        return None

    def unlock(self):
        """With a key: to its door."""
        carried = self.map.carried
        if carried is None or carried[0] != KEY:
            return None
        doors = self.known(DOOR, carried[1], LOCKED)
        states = [state for door in doors for state in self.map.beside(door)]
        action = self.go(states, TOGGLE)
        if action is None and any(state in self.ways for state in states):
            return self.lay_aside()
        return action

    def prepare(self):
        """Without a key: open boxes, and clear the places before locked doors; the nearer first."""
        if self.map.carried is not None:
            return None
        options = []
        if not self.wanted_keys():
            options += [
                (state, TOGGLE) for box in self.known(BOX) for state in self.map.beside(box)
            ]
        for door in self.wanted_doors():
            for place, _ in self.map.beside(door):
                if self.map.kind(place) in (BALL, BOX):
                    options += [(state, PICKUP) for state in self.map.beside(place)]
        options = [
            (self.ways[state][0], state, action) for state, action in options if self.good(state)
        ]
        if not options:
            return None
        _, state, action = min(options)
        return self.go([state], action)

    def fetch_key(self):
        if self.map.carried is not None:
            return None
        return self.go(
            [state for key in self.wanted_keys() for state in self.map.beside(key)], PICKUP
        )

    def explore(self):
        """To the look that shows most for its cost."""
        best, chosen, frontier = 0.0, None, self.map.frontier()
        for cost, state in sorted((cost, state) for state, (cost, _) in self.ways.items()):
            if best > self.reach**2 / (cost + HURRY):
                break
            if self.map.kind(state[0]) in THINGS or not self.map.looks_at(
                *state, frontier, self.reach
            ):
                continue
            value = len(self.map.fresh(*state, self.reach)) / (cost + HURRY)
            if value > best:
                best, chosen = value, state
        return None if chosen is None else self.go([chosen])

    def break_through(self):
        """Nothing else helps: take what stands in the way."""
        things = [place for kind in THINGS for place in self.known(kind)]
        if self.map.carried is not None:
            return self.lay_aside()
        return self.go([state for place in things for state in self.map.beside(place)], PICKUP)

    # --- parts ------------------------------------------------------------------------------------

    def known(self, kind, color=None, state=None):
        """Places of such cells, the nearest by air first."""
        found = [
            place
            for place, cell in self.map.cells.items()
            if cell[0] == kind
            and (color is None or cell[1] == color)
            and (state is None or cell[2] == state)
        ]
        x, y = self.map.place
        return sorted(found, key=lambda p: (abs(p[0] - x) + abs(p[1] - y), p))

    def wanted_doors(self):
        return self.known(DOOR, None, LOCKED)

    def wanted_keys(self):
        """Keys of locked doors. As long as none is known, any key where there are no boxes that
        hide others."""
        doors = self.wanted_doors()
        if not doors and self.boxes:
            return []
        colors = {self.map.cells[door][1] for door in doors}
        return [key for key in self.known(KEY) if not doors or self.map.cells[key][1] in colors]

    def good(self, state):
        return state in self.ways and self.map.kind(state[0]) not in THINGS

    def go(self, states, then=None):
        """The next Action on the way to the nearest of `states`, `then` in it; None where none can
        be reached."""
        states = [state for state in states if self.good(state)]
        if not states:
            return None
        nearest = min(states, key=lambda state: (self.ways[state][0], state))
        first = self.ways[nearest][1]
        if not first:
            return then
        return self.clear_front() if first[0] is None else first[0]

    def clear_front(self):
        """Take what is in front, with empty hands; open it where it is a box."""
        if self.map.kind(self.map.front()) == BOX:
            return TOGGLE
        return PICKUP if self.map.carried is None else self.lay_aside()

    def go_empty_handed(self, place):
        """To the side of `place`, letting go of what is carried as soon as that costs nothing but
        its step."""
        action = self.go(self.map.beside(place), DROP)
        if action in (LEFT, RIGHT) and self.map.kind(self.map.front()) == EMPTY:
            return DROP
        return self.lay_aside() if action == DROP else action

    def lay_aside(self):
        """Put what is carried where it is in nobody's way, not back; once begun this comes before
        all else."""
        self.putting = True
        free = [s for s, (_, first) in self.ways.items() if self.good(s) and first != (None,)]
        free = [
            s
            for s in free
            if self.map.kind(self.map.front(*s)) == EMPTY and self.map.front(*s) != self.taken_from
        ]
        action = self.go([s for s in free if self.aside(self.map.front(*s))] or free, DROP)
        return RIGHT if action is None else action

    def aside(self, place):
        """An empty cell away from doors and passages."""
        if self.map.kind(place) != EMPTY:
            return False
        x, y = place
        around = [self.map.kind((x + dx, y + dy)) for dx, dy in STEPS]
        passage = (around[0] == around[2] == WALL) or (around[1] == around[3] == WALL)
        return DOOR not in around and not passage


def make_policy(_context):
    return Planner()
