"""EvoPolicy Benchmarks: the toy text family. `load(task="blackjack")` makes one; `TASKS` lists
them."""

from evopolicy.authoring import Family, programs_folder, table
from evopolicy_toy_text.blackjack import BLACKJACK, BlackjackBenchmark
from evopolicy_toy_text.grids import (
    CLIFF_WALKING,
    CLIFF_WALKING_SLIPPERY,
    FROZEN_LAKE,
    FROZEN_LAKE_8X8,
    TAXI,
)

TASKS = table(BLACKJACK, TAXI, FROZEN_LAKE, FROZEN_LAKE_8X8, CLIFF_WALKING, CLIFF_WALKING_SLIPPERY)
load = Family(
    "evopolicy_toy_text:load", TASKS, programs_folder(__file__), {"blackjack": BlackjackBenchmark}
)

__all__ = ["TASKS", "load"]
