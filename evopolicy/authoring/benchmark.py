"""`GymnasiumBenchmark`: a kernel `Benchmark` made from a `Profile`."""

from __future__ import annotations

import importlib
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from evopolicy.authoring.environment import RESERVED, GymnasiumEnvironment
from evopolicy.authoring.profile import Profile
from evopolicy.authoring.spaces import column_names, member_of, space_from_gymnasium
from evopolicy.kernel.errors import BenchmarkError, ConfigError, did_you_mean
from evopolicy.kernel.ports.benchmark import (
    Artifact,
    BenchmarkReference,
    BenchmarkSpec,
    Environment,
    EpisodeSpec,
    Field,
    Split,
)
from evopolicy.kernel.ports.evaluation import grade
from evopolicy.kernel.ports.outcome import EpisodeResult, Outcome, failure_counts
from evopolicy.kernel.ports.pool import SEED_BITS
from evopolicy.kernel.spaces import Space, from_value, to_value
from evopolicy.kernel.values import Value

OutOfBounds: TypeAlias = Literal["invalid", "clip"]
_RESERVED = ("id", "max_episode_steps", "disable_env_checker", "vectorization_mode")
PAPER_NAMES: Mapping[str, str] = {
    "Acrobot-v1": "gym/acrobot",
    "MountainCarContinuous-v0": "gym/continuouscar",
    "BipedalWalker-v3": "gym/bipedal",
    "CarRacing-v3": "gym/racing",
    "Reacher-v5": "gym/reacher5",
    "HalfCheetah-v5": "gym/halfcheetah5",
    "Ant-v5": "gym/ant5",
    "Pusher-v5": "gym/pusher5",
}
"""The paper's short names (arXiv 2607.02440, research code 0.1) of the tasks that have one."""
LEAST_SEED_BITS = 16
"""With fewer even a small pool would hold the same seed twice."""
PROGRAMS = Path(__file__).parent / "programs"
"""The Programs any task has: 'initial' (a neutral constant Action) and 'random' (uniform)."""


