"""Looking at an Environment nobody here wrote, before anything is spent: what it is, and whether
Episodes run in it.

Runs in a process of its own, never in the Host: foreign code may exit, crash, hang or leave
processes behind."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evopolicy.authoring.benchmark import GymnasiumBenchmark
from evopolicy.authoring.gymnasium import error_text, load_telling
from evopolicy.authoring.gymnasium_options import GymnasiumOptions
from evopolicy.authoring.replay import load_policy, policy_context, run_program
from evopolicy.authoring.spaces import misfit, own_action
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.benchmark import BenchmarkReference, EpisodeSpec
from evopolicy.kernel.session.failures import INEXACT, SAME_EPISODES, SEED_SHOWN
from evopolicy.kernel.spaces import cast_action

LEAST_STEPS, MOST_STEPS = 5, 200
CPU_SECONDS = 0.25
"""Of this process: after so much no further step is taken, but for the least."""
_SEED = 24_071
_OLD = "Gymnasium's API since 0.26 is"

Tell = Callable[[str], None]


class _Raised(Exception):
    """`step` raised: its cause is what it raised."""


@dataclass
class _Trial:
    """What was seen of one Episode."""

    seen: list[tuple[Any, float, bool]] = field(default_factory=list)
    """Observation, reward and end of the reset and of every step."""
    actions: list[Any] = field(default_factory=list)
    note: str = ""
    """What an engineer should know of the observations."""

    @property
    def ended(self) -> bool:
        return self.seen[-1][2]


def look(tell: Callable[..., None], **arguments: Any) -> dict[str, Any]:
    """What `gymnasium.load(**arguments)` makes, as plain values. Raises ConfigError where Episodes
    cannot run in it."""
    benchmark = load_telling(tell, GymnasiumOptions(**arguments))
    note, remarks = _try_episodes(benchmark, tell)
    return {
        "goal": benchmark.profile.goal,
        **replace(benchmark.seen, note=note, remarks=tuple(remarks)).value(),
    }


def look_at_installed(
    tell: Callable[..., None], factory: str, parameters: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The `Seen` of another author's Benchmark as a plain value, None for one that is not
    Gymnasium's.

    Raises ConfigError where an Episode of its initial Program cannot begin.
    """
    tell("while it was imported", imports=True)
    benchmark = BenchmarkReference(factory, parameters).load()
    tell("while it was made", imports=True)
    spec = benchmark.spec
    episode = EpisodeSpec(0, _SEED, 1, benchmark.plan("training", _SEED))
    tell("in an Episode of the initial Program")
    try:
        run_program(benchmark, benchmark.programs["initial"], episode, steps=LEAST_STEPS)
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"benchmark '{spec.slug}': an Episode of its initial Program failed: "
            f"{error_text(error)}"
        ) from error
    return benchmark.seen.value() if isinstance(benchmark, GymnasiumBenchmark) else None


def _try_episodes(benchmark: GymnasiumBenchmark, tell: Tell) -> tuple[str, list[str]]:
    episode = EpisodeSpec(0, _SEED, 1)
    try:
        trial = _sampled(benchmark, episode, tell)
        remarks = _again(benchmark, episode, trial, tell)
    except ConfigError as error:
        raise ConfigError(f"benchmark.env_id '{benchmark.profile.env_id}': {error}") from error
    _check_failure_score(benchmark, trial)
    return trial.note, remarks


def _sampled(benchmark: GymnasiumBenchmark, episode: EpisodeSpec, tell: Tell) -> _Trial:
    """An Episode of sampled Actions; where one makes the Environment raise, the initial Program's
    must not."""
    rng = np.random.default_rng(7)
    space = benchmark.spec.action_space
    trial = _Trial()
    try:
        _play(benchmark, episode, lambda _: space.sample(rng), trial, tell)
    except _Raised:
        trial.actions.pop()
        initial = load_policy(benchmark.programs["initial"], policy_context(benchmark, episode))
        try:
            _play(benchmark, episode, initial.act, _Trial(), tell)
        except _Raised as raised:
            cause = raised.__cause__ or raised
            raise ConfigError(
                f"step raised {error_text(cause)}{_old_step(benchmark, episode)}"
            ) from cause
    return trial


