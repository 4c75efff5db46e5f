"""What a Benchmark is: a public description, a plan of Episodes, Environments, scores and
Feedback."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from evopolicy.kernel.errors import BenchmarkError
from evopolicy.kernel.ports.outcome import EpisodeResult, Outcome
from evopolicy.kernel.spaces import Space
from evopolicy.kernel.values import Value, digest

Split = Literal["training", "validation", "assessment"]
PrivateSplit = Literal["validation", "assessment"]
"""A split the agent never meets."""
Retention = Literal["permanent", "bulk"]


@dataclass(frozen=True)
class Field:
    """One named number of an observation, an Action or a measure, with its unit and range."""

    name: str
    """snake_case; a column name of traces."""
    unit: str = ""
    """SI unit or a word: 'm', 'rad/s', '1' for a ratio, '' for none."""
    low: float | None = None
    high: float | None = None
    meaning: str = ""
    """One plain sentence."""


@dataclass(frozen=True)
class BenchmarkSpec:
    """The public description of a Benchmark: all of it may be shown to an agent."""

    id: str
    """`family/Name-vN`; a task whose meaning changes gets a new version."""
    slug: str
    """Unique snake_case (or Gymnasium id) name, usable in a path: `cartpole`."""
    title: str
    goal: str
    """What a good Policy achieves, in plain words. Markdown."""
    scoring: str
    """The reward's terms and what an Episode's score is. Markdown. Higher is always better."""
    ending: str
    """How Episodes end (terminated, truncated). Markdown."""
    observation_space: Space
    action_space: Space
    max_steps: int
    failure_score: float
    """What an Episode scores at most when the Policy fails in it: graded the lower of this and its
    score so far."""
    observation_fields: tuple[Field, ...] = ()
    """In the order of the flat observation; empty for images and grids, whose text is in
    `observation_text`."""
    action_fields: tuple[Field, ...] = ()
    observation_text: str = ""
    """What the fields cannot say. Markdown."""
    action_text: str = ""
    measures: tuple[Field, ...] = ()
    """What Feedback reports of each Episode beside its return and length."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """Public parameters that define the task; `out_of_bounds` is 'invalid' or 'clip'."""
    seed_bits: int = 63
    """Seeds of its Episodes are below 2**seed_bits. Fewer than 63 are for Environments that take no
    larger ones: say so in `parameters` too, so that its pools are others."""
    case_name: str = ""
    """What its Episodes are drawn by where `pool.cases` is 'hash'; '' for `gymnasium/` and the name
    in its id."""
    remarks: tuple[str, ...] = ()
    """Words of `failures.MEANINGS` to be known of every Run of it."""

    @property
    def digest(self) -> str:
        """Digest of what defines the task: id and parameters."""
        return digest("evopolicy/benchmark/1", [self.id, dict(self.parameters)])

    @property
    def clips(self) -> bool:
        return self.parameters.get("out_of_bounds") == "clip"


@dataclass(frozen=True)
class EpisodeSpec:
    """One hidden Episode. The Host keeps it; neither agent nor Policy ever sees it."""

    index: int
    """Place in its split, from 0; public for training."""
    seed: int
    """Non-negative, below 2**BenchmarkSpec.seed_bits (2**32 in the paper's pools): the
    Environment's."""
    policy_seed: int
    """What the Policy is given as `context.seed`."""
    scenario: Mapping[str, Value] = field(default_factory=dict)
    """What `Benchmark.plan` drew for this Episode."""


class Transition(NamedTuple):
    """What one step of an Environment gives."""

    observation: Any
    """A member of the observation space."""
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Value] = {}
    """Public numbers of this step for the trace (columns of the same name); the Policy never sees
    them."""


class Environment(Protocol):
    """What one Episode runs in; made fresh for it and closed after it."""

    def reset(self) -> Any:
        """The first observation. Called once."""

    def step(self, action: Any) -> Transition:
        """Apply a member of the action space (already checked)."""

    def measures(self) -> Mapping[str, Value]:
        """Domain measures of the Episode so far, named as `BenchmarkSpec.measures`. Called at its
        end."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Artifact:
    """A file of Feedback."""

    name: str
    """Portable relative path inside the Feedback's folder: `episodes/0007.csv`."""
    path: Path
    """Where its bytes are now."""
    media_type: str
    """'text/csv', 'application/json', 'image/gif', 'image/png', 'application/x-npz',
    'text/plain'."""
    retention: Retention = "permanent"
    """'bulk' artifacts may be evicted, oldest Submission first, when they exceed their budget."""
    episode: int | None = None
    """Public index it belongs to, where it belongs to one."""


@dataclass(frozen=True)
class BenchmarkReference:
    """How another process makes the same Benchmark: import `factory` and call it with
    `parameters`."""

    factory: str
    """`module:function`; called as `function(**parameters)`."""
    parameters: Mapping[str, Value] = field(default_factory=dict)

    def load(self) -> Benchmark:
        """Import and call the factory. Raises BenchmarkError where it cannot be imported."""
        module, _, name = self.factory.partition(":")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise BenchmarkError(
                f"the Benchmark factory '{self.factory}' cannot be imported: {error}"
            ) from error
        benchmark: Benchmark = function(**dict(self.parameters))
        return benchmark


class Benchmark(Protocol):
    """A task family's one entry: everything the Kernel asks of a domain."""

    @property
    def spec(self) -> BenchmarkSpec: ...

    @property
    def reference(self) -> BenchmarkReference: ...

    @property
    def programs(self) -> Mapping[str, Path]:
        """Folders of Programs this Benchmark ships: 'initial' and 'random' always, 'parametric'
        where there is one."""

    def plan(self, split: Split, seed: int) -> Mapping[str, Value]:
        """The scenario of one Episode: a pure function of its arguments."""

    def make(self, episode: EpisodeSpec) -> Environment:
        """A fresh Environment for `episode`."""

    def score(self, outcome: Outcome) -> float:
        """The score of an Episode, however it ended; higher is better. Usually the undiscounted
        return.

        Of one the Policy failed in, at whatever step, what it would score had it ended there:
        `failure_score` is the most that counts of it."""

    def summarize(self, outcomes: Sequence[Outcome]) -> Mapping[str, Value]:
        """Public aggregates over the Episodes of one Submission (visibility `summary` and
        above)."""

    def artifacts(self, results: Sequence[EpisodeResult], folder: Path) -> Sequence[Artifact]:
        """Write traces a person or agent can read into `folder`, from `result.trace` (visibility
        `full`)."""

    def pictured(self, results: Sequence[EpisodeResult]) -> Sequence[int]:
        """Indices of the Episodes whose replay is worth rendering: usually the worst, the median
        and the best."""

    def render(self, episode: EpisodeSpec, trace: Path, folder: Path) -> Sequence[Artifact]:
        """Re-step the Actions recorded in `trace` and write pictures into `folder`; none where it
        cannot draw."""
