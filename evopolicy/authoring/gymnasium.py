"""`benchmark=gymnasium`: any registered Gymnasium id as a Benchmark, without writing code."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from evopolicy.authoring.benchmark import GymnasiumBenchmark, Seen, seen_of
from evopolicy.authoring.gymnasium_options import GymnasiumOptions
from evopolicy.authoring.linear import linear_program
from evopolicy.authoring.profile import Profile
from evopolicy.kernel.errors import ConfigError, ExecutionError, did_you_mean
from evopolicy.kernel.ports.benchmark import BenchmarkReference
from evopolicy.kernel.values import Value

_DESCRIPTION = 6_000
_WORDS = 300


def load(*given: Any, **options: Any) -> GymnasiumBenchmark:
    """The Benchmark of a registered id, with the keys of `Asked`; `module:Env-v0` imports `module`
    first.

    Raises ConfigError, naming the key, for a missing, non-finite or too high failure score, an
    unknown id, and an Environment that cannot be made."""
    return load_telling(_nobody, GymnasiumOptions(*given, **options))


def _nobody(phase: str, *, imports: bool = False) -> None:
    """Who looks in his own process has nobody to tell."""


def load_telling(tell: Callable[..., None], options: GymnasiumOptions) -> GymnasiumBenchmark:
    """`load`, which tells before each call of foreign code what it is about to do."""
    tell("while it was imported", imports=True)
    env_id, score = options.env_id, options.score
    registration = _registration(env_id)
    threshold = registration.reward_threshold
    if threshold is not None and score > threshold:
        raise ConfigError(
            f"benchmark.failure_score is {score:g}, above the return {threshold:g} at which "
            f"{env_id} counts as solved; failing would pay: give the worst return a finished "
            "Episode can have, or less"
        )
    if options.max_steps is None and registration.max_episode_steps is None:
        raise ConfigError(f"benchmark.max_steps is missing: {env_id} has no step limit of its own")
    benchmark = _benchmark(options, _goal(env_id, registration))
    benchmark.seen = _look(benchmark, env_id, tell)
    return benchmark


def load_in_subprocess(
    look: Callable[[str, Mapping[str, Any]], Any], *given: Any, **options: Any
) -> GymnasiumBenchmark:
    """`load` in the Host, which runs no foreign code: `look(function, arguments)` calls one in a
    process of its own."""
    wanted = GymnasiumOptions(*given, **options)
    try:
        seen = look("evopolicy.authoring.preflight:look", wanted.options)
    except ExecutionError as error:
        text = f"benchmark.env_id '{wanted.env_id}' cannot be looked at: {error}"
        raise ConfigError(text + _relative(wanted.kwargs)) from error
    except ConfigError as error:
        raise ConfigError(f"{error}{_relative(wanted.kwargs)}") from error
    benchmark = _benchmark(wanted, str(seen["goal"]))
    benchmark.seen = Seen.from_value(seen)
    return benchmark


def _relative(kwargs: Mapping[str, Value] | None) -> str:
    """What to know of a path among `kwargs` that leads somewhere from here: Episodes have folders
    of their own."""
    for key, value in (kwargs or {}).items():
        if isinstance(value, str) and os.path.lexists(value) and not Path(value).is_absolute():
            return (
                f"; benchmark.kwargs.{key} is a path from here, and an Episode needs "
                f"'{Path.cwd() / value}'"
            )
    return ""


load.in_subprocess = load_in_subprocess  # type: ignore[attr-defined]
load.__signature__ = inspect.signature(GymnasiumOptions)  # type: ignore[attr-defined]


class RegisteredBenchmark(GymnasiumBenchmark):
    """One that nobody wrote Programs for: where its spaces are numbers it has a parametric one,
    linear in them."""

    @cached_property
    def programs(self) -> Mapping[str, Path]:
        linear = linear_program(self.seen.observation_space, self.seen.action_space)
        return self.found_programs() | ({"parametric": linear} if linear else {})


def _benchmark(options: GymnasiumOptions, goal: str) -> GymnasiumBenchmark:
    return RegisteredBenchmark(
        _profile(options, goal),
        BenchmarkReference("evopolicy.authoring.gymnasium:load", options.options),
        out_of_bounds=options.out_of_bounds,
        max_steps=options.max_steps,
        kwargs=options.kwargs,
        parameters=options.parameters,
        seed_bits=options.seed_bits,
    )


def error_text(error: BaseException) -> str:
    """An error of foreign code in one line; one without words by the line of code that raised
    it."""
    words = " ".join(str(error).split())
    if not words and (frames := traceback.extract_tb(error.__traceback__)):
        words = f"`{frames[-1].line}` in {Path(frames[-1].filename).name}"
    return f"{type(error).__name__}: {words[:_WORDS]}" if words else type(error).__name__


def slug_of(env_id: str) -> str:
    """`gymnasium-ALE-Pong-v5` of `ale_py:ALE/Pong-v5`: a portable name without the module."""
    name = env_id.rpartition(":")[2]
    return "gymnasium-" + re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _registration(env_id: str) -> Any:
    import gymnasium

    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        near = did_you_mean(name, gymnasium.registry)
        hint = (
            near
            if near.startswith(" Did")
            else " 'module:Name-v0' imports the module that registers it."
        )
        raise ConfigError(
            f"benchmark.env_id '{env_id}' is not registered in Gymnasium.{hint}"
        ) from error
    except (Exception, SystemExit) as error:  # foreign code may raise anything
        words, own = error_text(error), ""
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            words, own = (
                str(error),
                "; one of your own is found from its folder by `python -m evopolicy ...`",
            )
        raise ConfigError(
            f"benchmark.env_id '{env_id}': the module '{module}' cannot be imported: {words}{own}"
        ) from error


def _profile(options: GymnasiumOptions, goal: str) -> Profile:
    name = options.env_id.rpartition(":")[2]
    text: dict[str, Any] = {
        "title": name,
        "goal": goal,
        "scoring": "The score of an Episode is its undiscounted return: the sum of the rewards of "
        "all its steps.",
        "ending": "An Episode ends when the task terminates it, or is truncated at the step limit.",
    }
    return Profile(
        slug=slug_of(options.env_id),
        id=f"gymnasium/{name}",
        env_id=options.env_id,
        failure_score=options.score,
        all_info=True,
        **text | options.profile_parts,
    )


def _goal(env_id: str, registration: Any) -> str:
    name = env_id.rpartition(":")[2]
    goal = (
        f"Control the Gymnasium task `{name}` so that every Episode's return is as high as "
        "possible."
    )
    return f"{goal}\n\n{_description(registration)}"


def _description(registration: Any) -> str:
    """The task's own published documentation: the docstring of its class."""
    from gymnasium.envs.registration import load_env_creator

    entry = registration.entry_point
    try:
        entry = load_env_creator(entry) if isinstance(entry, str) else entry
    except (
        Exception,
        SystemExit,
    ):  # foreign code; that it cannot be imported is said when the Environment is made
        return ""
    while isinstance(entry, functools.partial):
        entry = entry.func
    text = _own_words(entry)
    # What follows is about calling gymnasium.make, which nobody does here.
    text = re.split(r"\n## (?:Arguments|Version History|Vectorized environment)", text)[0].rstrip()
    return text if len(text) <= _DESCRIPTION else text[:_DESCRIPTION].rsplit("\n", 1)[0] + "\n[...]"


def _own_words(entry: object) -> str:
    """The docstring of a function, or of a class or the nearest of its bases that is no general one
    of Gymnasium's."""
    if not inspect.isclass(entry):
        return inspect.getdoc(entry) or "" if inspect.isroutine(entry) else ""
    bases = [
        base
        for base in entry.__mro__
        if base.__module__ not in ("builtins", "abc", "typing", "gymnasium.core")
    ]
    return next(
        (inspect.cleandoc(words) for base in bases if (words := base.__dict__.get("__doc__"))), ""
    )


def _look(benchmark: GymnasiumBenchmark, env_id: str, tell: Callable[..., None]) -> Seen:
    """Make it once, so that a missing package or wrong argument is said before anything is
    spent."""
    tell("while it was made")
    try:
        env = benchmark.open()
    except (Exception, SystemExit) as error:  # foreign code may raise anything
        raise ConfigError(
            f"benchmark.env_id '{env_id}' cannot be made: {error_text(error)}"
        ) from error
    try:
        return seen_of(env, env_id)
    finally:
        tell("in close")
        with suppress(Exception, SystemExit):  # as in an Episode, which is over by then
            env.close()
