"""`check_benchmark`: the contract of a Benchmark, as a test its authors run."""

from __future__ import annotations

import math
import re
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evopolicy.authoring import check_feedback, check_program
from evopolicy.authoring.spaces import belongs, column_names
from evopolicy.kernel.errors import BenchmarkError, InvalidAction
from evopolicy.kernel.ports.benchmark import Benchmark, EpisodeSpec, Split
from evopolicy.kernel.ports.pool import SEED_BITS, SPLITS
from evopolicy.kernel.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    cast_action,
    from_value,
    to_value,
)
from evopolicy.kernel.values import canonical_json, public

_SPACES = (Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict, Tuple)
_COMPARED_STEPS = 200
# Long odd numbers: none of them turns up in a file by chance.
_SEEDS = (710_293_847_561_029_381, 293_847_561_029_384_753, 847_561_029_384_756_107)
_POLICY_SEED = 561_029_384_756_102_939


def check_benchmark(
    benchmark: Benchmark, *, steps: int = 1_000, render: bool = True, deterministic: bool = False
) -> None:
    """Raises BenchmarkError with every breach of the contract found, one a line; returns nothing
    where there is none.

    Runs whole Episodes of random Actions up to `steps` steps and draws one of them with `render`.
    `deterministic` allows a task whose Episodes are all alike, whatever the seed."""
    findings = find_breaches(benchmark, steps=steps, render=render, deterministic=deterministic)
    if findings:
        raise BenchmarkError(
            "the Benchmark breaks its contract:\n" + "\n".join(f"- {text}" for text in findings)
        )


def find_breaches(
    benchmark: Benchmark, *, steps: int = 1_000, render: bool = True, deterministic: bool = False
) -> list[str]:
    """The breaches `check_benchmark` would raise, as sentences."""
    findings = _guarded("spec", lambda: _check_spec(benchmark))
    if findings:
        return findings  # nothing else can be asked of a Benchmark that is not described
    findings += _guarded("reference", lambda: _check_reference(benchmark))
    findings += _guarded("programs", lambda: check_program.check_programs(benchmark))
    findings += _guarded("plan", lambda: _check_plans(benchmark))
    findings += _guarded("Actions", lambda: _check_actions(benchmark))
    episodes = _guarded("Episodes", lambda: _check_episodes(benchmark, steps, deterministic))
    if episodes:
        return findings + episodes
    with tempfile.TemporaryDirectory() as folder:
        findings += _guarded(
            "Feedback",
            lambda: check_feedback.check_feedback(
                benchmark, _specs(benchmark), Path(folder), steps, render
            ),
        )
    return findings


def _guarded(what: str, check: Callable[[], Iterator[str]]) -> list[str]:
    """The findings of one check; whatever it raises is one too."""
    findings: list[str] = []
    try:
        findings.extend(f"{what}: {finding}" for finding in check())
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        findings.append(
            f"{what}: {type(error).__name__}: {error} (in {frame.name}, "
            f"{Path(frame.filename).name})"
        )
    return findings


def _specs(benchmark: Benchmark) -> list[EpisodeSpec]:
    seeds = [seed >> (SEED_BITS - benchmark.spec.seed_bits) for seed in _SEEDS]
    return [
        EpisodeSpec(i, seed, _POLICY_SEED + i, benchmark.plan("training", seed))
        for i, seed in enumerate(seeds)
    ]


# --- description ----------------------------------------------------------------------------------