def _play(
    benchmark: GymnasiumBenchmark,
    episode: EpisodeSpec,
    act: Callable[[Any], Any],
    trial: _Trial,
    tell: Tell,
) -> None:
    """Some steps into `trial`, everything the Environment gives looked at as it comes."""
    spec = benchmark.spec
    tell("while it was made")
    env = benchmark.open()
    own = own_action(env.action_space)
    try:
        observation = _reset(env, episode, tell)
        trial.note = _observed(benchmark, observation, "reset")
        trial.seen.append((benchmark.member(observation), 0.0, False))
        for number, limit in enumerate(_limits(), 1):
            if number > min(spec.max_steps, limit):
                return
            action, _ = cast_action(spec.action_space, act(observation), clip=spec.clips)
            trial.actions.append(action)
            tell(f"in step {number}")
            try:
                given = env.step(own(action) if own else action)
            except (Exception, SystemExit) as error:
                raise _Raised from error
            observation, ended = _stepped(benchmark, given, number, trial)
            if ended:
                return
    finally:
        _close(env, tell)


def _limits() -> Iterator[int]:
    """Before each step, how many there may be."""
    begun = time.process_time()
    while True:
        yield MOST_STEPS if time.process_time() - begun < CPU_SECONDS else LEAST_STEPS


def _reset(env: Any, episode: EpisodeSpec, tell: Tell) -> Any:
    tell("in reset")
    try:
        given = env.reset(seed=episode.seed)
    except (Exception, SystemExit) as error:
        old = f"; {_OLD} reset(seed=..., options=...)" if isinstance(error, TypeError) else ""
        raise ConfigError(f"reset raised {error_text(error)}{old}") from error
    if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)):
        raise ConfigError(f"reset gave {_kind(given)}; {_OLD} (observation, info), info a dict")
    return given[0]


def _stepped(
    benchmark: GymnasiumBenchmark, given: Any, number: int, trial: _Trial
) -> tuple[Any, bool]:
    if not (isinstance(given, tuple) and len(given) == 5):
        raise ConfigError(
            f"step gave {_kind(given)}; {_OLD} (observation, reward, terminated, truncated, info)"
        )
    observation, reward, terminated, truncated, info = given
    if not isinstance(info, Mapping):
        raise ConfigError(f"step gave {_kind(info)} as info; a dict is needed")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if np.size(flag) != 1:
            raise ConfigError(f"step gave {_kind(flag)} as {name}; True or False is needed")
    note = _observed(benchmark, observation, f"step {number}")
    trial.note = trial.note or note
    ended = bool(terminated) or bool(truncated)
    trial.seen.append((benchmark.member(observation), _reward(reward, number), ended))
    return observation, ended


def _reward(reward: Any, number: int) -> float:
    try:
        if np.size(reward) != 1:
            raise TypeError
        value = float(reward)
    except (TypeError, ValueError):
        raise ConfigError(
            f"step {number} gave {_kind(reward)} as reward; one number is needed: wrap it"
        ) from None
    if not math.isfinite(value):
        raise ConfigError(f"step {number} gave the reward {value}; rewards are finite numbers")
    return value


def _observed(benchmark: GymnasiumBenchmark, observation: Any, where: str) -> str:
    fault, note = misfit(benchmark.spec.observation_space, observation)
    if fault:
        raise ConfigError(
            f"the observation of {where} is not a member of the observation space: {fault}"
        )
    return note


def _again(
    benchmark: GymnasiumBenchmark, episode: EpisodeSpec, trial: _Trial, tell: Tell
) -> list[str]:
    """The same seed and Actions once more, as an Episode is played, have to give the same, with
    another beside it."""
    tell("while it was made")
    environment, other = benchmark.make(episode), _Beside(benchmark, trial)
    try:
        tell("in reset")
        found = [(environment.reset(), 0.0, False)]
        for number, action in enumerate(trial.actions, 1):
            tell(f"in step {number}")
            other.step(number)
            observation, reward, terminated, truncated, _ = environment.step(action)
            found.append((observation, reward, terminated or truncated))
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"an Episode failed when its seed and Actions were repeated: {error_text(error)}"
        ) from error
    finally:
        other.close()
        _close(environment, tell)
    remarks = [SAME_EPISODES] if other.same else [SEED_SHOWN] if other.shows_seed else []
    for number, (first, second) in enumerate(zip(trial.seen, found, strict=True)):
        if name := _difference(first, second):
            if not _difference(first, second, _nearly):
                remarks.append(INEXACT)  # what it makes of that later says no more
                break
            where = f"step {number}" if number else "reset"
            raise ConfigError(
                f"the same seed and Actions gave another {name} in {where}, with another Episode "
                "beside it: it draws from a generator that reset(seed=...) does not seed, or "
                "keeps state outside of the Environment"
            )
    return remarks


