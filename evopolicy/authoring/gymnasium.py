"""`benchmark=gymnasium`: any registered Gymnasium id as a Benchmark, without writing code."""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Mapping
from typing import Any

from evopolicy.authoring.benchmark import GymnasiumBenchmark, OutOfBounds, check_options
from evopolicy.authoring.profile import Profile
from evopolicy.kernel.benchmark import BenchmarkReference
from evopolicy.kernel.errors import ConfigError, did_you_mean
from evopolicy.kernel.values import Value

_DESCRIPTION = 6_000


def load(
    env_id: str = "",
    failure_score: float | None = None,
    kwargs: Mapping[str, Value] | None = None,
    max_steps: int | None = None,
    out_of_bounds: OutOfBounds = "invalid",
) -> GymnasiumBenchmark:
    """The Benchmark of a registered id; `module:Env-v0` imports `module` first.

    `failure_score` is what an Episode scores at most when the Policy fails in it: lower than any finished Episode.
    `max_steps` is needed where the id has no limit of its own. Raises ConfigError, naming the key, for a missing,
    non-finite or too high failure score, an unknown id, and an Environment that cannot be made.
    """
    check_options(out_of_bounds, max_steps, kwargs)
    if not isinstance(env_id, str) or not env_id:
        raise ConfigError("benchmark.env_id is missing: give a registered Gymnasium id, such as LunarLander-v3")
    score = _failure_score(failure_score)
    registration = _registration(env_id)
    threshold = registration.reward_threshold
    if threshold is not None and score > threshold:
        raise ConfigError(
            f"benchmark.failure_score is {score:g}, above the return {threshold:g} at which {env_id} counts as solved; "
            "failing would pay: give the worst return a finished Episode can have, or less"
        )
    if max_steps is None and registration.max_episode_steps is None:
        raise ConfigError(f"benchmark.max_steps is missing: {env_id} has no step limit of its own")
    parameters: dict[str, Value] = {"env_id": env_id, "failure_score": score}
    options: dict[str, Value] = {"out_of_bounds": out_of_bounds}
    if kwargs:
        options["kwargs"] = dict(kwargs)
    if max_steps is not None:
        options["max_steps"] = max_steps
    benchmark = GymnasiumBenchmark(
        _profile(env_id, score, registration),
        BenchmarkReference("evopolicy.authoring.gymnasium:load", {**parameters, **options}),
        out_of_bounds=out_of_bounds,
        max_steps=max_steps,
        kwargs=kwargs,
        parameters=parameters,
    )
    _try_out(benchmark, env_id)
    return benchmark


def slug_of(env_id: str) -> str:
    """`gymnasium-ALE-Pong-v5` of `ale_py:ALE/Pong-v5`: a portable name without the module."""
    name = env_id.rpartition(":")[2]
    return "gymnasium-" + re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _failure_score(value: object) -> float:
    if value is None:
        raise ConfigError(
            "benchmark.failure_score is missing: say what an Episode scores when the Policy fails in it, "
            "lower than any finished Episode's return"
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"benchmark.failure_score is a finite number, found {value!r}")
    return float(value)


def _registration(env_id: str) -> Any:
    import gymnasium

    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        return gymnasium.spec(name)
    except ImportError as error:
        raise ConfigError(f"benchmark.env_id '{env_id}': the module '{module}' cannot be imported: {error}") from error
    except gymnasium.error.Error as error:
        near = did_you_mean(name, gymnasium.registry)
        hint = near if near.startswith(" Did") else " 'module:Name-v0' imports the module that registers it."
        raise ConfigError(f"benchmark.env_id '{env_id}' is not registered in Gymnasium.{hint}") from error


def _profile(env_id: str, failure_score: float, registration: Any) -> Profile:
    name = env_id.rpartition(":")[2]
    return Profile(
        slug=slug_of(env_id),
        id=f"gymnasium/{name}",
        env_id=env_id,
        title=name,
        goal=f"Control the Gymnasium task `{name}` so that every Episode's return is as high as possible.\n\n"
        + _description(registration),
        scoring="The score of an Episode is its undiscounted return: the sum of the rewards of all its steps.",
        ending="An Episode ends when the task terminates it, or is truncated at the step limit.",
        failure_score=failure_score,
        all_info=True,
    )


def _description(registration: Any) -> str:
    """The task's own published documentation: the docstring of its class."""
    from gymnasium.envs.registration import load_env_creator

    entry = registration.entry_point
    try:
        text = inspect.getdoc(load_env_creator(entry) if isinstance(entry, str) else entry) or ""
    except Exception:  # foreign code; that it cannot be imported is said when the Environment is made
        return ""
    # What follows is about calling gymnasium.make, which nobody does here.
    text = re.split(r"\n## (?:Arguments|Version History|Vectorized environment)", text)[0].rstrip()
    return text if len(text) <= _DESCRIPTION else text[:_DESCRIPTION].rsplit("\n", 1)[0] + "\n[...]"


def _try_out(benchmark: GymnasiumBenchmark, env_id: str) -> None:
    """Make it once, so that a missing package or wrong argument is said before anything is spent."""
    try:
        env = benchmark.open()
    except Exception as error:  # foreign code may raise anything
        raise ConfigError(f"benchmark.env_id '{env_id}' cannot be made: {type(error).__name__}: {error}") from error
    env.close()