def _check_spec(benchmark: Benchmark) -> Iterator[str]:
    spec = benchmark.spec
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", spec.slug):
        yield (
            f"the slug {spec.slug!r} is not a portable name (letters, digits, '.', '_', '-', at "
            "most 100)"
        )
    if not re.fullmatch(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+", spec.id):
        yield f"the id {spec.id!r} is not of the form family/Name-vN"
    for name in ("title", "goal", "scoring", "ending"):
        if not str(getattr(spec, name)).strip():
            yield f"the text '{name}' is empty"
    if isinstance(spec.failure_score, bool) or not math.isfinite(spec.failure_score):
        yield f"failure_score is {spec.failure_score!r}, it must be a finite number"
    if (
        isinstance(spec.max_steps, bool)
        or not isinstance(spec.max_steps, int)
        or spec.max_steps < 1
    ):
        yield f"max_steps is {spec.max_steps!r}, it must be a whole number from 1"
    if not 1 <= spec.seed_bits <= SEED_BITS:
        yield f"seed_bits is {spec.seed_bits!r}, it must be a whole number from 1 to {SEED_BITS}"
    if spec.parameters.get("out_of_bounds", "invalid") not in ("invalid", "clip"):
        yield (
            f"the parameter out_of_bounds is {spec.parameters['out_of_bounds']!r}, it is "
            "'invalid' or 'clip'"
        )
    public(dict(spec.parameters), "parameters")
    yield from _check_space(
        "observation", spec.observation_space, spec.observation_fields, spec.observation_text
    )
    yield from _check_space("action", spec.action_space, spec.action_fields, spec.action_text)
    yield from _check_names("measure", [field.name for field in spec.measures])


def _check_space(kind: str, space: Any, fields: Sequence[Any], text: str) -> Iterator[str]:
    if not isinstance(space, _SPACES):
        yield (
            f"the {kind} space is a {type(space).__name__}; describe it with "
            "evopolicy.authoring's spaces"
        )
        return
    if to_value(from_value(to_value(space))) != to_value(space):
        yield f"the {kind} space changes when it is written down and read back"
    names = column_names(space, kind)
    if fields and (names is None or len(fields) != len(names)):
        yield (
            f"{len(fields)} {kind} fields are named, the space has "
            f"{'no table' if names is None else len(names)}"
        )
    if not fields and not text.strip():
        yield f"neither {kind}_fields nor {kind}_text says what an {kind} is"
    yield from _check_names(kind, [field.name for field in fields])
    for field in fields:
        low, high = field.low, field.high
        if low is not None and high is not None and not low <= high:
            yield f"the {kind} field '{field.name}' has the range {low} to {high}"


def _check_names(kind: str, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            yield f"the {kind} name {name!r} is not snake_case"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"the {kind} name '{name}' is there twice"


def _check_reference(benchmark: Benchmark) -> Iterator[str]:
    """Another process makes the same Benchmark from the reference."""
    other = benchmark.reference.load().spec
    public(dict(benchmark.reference.parameters), "reference.parameters")
    if (other.slug, other.digest) != (benchmark.spec.slug, benchmark.spec.digest):
        yield (
            f"it makes '{other.slug}' {dict(other.parameters)}, not '{benchmark.spec.slug}' "
            "with its parameters"
        )


def _check_plans(benchmark: Benchmark) -> Iterator[str]:
    """Equal arguments plan equally; what one split plans, no other does."""
    planned: dict[bytes, Split] = {}
    for number, split in enumerate(SPLITS):
        for i in range(16):
            seed = (_SEEDS[number] >> (SEED_BITS - benchmark.spec.seed_bits)) + 97 * i
            scenario = benchmark.plan(split, seed)
            text = canonical_json(public(dict(scenario), "scenario"))
            if canonical_json(dict(benchmark.plan(split, seed))) != text:
                yield f"plan('{split}', seed) gives another scenario when it is called again"
                return
            if scenario and planned.setdefault(text, split) != split:
                yield (
                    f"'{planned[text]}' and '{split}' both plan {text[:200].decode()}; splits "
                    "share no scenario"
                )
                return


# --- Actions --------------------------------------------------------------------------------------


def _check_actions(benchmark: Benchmark) -> Iterator[str]:
    """Members are taken by the Environment as they are declared; anything else is refused before it
    gets there."""
    spec = benchmark.spec
    episode = _specs(benchmark)[0]
    for action in _members(spec.action_space):
        try:
            member, _ = cast_action(spec.action_space, action)
        except InvalidAction as error:
            yield f"the declared Action {action!r} is refused: {error}"
            continue
        environment = benchmark.make(episode)
        try:
            environment.reset()
            environment.step(member)
        except Exception as error:
            yield (
                f"the Environment does not take the declared Action {action!r}: "
                f"{type(error).__name__}: {error}"
            )
        finally:
            environment.close()
    for action in _strangers(spec.action_space, spec.clips):
        try:
            cast_action(spec.action_space, action, clip=spec.clips)
        except InvalidAction:
            continue
        yield f"the invalid Action {action!r} is taken"


def _members(space: Space) -> list[Any]:
    """Corners of the space, and one from its middle."""
    rng = np.random.default_rng(1)
    members: list[Any] = [space.sample(rng)]
    if isinstance(space, Discrete):
        members += [space.start, space.start + space.n - 1]
    if isinstance(space, Box):
        members += [bound for bound in (space.low, space.high) if np.isfinite(bound).all()]
    if isinstance(space, MultiDiscrete):
        members += [space.nvec - 1]
    return members


def _strangers(space: Space, clips: bool) -> list[Any]:
    """What is no member: wrong kinds, not finite, wrong shape, just outside."""
    strangers: list[Any] = [None, {"no": "action"}]
    if isinstance(space, Discrete):
        strangers += [
            space.start - 1,
            space.start + space.n,
            space.start + 0.5,
            float("nan"),
            [space.start] * 2,
        ]
    if isinstance(space, Box):
        strangers += [
            np.zeros((*space.shape, 2)),
            np.full(space.shape, np.nan),
            np.full(space.shape, np.inf),
        ]
        if not clips and space.dtype.kind == "f" and np.isfinite(space.high).all():
            strangers.append(
                space.high.astype(np.float64) * 1.001 + 0.001 * (1 + np.abs(space.high))
            )
    return strangers


# --- Episodes -------------------------------------------------------------------------------------


def _check_episodes(benchmark: Benchmark, steps: int, deterministic: bool) -> Iterator[str]:
    """The same seed and Actions give the same Episode: again, fresh, and with another one stepping
    beside it."""
    first, second = _specs(benchmark)[:2]
    steps = min(steps, _COMPARED_STEPS)
    alone, fault = _trajectory(benchmark, first, steps)
    if fault:
        yield fault
        return
    if alone != _trajectory(benchmark, first, steps)[0]:
        yield "the same Episode with the same Actions gives another trajectory when it is run again"
    beside = _interleaved(benchmark, first, second, steps)
    if alone != beside:
        yield (
            "an Episode changes when another one steps beside it in the same process: they "
            "share state"
        )
    other, fault = _trajectory(benchmark, second, steps)
    if fault:
        yield fault
    elif not deterministic and alone == other:
        yield (
            "Episodes of different seeds are alike: seed the Environment, or pass "
            "deterministic=True where it is so"
        )


def _trajectory(benchmark: Benchmark, episode: EpisodeSpec, length: int) -> tuple[list[bytes], str]:
    """Each step of an Episode of seeded random Actions as bytes, and what is wrong with a step, or
    ''."""
    steps: list[bytes] = []
    for observation, rest in _steps(benchmark, episode, length):
        steps.append(_bytes(observation) + repr(rest).encode())
        if fault := belongs(benchmark.spec.observation_space, observation):
            return (
                steps,
                f"step {len(steps) - 1}: the observation is not a member of its space: {fault}",
            )
        if not math.isfinite(rest[0]):
            return steps, f"step {len(steps) - 1}: the reward is {rest[0]}"
    return steps, ""


def _steps(
    benchmark: Benchmark, episode: EpisodeSpec, length: int
) -> Generator[tuple[Any, tuple[float, bool, bool, Any]], None, None]:
    rng = np.random.default_rng(7)
    space = benchmark.spec.action_space
    environment = benchmark.make(episode)
    try:
        yield environment.reset(), (0.0, False, False, {})
        for _ in range(min(length, benchmark.spec.max_steps)):
            action, _ = cast_action(space, space.sample(rng))
            observation, reward, terminated, truncated, info = environment.step(action)
            yield observation, (reward, terminated, truncated, dict(sorted(info.items())))
            if terminated or truncated:
                return
    finally:
        environment.close()


def _interleaved(
    benchmark: Benchmark, episode: EpisodeSpec, other: EpisodeSpec, length: int
) -> list[bytes]:
    """The trajectory of `episode` while `other` is made before it and stepped in turn with it."""
    beside = _steps(benchmark, other, length)
    next(beside)
    steps = []
    for observation, rest in _steps(benchmark, episode, length):
        steps.append(_bytes(observation) + repr(rest).encode())
        next(beside, None)
    beside.close()
    return steps


def _bytes(value: Any) -> bytes:
    if isinstance(value, Mapping):
        return b"".join(str(key).encode() + _bytes(value[key]) for key in sorted(value))
    if isinstance(value, tuple | list):
        return b"".join(_bytes(item) for item in value)
    return np.asarray(value).tobytes() if not isinstance(value, str) else value.encode()