@dataclass(frozen=True)
class Seen:
    """What only an Environment that was made can tell of itself."""

    observation_space: Space
    action_space: Space
    max_steps: int | None
    note: str = ""
    """What an engineer should know of its observations."""
    remarks: tuple[str, ...] = ()
    """What a reader of its Runs should know: words of the kernel's table of failures."""

    def value(self) -> dict[str, Any]:
        """Plain, for another process; `from_value` turns it back."""
        spaces = {
            "observation": to_value(self.observation_space),
            "action": to_value(self.action_space),
        }
        return {
            **spaces,
            "max_steps": self.max_steps,
            "note": self.note,
            "remarks": list(self.remarks),
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Seen:
        spaces = from_value(value["observation"]), from_value(value["action"])
        return cls(
            *spaces, value["max_steps"], str(value["note"]), tuple(map(str, value["remarks"]))
        )


def seen_of(env: Any, env_id: str) -> Seen:
    """Raises BenchmarkError where its spaces are of kinds the ABI does not carry."""
    return Seen(
        space_from_gymnasium(env.observation_space, f"{env_id}: observation"),
        space_from_gymnasium(env.action_space, f"{env_id}: action"),
        env.spec.max_episode_steps if env.spec else None,
    )


class GymnasiumBenchmark:
    """One Gymnasium task behind the kernel's `Benchmark` protocol.

    `gymnasium.make(profile.env_id, **kwargs)` as it is, fresh for every Episode; its TimeLimit
    truncates. An Episode's score is its undiscounted return. Subclass it where a task needs more
    than a profile can say: `open`, `summarize`, `artifacts` and `render` are made to be extended.
    """

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
        seed_bits: int = SEED_BITS,
    ) -> None:
        """`programs` holds one folder per kind of Program; `parameters` are further public ones.

        `max_steps` and `kwargs` change the task and are then public parameters too, as `seed_bits`
        below 63 are: for an Environment whose `reset` takes no larger seeds. Raises ConfigError.
        """
        check_options(out_of_bounds, max_steps, kwargs, seed_bits)
        self.profile = profile
        self._reference = reference
        self._programs = programs
        self._max_steps = max_steps if max_steps is not None else profile.max_steps
        self._kwargs = {**profile.kwargs, **(kwargs or {})}
        self._parameters: dict[str, Value] = {"out_of_bounds": out_of_bounds, **(parameters or {})}
        if max_steps is not None:
            self._parameters["max_steps"] = max_steps
        if kwargs:
            self._parameters["kwargs"] = dict(kwargs)
        self._seed_bits = seed_bits
        if seed_bits != SEED_BITS:
            self._parameters["seed_bits"] = seed_bits

    # --- what it is -------------------------------------------------------------------------------

    @property
    def reference(self) -> BenchmarkReference:
        return self._reference

    @cached_property
    def spec(self) -> BenchmarkSpec:
        """Built from the Environment's own spaces at first use. Raises BenchmarkError where they do
        not fit."""
        seen = self.seen
        observation_space, action_space, max_steps = (
            seen.observation_space,
            seen.action_space,
            seen.max_steps,
        )
        if max_steps is None:
            raise BenchmarkError(
                f"{self.profile.env_id} has no step limit of its own; give max_steps"
            )
        profile = self.profile
        observation_fields = _fields(
            profile, "observation", profile.observation_fields, observation_space
        )
        action_fields = _fields(profile, "action", profile.action_fields, action_space)
        _check_names(
            profile,
            [field.name for field in observation_fields],
            [field.name for field in action_fields],
        )
        return BenchmarkSpec(
            id=profile.id,
            slug=profile.slug,
            title=profile.title,
            goal=profile.goal,
            scoring=profile.scoring,
            ending=profile.ending,
            observation_space=observation_space,
            action_space=action_space,
            max_steps=int(max_steps),
            failure_score=float(profile.failure_score),
            observation_fields=observation_fields,
            action_fields=action_fields,
            observation_text=" ".join(
                filter(
                    None,
                    (
                        profile.observation_text or _unexplained(observation_space, "observation"),
                        seen.note,
                    ),
                )
            ),
            action_text=profile.action_text or _unexplained(action_space, "action"),
            measures=tuple(Field(m.name, m.unit, meaning=m.meaning) for m in profile.measures),
            parameters=self._parameters,
            seed_bits=self._seed_bits,
            case_name=PAPER_NAMES.get(profile.id.rpartition("/")[2], ""),
            remarks=seen.remarks,
        )

    @cached_property
    def seen(self) -> Seen:
        """By making an Environment, where nobody has looked at one yet."""
        env = self._try_out()
        try:
            return seen_of(env, self.profile.env_id)
        finally:
            env.close()

    @cached_property
    def member(self) -> Callable[[Any], Any]:
        """Makes an Environment's observation what a Policy is given."""
        return member_of(self.spec.observation_space)

    @cached_property
    def programs(self) -> Mapping[str, Path]:
        return self.found_programs()

    def found_programs(self) -> dict[str, Path]:
        """The task's own folders over those it has in common with others of its family, over those
        any task has."""
        found = {
            folder.name: folder for folder in PROGRAMS.iterdir() if (folder / "policy.py").is_file()
        }
        if self._programs is not None:
            family = self._programs.parent
            found.update(
                {kind: family / slug / kind for kind, slug in self.profile.programs_of.items()}
            )
        if self._programs is not None and self._programs.is_dir():
            found.update(
                {f.name: f for f in self._programs.iterdir() if (f / "policy.py").is_file()}
            )
        return dict(sorted(found.items()))

    # --- Episodes ---------------------------------------------------------------------------------

    def open(self, **options: Any) -> Any:
        """A fresh `gymnasium.Env`; `options` are added for drawing (`render_mode`). Imports what it
        needs."""
        import gymnasium

        for module in self.profile.imports:
            importlib.import_module(module)
        # The passive checker only warns, changes no result and costs a third of a short Episode.
        keywords: dict[str, Any] = {"disable_env_checker": True, **self._kwargs, **options}
        if self._max_steps is not None:
            keywords["max_episode_steps"] = self._max_steps
        return gymnasium.make(self.profile.env_id, **keywords)

    def _try_out(self) -> Any:
        try:
            return self.open()
        except Exception as error:  # foreign code may raise anything
            reason = f"{type(error).__name__}: {error}"
            if "kwargs" in self._parameters:
                raise ConfigError(
                    f"benchmark.kwargs: {self.profile.env_id} cannot be made with them: {reason}"
                ) from error
            raise BenchmarkError(f"{self.profile.env_id} cannot be made: {reason}") from error

    def plan(self, split: Split, seed: int) -> Mapping[str, Value]:  # noqa: ARG002
        """Nothing to draw: the seed alone makes the Episode."""
        return {}

    def make(self, episode: EpisodeSpec) -> Environment:
        return self.wrap(self.open(), episode)

    def wrap(self, env: Any, episode: EpisodeSpec) -> Environment:
        """`env` (from `open`) as the Environment of `episode`: columns, measures and checks around
        it."""
        return GymnasiumEnvironment(env, self.profile, self.spec, episode)

    def score(self, outcome: Outcome) -> float:
        return outcome.episode_return

    # --- Feedback ---------------------------------------------------------------------------------

    def summarize(self, outcomes: Sequence[Outcome]) -> Mapping[str, Value]:
        """Returns, lengths, endings, failures by kind; the mean of each numeric measure, counts of
        each worded one."""
        return summarize(outcomes, clips=self.spec.clips)

    def artifacts(self, results: Sequence[EpisodeResult], folder: Path) -> Sequence[Artifact]:
        """One trace per Episode (CSV, or NPZ for images and grids) and `episodes/traces.json`,
        which explains them."""
        from evopolicy.authoring.traces import write_traces

        return write_traces(self.spec, self.profile, results, folder, first=self.pictured(results))

    def pictured(self, results: Sequence[EpisodeResult]) -> Sequence[int]:
        """The worst, the median and the best Episode, as far as they differ."""
        return worst_median_best(results, lambda outcome: grade(self, outcome).score)

    def render(self, episode: EpisodeSpec, trace: Path, folder: Path) -> Sequence[Artifact]:
        """An animated GIF and a PNG contact sheet, frames numbered by step; nothing where it cannot
        draw."""
        from evopolicy.authoring.replay import draw_replay

        return draw_replay(self, episode, trace, folder)


