"""The Policy ABI, as the author of a Program reads it.

A Program is a folder with `policy.py` at its root. That file has either

    def make_policy(context): ...      # returns an object with act(observation), and reset() where
    it wants one

or the form of the paper,

    class Policy:
        def __init__(self, obs_space, action_space, env_meta): ...
        def reset(self, episode_index): ...      # always 0
        def act(self, obs): ...

Each Episode has its own process and its own Policy: state lives for that Episode only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from evopolicy.kernel.spaces import Space


@dataclass(frozen=True)
class PolicyContext:
    """What a Policy is told before its Episode. Nothing in it tells training from Validation or
    Assessment."""

    observation_space: Space
    """Plain description with Gymnasium's attribute names."""
    action_space: Space
    """Plain description with Gymnasium's attribute names."""
    parameters: Mapping[str, Any]
    """The Benchmark's public parameters."""
    seed: int
    """Opaque, the same for the same pool index. `random` and `numpy.random` are seeded from it."""
    max_steps: int
    """Steps after which the Episode is truncated."""


class Policy(Protocol):
    """What `make_policy` returns. `reset()` is optional and called once, before the first `act`."""

    def act(self, observation: Any) -> Any: ...


@dataclass(frozen=True)
class BoundPolicy:
    """A Policy of either form behind two plain calls."""

    reset: Callable[[], Any]
    act: Callable[[Any], Any]


def bind(module: Any, context: PolicyContext) -> BoundPolicy:
    """The Policy that `module` (an imported `policy.py`) makes for `context`. Raises TypeError
    where there is none."""
    make = getattr(module, "make_policy", None)
    if callable(make):
        return _bind_object(make(context), "the object make_policy returned")
    cls = getattr(module, "Policy", None)
    if callable(cls):
        meta = {
            "parameters": dict(context.parameters),
            "seed": context.seed,
            "max_steps": context.max_steps,
        }
        policy = cls(context.observation_space, context.action_space, meta)
        return _bind_object(policy, "class Policy", 0)
    raise TypeError(
        "policy.py has neither make_policy(context) nor class Policy(obs_space, action_space, "
        "env_meta)"
    )


def _bind_object(policy: Any, what: str, *reset_arguments: int) -> BoundPolicy:
    act = getattr(policy, "act", None)
    if not callable(act):
        raise TypeError(f"{what} has no method act(observation)")
    reset = getattr(policy, "reset", None)
    return BoundPolicy(lambda: reset(*reset_arguments) if callable(reset) else None, act)
