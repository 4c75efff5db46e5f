"""`benchmark=gymnasium`: any registered Gymnasium id as a Benchmark, without writing code."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from evopolicy.authoring.benchmark import GymnasiumBenchmark, OutOfBounds, Seen, check_options, seen_of
from evopolicy.authoring.profile import Profile
from evopolicy.kernel.benchmark import BenchmarkReference
from evopolicy.kernel.errors import ConfigError, ExecutionError, did_you_mean
from evopolicy.kernel.pool import SEED_BITS
from evopolicy.kernel.spaces import from_value
from evopolicy.kernel.values import Value

_DESCRIPTION = 6_000


def load(
    env_id: str = "",
    failure_score: float | None = None,
    kwargs: Mapping[str, Value] | None = None,
    max_steps: int | None = None,
    out_of_bounds: OutOfBounds = "invalid",
    seed_bits: int = SEED_BITS,
) -> GymnasiumBenchmark:
    """The Benchmark of a registered id; `module:Env-v0` imports `module` first.

    `failure_score` is what an Episode scores at most when the Policy fails in it: lower than any finished Episode.
    `max_steps` is needed where the id has no limit of its own. `seed_bits`: its Episodes' seeds are below 2**seed_bits;
    records from before there was a choice name none and keep 63, the option's YAML has 31.
    Raises ConfigError, naming the key, for a missing, non-finite or too high failure score, an unknown id, and an
    Environment that cannot be made.
    """
    return load_telling(_nobody, env_id, failure_score, kwargs, max_steps, out_of_bounds, seed_bits)


def _nobody(phase: str, *, imports: bool = False) -> None:
    """Who looks in his own process has nobody to tell."""


def load_telling(
    tell: Callable[..., None],
    env_id: str = "",
    failure_score: float | None = None,
    kwargs: Mapping[str, Value] | None = None,
    max_steps: int | None = None,
    out_of_bounds: OutOfBounds = "invalid",
    seed_bits: int = SEED_BITS,
) -> GymnasiumBenchmark:
    """`load`, which tells before each call of foreign code what it is about to do."""
    score = _settled(env_id, failure_score, kwargs, max_steps, out_of_bounds, seed_bits)
    tell("while it was imported", imports=True)
    registration = _registration(env_id)
    threshold = registration.reward_threshold
    if threshold is not None and score > threshold:
        raise ConfigError(
            f"benchmark.failure_score is {score:g}, above the return {threshold:g} at which {env_id} counts as solved; "
            "failing would pay: give the worst return a finished Episode can have, or less"
        )
    if max_steps is None and registration.max_episode_steps is None:
        raise ConfigError(f"benchmark.max_steps is missing: {env_id} has no step limit of its own")
    goal = _goal(env_id, registration)
    benchmark = _benchmark(env_id, score, goal, kwargs, max_steps, out_of_bounds, seed_bits)
    benchmark.seen = _look(benchmark, env_id, tell)
    return benchmark


def seen_apart(
    look: Callable[[str, Mapping[str, Any]], Any],
    env_id: str = "",
    failure_score: float | None = None,
    kwargs: Mapping[str, Value] | None = None,
    max_steps: int | None = None,
    out_of_bounds: OutOfBounds = "invalid",
    seed_bits: int = SEED_BITS,
) -> GymnasiumBenchmark:
    """`load` in the Host, which runs no foreign code: `look(function, arguments)` calls one in a process apart."""
    score = _settled(env_id, failure_score, kwargs, max_steps, out_of_bounds, seed_bits)
    options = {"kwargs": dict(kwargs or {}), "max_steps": max_steps, "out_of_bounds": out_of_bounds}
    arguments = {"env_id": env_id, "failure_score": score, "seed_bits": seed_bits, **options}
    try:
        seen = look("evopolicy.authoring.preflight:look", arguments)
    except ExecutionError as error:
        raise ConfigError(f"benchmark.env_id '{env_id}' cannot be looked at: {error}") from error
    benchmark = _benchmark(env_id, score, str(seen["goal"]), kwargs, max_steps, out_of_bounds, seed_bits)
    spaces = from_value(seen["observation"]), from_value(seen["action"])
    benchmark.seen = Seen(*spaces, int(seen["max_steps"]), str(seen["note"]))
    return benchmark


load.apart = seen_apart  # type: ignore[attr-defined]


def _settled(
    env_id: object,
    failure_score: object,
    kwargs: Mapping[str, Value] | None,
    max_steps: int | None,
    out_of_bounds: str,
    seed_bits: int,
) -> float:
    """The failure score, once all that can be said without the Environment was looked at. Raises ConfigError."""
    check_options(out_of_bounds, max_steps, kwargs, seed_bits)
    if not isinstance(env_id, str) or not env_id:
        raise ConfigError("benchmark.env_id is missing: give a registered Gymnasium id, such as LunarLander-v3")
    return _failure_score(failure_score)


def _benchmark(
    env_id: str,
    score: float,
    goal: str,
    kwargs: Mapping[str, Value] | None,
    max_steps: int | None,
    out_of_bounds: OutOfBounds,
    seed_bits: int,
) -> GymnasiumBenchmark:
    parameters: dict[str, Value] = {"env_id": env_id, "failure_score": score}
    options: dict[str, Value] = {"out_of_bounds": out_of_bounds}
    if kwargs:
        options["kwargs"] = dict(kwargs)
    if max_steps is not None:
        options["max_steps"] = max_steps
    if seed_bits != SEED_BITS:
        options["seed_bits"] = seed_bits
    return GymnasiumBenchmark(
        _profile(env_id, score, goal),
        BenchmarkReference("evopolicy.authoring.gymnasium:load", {**parameters, **options}),
        out_of_bounds=out_of_bounds,
        max_steps=max_steps,
        kwargs=kwargs,
        parameters=parameters,
        seed_bits=seed_bits,
    )


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
    except gymnasium.error.Error as error:
        near = did_you_mean(name, gymnasium.registry)
        hint = near if near.startswith(" Did") else " 'module:Name-v0' imports the module that registers it."
        raise ConfigError(f"benchmark.env_id '{env_id}' is not registered in Gymnasium.{hint}") from error
    except (Exception, SystemExit) as error:  # foreign code may raise anything
        said, own = f"{type(error).__name__}: {error}", ""
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            said, own = str(error), "; one of your own is found from its folder by `python -m evopolicy ...`"
        raise ConfigError(
            f"benchmark.env_id '{env_id}': the module '{module}' cannot be imported: {said}{own}"
        ) from error


def _profile(env_id: str, failure_score: float, goal: str) -> Profile:
    name = env_id.rpartition(":")[2]
    return Profile(
        slug=slug_of(env_id),
        id=f"gymnasium/{name}",
        env_id=env_id,
        title=name,
        goal=goal,
        scoring="The score of an Episode is its undiscounted return: the sum of the rewards of all its steps.",
        ending="An Episode ends when the task terminates it, or is truncated at the step limit.",
        failure_score=failure_score,
        all_info=True,
    )


def _goal(env_id: str, registration: Any) -> str:
    name = env_id.rpartition(":")[2]
    told = f"Control the Gymnasium task `{name}` so that every Episode's return is as high as possible."
    return f"{told}\n\n{_description(registration)}"


def _description(registration: Any) -> str:
    """The task's own published documentation: the docstring of its class."""
    from gymnasium.envs.registration import load_env_creator

    entry = registration.entry_point
    try:
        entry = load_env_creator(entry) if isinstance(entry, str) else entry
    except (Exception, SystemExit):  # foreign code; that it cannot be imported is said when the Environment is made
        return ""
    while isinstance(entry, functools.partial):
        entry = entry.func
    text = _own_words(entry)
    # What follows is about calling gymnasium.make, which nobody does here.
    text = re.split(r"\n## (?:Arguments|Version History|Vectorized environment)", text)[0].rstrip()
    return text if len(text) <= _DESCRIPTION else text[:_DESCRIPTION].rsplit("\n", 1)[0] + "\n[...]"


def _own_words(entry: object) -> str:
    """The docstring of a function, or of a class or the nearest of its bases that is no general one of Gymnasium's."""
    if not inspect.isclass(entry):
        return inspect.getdoc(entry) or "" if inspect.isroutine(entry) else ""
    bases = [base for base in entry.__mro__ if base.__module__ not in ("builtins", "abc", "typing", "gymnasium.core")]
    return next((inspect.cleandoc(words) for base in bases if (words := base.__dict__.get("__doc__"))), "")


def _look(benchmark: GymnasiumBenchmark, env_id: str, tell: Callable[..., None]) -> Seen:
    """Make it once, so that a missing package or wrong argument is said before anything is spent."""
    tell("while it was made")
    try:
        env = benchmark.open()
    except (Exception, SystemExit) as error:  # foreign code may raise anything
        raise ConfigError(f"benchmark.env_id '{env_id}' cannot be made: {type(error).__name__}: {error}") from error
    try:
        return seen_of(env, env_id)
    finally:
        tell("in close")
        with suppress(Exception, SystemExit):  # as in an Episode, which is over by then
            env.close()
