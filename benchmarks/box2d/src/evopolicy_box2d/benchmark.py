"""`Box2dBenchmark`: these Environments tell little in `info`, so what Feedback shows is read from
their bodies."""

from __future__ import annotations

from typing import Any

from evopolicy.authoring import GymnasiumBenchmark
from evopolicy_box2d.lander import LanderWatch
from evopolicy_box2d.racing import CarWatch
from evopolicy_box2d.walker import WalkerWatch

_WATCHES: dict[str, type[LanderWatch] | type[WalkerWatch] | type[CarWatch]] = {
    "LunarLander-v3": LanderWatch,
    "LunarLanderContinuous-v3": LanderWatch,
    "BipedalWalker-v3": WalkerWatch,
    "BipedalWalkerHardcore-v3": WalkerWatch,
    "CarRacing-v3": CarWatch,
}


class Box2dBenchmark(GymnasiumBenchmark):
    """`gymnasium.make` as it is, watched: the Environment is stepped as before, its `info` holds
    the columns."""

    def open(self, **options: Any) -> Any:
        from evopolicy_box2d.watched import Watched

        return Watched(super().open(**options), _WATCHES[self.profile.env_id])
