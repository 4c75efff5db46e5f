"""What happened in an Episode: how it ended, how a Policy failed in it, what it scored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from evopolicy.kernel.values import Value

FailureKind = Literal[
    "exception",  # the Program raised
    "invalid_action",  # an Action that is no member of the space
    "act_time",  # one call over its CPU time
    "episode_time",  # the Episode over the Policy's CPU time
    "stalled",  # no answer within the generous wall-clock watchdog
    "memory",  # over its memory
    "protocol",  # bytes on the wire that are no answer
    "died",  # its process ended: exit, signal
]
FAILURE_KINDS: tuple[FailureKind, ...] = (
    "exception",
    "invalid_action",
    "act_time",
    "episode_time",
    "stalled",
    "memory",
    "protocol",
    "died",
)
Phase = Literal["import", "make_policy", "reset", "act"]
Ending = Literal["terminated", "truncated", "failed"]


@dataclass(frozen=True)
class PolicyFailure:
    """How a Policy failed in an Episode. Observed behaviour: charged and graded, never retried."""

    kind: FailureKind
    message: str
    """One sentence."""
    phase: Phase = "act"
    step: int | None = None
    """Steps taken before it, where the Episode had begun."""
    traceback: str = ""
    """The Program's own frames only, bounded."""
    limit: float | None = None
    """The limit that was hit, in seconds or bytes, where there is one."""


@dataclass(frozen=True)
class Output:
    """What a Policy printed: head and tail kept, the middle counted."""

    text: str = ""
    omitted_bytes: int = 0


@dataclass(frozen=True)
class Outcome:
    """What happened in one Episode: the same for the same Program, index and seeds, on any machine
    load."""

    index: int
    episode_return: float
    """Undiscounted sum of rewards up to the end or the failure."""
    length: int
    """Steps taken."""
    ending: Ending
    failure: PolicyFailure | None = None
    """Set exactly when `ending` is 'failed'."""
    measures: Mapping[str, Value] = field(default_factory=dict)
    output: Output = Output()
    clipped: int = 0
    """Actions clipped to their bounds, where the Benchmark says `out_of_bounds=clip`."""


@dataclass(frozen=True)
class Fault:
    """Environment or engine failed in an Episode; never charged to the Policy as a result."""

    kind: Literal["environment", "engine"]
    message: str
    traceback: str = ""
    raised: Outcome | None = None
    """Set where a step raised, and raises again for the same Actions in a fresh Environment: the
    Episode as the Policy's failure, which it is if that of the initial Program passes."""


@dataclass(frozen=True)
class EpisodeResult:
    """What the Executor returns for one Episode: an Outcome, or a Fault, and what may differ
    between two runs of it."""

    index: int
    outcome: Outcome | None = None
    fault: Fault | None = None
    trace: Path | None = None
    """Where the trace was written, when one was asked for."""
    policy_seconds: float = 0.0
    """CPU seconds of the Policy."""
    wall_seconds: float = 0.0
    """Wall seconds from reset to the end."""


@dataclass(frozen=True)
class CheckReport:
    """What `check` found: the Program loaded in the sandbox and asked for Actions on sampled
    observations."""

    ok: bool
    failure: PolicyFailure | None = None
    actions: Sequence[Value] = ()
    """The first Actions it gave, as public values."""
    output: Output = Output()
    warnings: Sequence[str] = ()


def failure_counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many Episodes failed, by kind, in the order of FAILURE_KINDS."""
    counts = Counter(outcome.failure.kind for outcome in outcomes if outcome.failure)
    return {kind: counts[kind] for kind in FAILURE_KINDS if counts[kind]}


@dataclass(frozen=True)
class Graded:
    """One Episode with its score: a line of the record's Episode files."""

    score: float
    """Finite; higher is better."""
    outcome: Outcome


def mean_score(graded: Sequence[Graded]) -> float:
    """What a Submission scored on these Episodes, of which there is at least one."""
    return math.fsum(one.score for one in graded) / len(graded)
