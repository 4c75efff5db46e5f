"""Balances: pushes to the side to which a weighted sum of all four numbers points."""

GAINS = (0.5, 1.0, 10.0, 2.0)


class Balance:
    def act(self, observation):
        return int(sum(gain * number for gain, number in zip(GAINS, observation, strict=True)) > 0)


def make_policy(_):
    return Balance()
