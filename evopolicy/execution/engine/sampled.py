"""`check`: a Program asked for Actions on sampled observations, as if they were an Episode's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evopolicy.kernel.ports.benchmark import EpisodeSpec, Transition
from evopolicy.kernel.ports.outcome import CheckReport, EpisodeResult, PolicyFailure
from evopolicy.kernel.ports.protocols import Limits
from evopolicy.kernel.spaces import Space
from evopolicy.kernel.values import Value, ValueRefused, public

STEPS = 8
_SHOWN = 3


class SampledEnvironment:
    """Gives `STEPS` observations drawn from the space by `seed` and keeps the Actions it is
    given."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self.actions: list[Any] = []

    def reset(self) -> Any:
        return self._space.sample(self._rng)

    def step(self, action: Any) -> Transition:
        self.actions.append(action)
        ended = len(self.actions) == STEPS
        return Transition(self._space.sample(self._rng), 0.0, False, ended)

    def measures(self) -> Mapping[str, Value]:
        return {}

    def close(self) -> None:
        pass


def episode(seed: int) -> EpisodeSpec:
    """What the Policy is told of a check: its seed is the check's."""
    return EpisodeSpec(0, seed, seed)


def report(
    result: EpisodeResult, environment: SampledEnvironment, slowest: float, limits: Limits
) -> CheckReport:
    """The report of a check that ended with `result`; `slowest` is its longest call in CPU
    seconds."""
    outcome = result.outcome
    if outcome is None:
        message = result.fault.message if result.fault else "the check could not run"
        return CheckReport(False, PolicyFailure("died", message, "import"))
    warnings = []
    if slowest > limits.act_seconds / 2 and outcome.failure is None:
        warnings.append(
            f"one call used {slowest:.2f} s of CPU time; the limit is {limits.act_seconds:g} s"
        )
    if outcome.clipped:
        warnings.append(
            f"{outcome.clipped} of {outcome.length} Actions were outside their bounds and would "
            "be clipped"
        )
    try:
        actions = [public(action, "action") for action in environment.actions[:_SHOWN]]
    except ValueRefused:
        actions = []
    return CheckReport(outcome.failure is None, outcome.failure, actions, outcome.output, warnings)
