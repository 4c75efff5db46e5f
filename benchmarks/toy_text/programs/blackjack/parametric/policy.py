"""Sticks from a sum on that depends on the usable ace and on the dealer's card.

`params.json` has, for hands without and with a usable ace, how far that sum is from 16 against low cards (2 to 6), high
ones (7 to 10) and an ace. A change of 1 in a number moves it by 4.
"""

import json
from pathlib import Path

STICK, HIT = 0, 1
PARAMETERS = json.loads((Path(__file__).parent / "params.json").read_text())
HARD = {
    "low": PARAMETERS["hard_against_low"],
    "high": PARAMETERS["hard_against_high"],
    "ace": PARAMETERS["hard_against_ace"],
}
SOFT = {
    "low": PARAMETERS["soft_against_low"],
    "high": PARAMETERS["soft_against_high"],
    "ace": PARAMETERS["soft_against_ace"],
}


class Threshold:
    def act(self, observation):
        player_sum, dealer_card, usable_ace = observation
        group = "ace" if dealer_card == 1 else "low" if dealer_card <= 6 else "high"
        shift = (SOFT if usable_ace else HARD)[group]
        return HIT if player_sum < 16 + 4 * shift else STICK


def make_policy(context):
    return Threshold()
