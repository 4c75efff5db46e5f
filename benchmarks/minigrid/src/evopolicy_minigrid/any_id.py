"""`benchmark=minigrid`: any MiniGrid or BabyAI id, with the texts, measures and text grids of the
family."""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from evopolicy.authoring import (
    BenchmarkReference,
    BenchmarkSpec,
    ConfigError,
    Dict,
    OutOfBounds,
    Profile,
    Text,
    Value,
    did_you_mean,
    programs_folder,
)
from evopolicy_minigrid.benchmark import MiniGridBenchmark
from evopolicy_minigrid.tasks import profile
from evopolicy_minigrid.texts import KEY, LIMIT, LOCKED_DOOR, OWN, SCORING, actions

_TRIED = 8
_NAVIGATIONS = {"action": 1, "and": 2, "seq": 4}


class AnyMiniGrid(MiniGridBenchmark):
    """A registered id; what its missions look like is asked of a few of its own Episodes."""

    @cached_property
    def spec(self) -> BenchmarkSpec:
        spec = super().spec
        space = spec.observation_space
        mission = space.spaces.get("mission") if isinstance(space, Dict) else None
        if isinstance(space, Dict) and isinstance(mission, Text):
            mission = replace(mission, examples=self._missions())
            spec = replace(spec, observation_space=Dict({**space.spaces, "mission": mission}))
        return spec

    def _missions(self) -> tuple[str, ...]:
        env = self.open()
        try:
            return tuple(
                sorted({str(env.reset(seed=seed)[0]["mission"]) for seed in range(_TRIED)})
            )
        finally:
            env.close()


def load_any(
    env_id: str = "",
    failure_score: float | None = None,
    out_of_bounds: OutOfBounds = "invalid",
    max_steps: int | None = None,
    kwargs: Mapping[str, Value] | None = None,
) -> MiniGridBenchmark:
    """The Benchmark of a registered MiniGrid or BabyAI id.

    `failure_score` is 0, or -1 where an Episode can end with the reward -1 (Dynamic-Obstacles),
    unless given. Raises ConfigError, naming the key, for an unknown id and for an Environment that
    cannot be made."""
    task, own, varies = _survey(env_id, kwargs or {})
    parameters: dict[str, Value] = {"env_id": env_id}
    if failure_score is not None:
        number = isinstance(failure_score, int | float) and not isinstance(failure_score, bool)
        if not number or not math.isfinite(failure_score):
            raise ConfigError(
                f"benchmark.failure_score is a finite number, found {failure_score!r}"
            )
        parameters["failure_score"] = float(failure_score)
    options: dict[str, Value] = {"out_of_bounds": out_of_bounds}
    options |= {"max_steps": max_steps} if max_steps is not None else {}
    options |= {"kwargs": dict(kwargs)} if kwargs else {}
    score = float(failure_score) if failure_score is not None else -1.0 if _collides(task) else 0.0
    return AnyMiniGrid(
        _profile(env_id, own, varies, score, task),
        BenchmarkReference("evopolicy_minigrid:load_any", {**parameters, **options}),
        programs_folder(__file__) / "minigrid",
        out_of_bounds=out_of_bounds,
        max_steps=max_steps,
        kwargs=kwargs,
        parameters=parameters,
    )


