"""Plans the whole drive on a model of the car, improves the plan at every step, and follows it.

Plans are sequences of accelerations and steering angles, two steps each; the best of many draws
shape the next draws (the cross-entropy method). A plan is worth what the task would pay for it."""

import numpy as np

KNOTS, HOLD = 14, 2
DRAWS, BEST = 300, 20
FIRST, LATER = 40, 2
WEIGHTS = np.array([1.0, 0.3, 0.02, 0.02])


class Plan:
    def __init__(self, context):
        self.rng = np.random.default_rng(context.seed % 2**32)
        self.plan = None
        self.step = 0

    def act(self, observation):
        x, y, vx, vy, cos, sin = observation["achieved_goal"]
        goal = observation["desired_goal"]
        state = (100 * x, 100 * y, np.arctan2(sin, cos), 5 * (vx * cos + vy * sin))
        if self.plan is None:
            self.plan = np.zeros((KNOTS, 2))
            self.improve(state, goal, FIRST, 0.8)
        elif self.step % HOLD == 0:
            self.plan = np.vstack([self.plan[1:], self.plan[-1:]])
            self.improve(state, goal, LATER, 0.1)
        self.step += 1
        return self.plan[0].astype(np.float32)

    def improve(self, state, goal, rounds, spread):
        mean, deviation = self.plan.copy(), np.full((KNOTS, 2), spread)
        kept, worth = self.plan, self.worth(self.plan[None], state, goal)[0]
        for _ in range(rounds):
            draws = np.clip(mean + deviation * self.rng.standard_normal((DRAWS, KNOTS, 2)), -1, 1)
            draws[0] = kept
            worths = self.worth(draws, state, goal)
            order = np.argsort(-worths)[:BEST]
            if worths[order[0]] >= worth:
                kept, worth = draws[order[0]], worths[order[0]]
            mean, deviation = draws[order].mean(0), draws[order].std(0) + 0.02
        self.plan = kept

    def worth(self, plans, state, goal):
        x, y, heading, speed = (np.full(len(plans), value) for value in state)
        total, going = np.zeros(len(plans)), np.ones(len(plans))
        slips = np.arctan(0.5 * np.tan(plans[:, :, 1] * np.pi / 4))
        for step in range(KNOTS * HOLD):
            acceleration, slip = 5 * plans[:, step // HOLD, 0], slips[:, step // HOLD]
            for _ in range(3):
                x = x + speed * np.cos(heading + slip) / 15
                y = y + speed * np.sin(heading + slip) / 15
                heading = heading + speed * np.sin(slip) / 2.5 / 15
                speed = speed + acceleration / 15
            cos, sin = np.cos(heading), np.sin(heading)
            off = WEIGHTS[0] * abs(x / 100 - goal[0]) + WEIGHTS[1] * abs(y / 100 - goal[1])
            off = off + WEIGHTS[2] * abs(cos - goal[4]) + WEIGHTS[3] * abs(sin - goal[5])
            cost = np.sqrt(off)
            reach_x, reach_y = 2.5 * abs(cos) + abs(sin), 2.5 * abs(sin) + abs(cos)
            hit = (abs(x) + reach_x > 34.2) | (abs(y) + reach_y > 20.2)
            total -= going * (cost + 100.0 * hit)
            going = going * ((cost >= 0.118) & ~hit)
        turned = abs(cos - goal[4]) + abs(sin - goal[5])
        return total - going * (10 + 40 * np.sqrt(off + 0.2 * turned))


def make_policy(context):
    return Plan(context)