def check_options(
    out_of_bounds: str,
    max_steps: int | None,
    kwargs: Mapping[str, Value] | None,
    seed_bits: int = SEED_BITS,
) -> None:
    """Raises ConfigError, naming the key, for options no task can have."""
    if out_of_bounds not in get_args(OutOfBounds):
        raise ConfigError(
            f"benchmark.out_of_bounds is 'invalid' or 'clip', found {out_of_bounds!r}"
        )
    if max_steps is not None and (
        isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1
    ):
        raise ConfigError(
            f"benchmark.max_steps is a whole number of steps from 1, found {max_steps!r}"
        )
    whole = isinstance(seed_bits, int) and not isinstance(seed_bits, bool)
    if not whole or not LEAST_SEED_BITS <= seed_bits <= SEED_BITS:
        raise ConfigError(
            f"benchmark.seed_bits is a whole number from {LEAST_SEED_BITS} to {SEED_BITS}, found "
            f"{seed_bits!r}"
        )
    for key in kwargs or {}:
        if key in _RESERVED:
            raise ConfigError(
                f"benchmark.kwargs.{key} is not free: EvoPolicy sets it; leave it out"
            )
    if kwargs and kwargs.get("render_mode") == "human":
        raise ConfigError(
            "benchmark.kwargs.render_mode: 'human' opens a window that nobody sees; choose one "
            "that draws into arrays, such as rgb_array"
        )