class _Beside:
    """An Episode of another seed in the same process, as a worker steps several in turn. What it
    raises is nothing."""

    def __init__(self, benchmark: GymnasiumBenchmark, trial: _Trial) -> None:
        self._trial = trial
        self.same = self.shows_seed = False
        self._environment: Any = None
        with suppress(Exception, SystemExit):
            random.seed(_SEED)
            np.random.seed(_SEED)
            self._environment = benchmark.make(EpisodeSpec(1, _SEED + 1, 1))
            first = self._environment.reset()
            self.same = not _difference(trial.seen[0], (first, 0.0, False))
            # In both: a number may be in one of them by chance.
            self.shows_seed = _holds(trial.seen[0][0], _SEED) and _holds(first, _SEED + 1)

    def step(self, number: int) -> None:
        """The same Action, until it ends."""
        if self._environment is None:
            return
        ended = True
        with suppress(Exception, SystemExit):
            observation, reward, terminated, truncated, _ = self._environment.step(
                self._trial.actions[number - 1]
            )
            ended = terminated or truncated
            self.same &= not _difference(self._trial.seen[number], (observation, reward, ended))
        if ended:
            self.same &= number == len(self._trial.actions)
            self.close()

    def close(self) -> None:
        environment, self._environment = self._environment, None
        with suppress(Exception, SystemExit):
            environment.close()


def _holds(observation: Any, number: int) -> bool:
    """Whether `number` is in an observation, as a number or within a text. No key is: the space
    names them."""
    if isinstance(observation, Mapping):
        return any(_holds(one, number) for one in observation.values())
    if isinstance(observation, tuple):
        return any(_holds(one, number) for one in observation)
    return (
        str(number) in observation
        if isinstance(observation, str)
        else bool(np.any(np.equal(observation, number)))
    )


def _exactly(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other))


def _nearly(one: Any, other: Any) -> bool:
    """Whether they may differ by rounding: some simulators' sums depend on where in memory their
    numbers lie."""
    if not isinstance(one, float | np.ndarray) or np.asarray(one).dtype.kind != "f":
        return _exactly(one, other)
    return np.shape(one) == np.shape(other) and bool(np.allclose(one, other, rtol=1e-6, atol=1e-9))


def _difference(
    one: tuple[Any, float, bool],
    other: tuple[Any, float, bool],
    same: Callable[[Any, Any], bool] = _exactly,
) -> str:
    """What of an observation, a reward and an end differs."""
    names = ("observation", "reward", "end")
    return next(
        (name for name, a, b in zip(names, one, other, strict=True) if not _equal(a, b, same)), ""
    )


def _equal(one: Any, other: Any, same: Callable[[Any, Any], bool]) -> bool:
    if isinstance(one, Mapping):
        return all(_equal(one[key], other[key], same) for key in one)
    if isinstance(one, tuple):
        return all(_equal(a, b, same) for a, b in zip(one, other, strict=True))
    return same(one, other)


def _check_failure_score(benchmark: GymnasiumBenchmark, trial: _Trial) -> None:
    total = math.fsum(reward for _, reward, _ in trial.seen)
    truncated = len(trial.actions) >= benchmark.spec.max_steps
    if (trial.ended or truncated) and total < benchmark.spec.failure_score:
        raise ConfigError(
            f"benchmark.failure_score is {benchmark.spec.failure_score:g}, and a finished Episode "
            f"of random Actions scored {total:g}: failing would pay; give the worst return a "
            "finished Episode can have, or less"
        )


def _old_step(benchmark: GymnasiumBenchmark, episode: EpisodeSpec) -> str:
    """What to add where the Environment's own step gives four values, over which Gymnasium's
    wrappers stumble."""
    space = benchmark.spec.action_space
    try:
        env = benchmark.open().unwrapped
        env.reset(seed=episode.seed)
        action, _ = cast_action(space, space.sample(np.random.default_rng(7)))
        given = env.step(action)
    except (Exception, SystemExit):
        return ""
    if isinstance(given, tuple) and len(given) == 5:
        return ""
    return f": step gave {_kind(given)}; {_OLD} (observation, reward, terminated, truncated, info)"


def _close(env: Any, tell: Tell) -> None:
    tell("in close")
    with suppress(Exception, SystemExit):  # the Episode is over by then: a worker bears it too
        env.close()


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    return f"{type(value).__name__} {value!r:.40}"
