"""A highway-env task: plain `gymnasium.make`, with what traces show of the driven car added to
`info`."""

from __future__ import annotations

import warnings
from typing import Any

from evopolicy.authoring import GymnasiumBenchmark


class HighwayBenchmark(GymnasiumBenchmark):
    """Nothing a Policy sees or earns is changed; see `Telemetry`."""

    def open(self, **options: Any) -> Any:
        # Imports gymnasium, which puts a filter of its own before all others.
        from evopolicy_highway.telemetry import Telemetry

        with warnings.catch_warnings():
            # These are the ids of the tasks as published; later versions of them are other tasks.
            warnings.filterwarnings(
                "ignore", message=".*is out of date", category=DeprecationWarning
            )
            return Telemetry(super().open(**options))