def _survey(env_id: str, kwargs: Mapping[str, Value]) -> tuple[Any, int, bool]:
    """The task's innermost Environment, its largest step limit, and whether the limit depends on
    the Episode."""
    import gymnasium

    importlib.import_module("minigrid")
    if not isinstance(env_id, str) or not env_id:
        raise ConfigError(
            "benchmark.env_id is missing: give a MiniGrid or BabyAI id, such as BabyAI-GoTo-v0"
        )
    if env_id not in gymnasium.registry:
        ids = [name for name in gymnasium.registry if name.startswith(("MiniGrid-", "BabyAI-"))]
        raise ConfigError(
            f"benchmark.env_id '{env_id}' is not registered in "
            f"Gymnasium.{did_you_mean(env_id, ids)}"
        )
    keywords: dict[str, Any] = dict(kwargs)
    try:
        env = gymnasium.make(env_id, disable_env_checker=True, **keywords)
    except Exception as error:  # foreign code may raise anything
        raise ConfigError(
            f"benchmark.env_id '{env_id}' cannot be made: {type(error).__name__}: {error}"
        ) from error
    try:
        task: Any = env.unwrapped
        if not hasattr(task, "agent_view_size"):
            raise ConfigError(
                f"benchmark.env_id '{env_id}' is no MiniGrid task; benchmark=gymnasium takes any id"
            )
        own, varies = _own_limit(env, task)
        return task, own, varies
    finally:
        env.close()


def _own_limit(env: Any, task: Any) -> tuple[int, bool]:
    """The largest limit an Episode of `task` can have. BabyAI's depends on how many walks the
    mission needs."""
    if getattr(task, "fixed_max_steps", True):
        return int(task.max_steps), False
    limits = set()
    for seed in range(_TRIED):
        env.reset(seed=seed)
        limits.add(int(task.max_steps))
    kinds = getattr(task, "instr_kinds", ())
    if kinds:  # drawn from a grammar: the longest mission may be rare
        walks = max(_NAVIGATIONS.get(kind, 4) for kind in kinds) * (
            2 if "putnext" in task.action_kinds else 1
        )
        limits.add(int(walks * task.room_size**2 * task.num_rows * task.num_cols))
    return max(limits), len(limits) > 1


def _profile(env_id: str, own: int, varies: bool, failure_score: float, task: Any) -> Profile:
    return profile(
        "minigrid-" + re.sub(r"[^A-Za-z0-9._-]+", "-", env_id.removeprefix("MiniGrid-")),
        env_id,
        own,
        (*KEY, *LOCKED_DOOR),
        title=env_id,
        goal=f"Fulfil the mission each observation of `{env_id}` names, in as few steps as "
        f"possible.\n\n{_about(task)}",
        scoring=_scoring(varies, failure_score, _collides(task)),
        ending=(
            "**Terminated** when the mission is fulfilled, or can no longer be. **Truncated** "
            "after "
            + (f"the Episode's own limit, at most {LIMIT} steps." if varies else f"{LIMIT} steps.")
        ),
        failure_score=failure_score,
        action_fields=actions(int(task.action_space.n)),
    )


def _scoring(varies: bool, failure_score: float, collides: bool) -> str:
    """The family's text, with what is different in a task of many limits or of collisions."""
    limit = (
        f"the Episode's own step limit, which depends on its mission and is at most {OWN}"
        if varies
        else OWN
    )
    usual = "scores 0 in it, as much as one that does not solve it"
    changes = {
        f"`1 - 0.9 n / {OWN}`": "`1 - 0.9 n / L`",
        "the number of steps taken.": f"the number of steps taken and L is {limit}.",
        usual: usual if not failure_score else f"scores {failure_score:g} in it",
    }
    if collides:
        usual_start = "The reward is 0 at every step but"
        collision = "Moving into an obstacle or a wall ends the Episode with the reward -1."
        changes[usual_start] = f"{collision} {usual_start}"
        changes["their sum: 0 where it is not solved"] = "their sum: 0 or -1 where it is not solved"
    text = SCORING
    for part, instead in changes.items():
        text = text.replace(part, instead)
    return text


def _collides(task: Any) -> bool:
    return any(cls.__name__ == "DynamicObstaclesEnv" for cls in type(task).__mro__)


def _about(task: Any) -> str:
    """The description in the task's own docstring."""
    text = inspect.getdoc(type(task)) or ""
    found = re.search(r"## Description\s+(.+?)(?=\n## |\Z)", text, re.DOTALL)
    return found.group(1).strip() if found else ""