def summarize(outcomes: Sequence[Outcome], *, clips: bool = False) -> dict[str, Value]:
    """Public aggregates of `outcomes`, failed Episodes included."""
    if not outcomes:
        return {"episodes": 0}
    returns = [outcome.episode_return for outcome in outcomes]
    lengths = [outcome.length for outcome in outcomes]
    endings = Counter(outcome.ending for outcome in outcomes)
    summary: dict[str, Value] = {
        "episodes": len(outcomes),
        "return": {
            "mean": statistics.fmean(returns),
            "standard_deviation": statistics.pstdev(returns),
            "min": min(returns),
            "max": max(returns),
        },
        "length": {"mean": statistics.fmean(lengths), "min": min(lengths), "max": max(lengths)},
        "endings": {ending: endings[ending] for ending in ("terminated", "truncated", "failed")},
        "failures": dict(failure_counts(outcomes)),
        "measures": _mean_measures(outcomes),
    }
    if clips:
        summary["clipped_actions"] = sum(outcome.clipped for outcome in outcomes)
    return summary


def _mean_measures(outcomes: Sequence[Outcome]) -> dict[str, Value]:
    values: dict[str, list[Value]] = {}
    for outcome in outcomes:
        for name, value in outcome.measures.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    means: dict[str, Value] = {}
    for name, found in values.items():
        numbers = [float(x) for x in found if isinstance(x, bool | int | float)]
        if len(numbers) == len(found):
            means[name] = statistics.fmean(numbers)
        else:
            means[name] = dict(sorted(Counter(str(x) for x in found).items()))
    return means


def worst_median_best(
    results: Sequence[EpisodeResult], score: Callable[[Outcome], float]
) -> list[int]:
    """Indices of the traced Episodes with the lowest, middle and highest `score`, without
    repeats."""
    graded = []
    for result in results:
        outcome = result.outcome
        if outcome is not None and result.trace is not None and outcome.length:
            graded.append((score(outcome), outcome.index))
    if not graded:
        return []
    graded.sort()
    chosen = (graded[0], graded[(len(graded) - 1) // 2], graded[-1])
    return list(dict.fromkeys(index for _, index in chosen))


def _fields(
    profile: Profile, kind: str, fields: tuple[Field, ...], space: Any
) -> tuple[Field, ...]:
    """The profile's own fields, or unnamed ones for a small table. Raises BenchmarkError where they
    do not fit."""
    names = column_names(space, kind)
    if fields:
        size = "no table" if names is None else f"{len(names)} numbers"
        if names is None or len(names) != len(fields):
            raise BenchmarkError(
                f"{profile.slug}: {len(fields)} {kind} fields are named, the space of "
                f"{profile.env_id} has {size}; leave out the kwargs that change it, or name them "
                "all"
            )
        return fields
    return () if names is None else tuple(Field(name) for name in names)


def _check_names(profile: Profile, observation: Sequence[str], action: Sequence[str]) -> None:
    """Raises BenchmarkError where two columns of a trace share a name, or a measure is of none of
    them."""
    columns = ["reward", *observation, *(column.name for column in profile.columns)]
    names = [*RESERVED, *columns[1:], *action]
    for name in names:
        if names.count(name) > 1:
            raise BenchmarkError(
                f"{profile.slug}: two columns are called '{name}'; rename one (Column.read says "
                "whose)"
            )
    for measure in profile.measures:
        if not callable(measure.how) and measure.of not in columns:
            raise BenchmarkError(
                f"{profile.slug}: the measure '{measure.name}' is of "
                f"'{measure.of}'.{did_you_mean(measure.of, columns)}"
            )


def _unexplained(space: Any, kind: str) -> str:
    """What can be said of a space without a table (images, grids, text) that nobody described."""
    return (
        ""
        if column_names(space, kind) is not None
        else f"A member of the {kind} space as it is described above."
    )
