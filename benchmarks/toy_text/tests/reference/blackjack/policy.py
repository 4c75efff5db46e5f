"""Best play: the expected score of sticking and hitting, worked out for every hand from the endless
deck."""

from functools import lru_cache

CARDS = [(card, 1 / 13) for card in range(1, 10)] + [(10, 4 / 13)]


def add(total, ace, card):
    """The hand `(sum, usable ace)` after one more card."""
    if card == 1 and total + 11 <= 21:
        return total + 11, 1
    total += card
    return (total - 10, 0) if total > 21 and ace else (total, ace)


@lru_cache(None)
def dealer_ends(total, ace):
    """Probabilities of the dealer's final sums, 0 for more than 21."""
    if total > 21:
        return {0: 1.0}
    if total >= 17:
        return {total: 1.0}
    ends = {}
    for card, chance in CARDS:
        for end, share in dealer_ends(*add(total, ace, card)).items():
            ends[end] = ends.get(end, 0.0) + chance * share
    return ends


@lru_cache(None)
def sticking(total, dealer_card):
    start = (11, 1) if dealer_card == 1 else (dealer_card, 0)
    return sum(
        ((total > end) - (total < end)) * chance for end, chance in dealer_ends(*start).items()
    )


@lru_cache(None)
def best(total, ace, dealer_card):
    if total > 21:
        return -1.0
    return max(sticking(total, dealer_card), hitting(total, ace, dealer_card))


def hitting(total, ace, dealer_card):
    return sum(chance * best(*add(total, ace, card), dealer_card) for card, chance in CARDS)


class Player:
    def act(self, observation):
        total, dealer_card, ace = observation
        return int(total < 21 and hitting(total, ace, dealer_card) > sticking(total, dealer_card))


def make_policy(_context):
    return Player()
