"""`MiniGridBenchmark`: a MiniGrid task with its two step limits, its counts and its text grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evopolicy.authoring import (
    Artifact,
    BenchmarkReference,
    BenchmarkSpec,
    Box,
    ConfigError,
    Dict,
    Environment,
    EpisodeResult,
    EpisodeSpec,
    GymnasiumBenchmark,
    OutOfBounds,
    Profile,
    Value,
    box,
)
from evopolicy_minigrid.grids import write_grids
from evopolicy_minigrid.progress import Progress
from evopolicy_minigrid.texts import LIMIT, OWN

_HIGHEST = (10, 5, 2)
"""The largest kind, colour and state a cell can have."""


class MiniGridBenchmark(GymnasiumBenchmark):
    """Plain `gymnasium.make(id)`; what is counted is counted beside it.

    MiniGrid's ids carry no limit of Gymnasium's; a task truncates by itself and its reward refers
    to that own limit. `max_steps` truncates earlier and leaves the reward as it is;
    `kwargs={"max_steps": N}` changes both."""

    def __init__(
        self,
        profile: Profile,
        reference: BenchmarkReference,
        programs: Path | None = None,
        *,
        out_of_bounds: OutOfBounds = "invalid",
        max_steps: int | None = None,
        kwargs: Mapping[str, Value] | None = None,
        parameters: Mapping[str, Value] | None = None,
    ) -> None:
        """Raises ConfigError for a `max_steps` beyond the task's own limit: it would end before
        it."""
        own = (kwargs or {}).get("max_steps", profile.max_steps)
        if isinstance(own, bool) or not isinstance(own, int) or own < 1:
            raise ConfigError(
                f"benchmark.kwargs.max_steps is a whole number of steps from 1, found {own!r}"
            )
        super().__init__(
            _said(profile, own, max_steps),
            reference,
            programs,
            out_of_bounds=out_of_bounds,
            max_steps=max_steps,
            kwargs=kwargs,
            parameters=parameters,
        )
        if max_steps is not None and max_steps > own:
            raise ConfigError(
                f"benchmark.max_steps is {max_steps}, {profile.env_id} ends by itself after {own} "
                "steps; benchmark.kwargs.max_steps changes that limit, and the reward with it"
            )

    @cached_property
    def spec(self) -> BenchmarkSpec:
        """As Gymnasium's spaces say, with the bounds that cells really have."""
        spec = super().spec
        space = spec.observation_space
        if isinstance(space, Dict) and isinstance(space.spaces.get("image"), Box):
            image: Any = space.spaces["image"]
            tight = box(np.zeros(3), np.array(_HIGHEST), image.shape, image.dtype.name)
            spec = replace(spec, observation_space=Dict({**space.spaces, "image": tight}))
        return spec

    def wrap(self, env: Any, episode: EpisodeSpec) -> Environment:
        return super().wrap(Progress(env), episode)

    def artifacts(self, results: Sequence[EpisodeResult], folder: Path) -> Sequence[Artifact]:
        """The traces as NPZ, and as text: every view, and a map of what was seen."""
        first = self.pictured(results)
        return [*super().artifacts(results, folder), *write_grids(results, folder, first=first)]


def _said(profile: Profile, own: int, max_steps: int | None) -> Profile:
    """`profile` with the step limits in its texts and as its own."""
    limit = own if max_steps is None else max_steps
    texts = {
        name: getattr(profile, name).replace(OWN, str(own)).replace(LIMIT, f"{limit:,}")
        for name in ("goal", "scoring", "ending")
    }
    return replace(profile, max_steps=own, **texts)
