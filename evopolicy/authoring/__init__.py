"""The only thing a Benchmark distribution imports.

`Family` and `Profile` make a distribution of Gymnasium tasks out of a table; `GymnasiumBenchmark`
is there to be extended; `check_benchmark` tests the result. A task without Gymnasium implements the
protocols `Benchmark` and `Environment`. Importing this package imports no Environment: gymnasium
and what draws come with the first use."""

from evopolicy.authoring.benchmark import (
    GymnasiumBenchmark,
    OutOfBounds,
    summarize,
    worst_median_best,
)
from evopolicy.authoring.check import check_benchmark, find_breaches
from evopolicy.authoring.discovery import KnownBenchmark, find_benchmark, known_benchmarks
from evopolicy.authoring.environment import GymnasiumEnvironment
from evopolicy.authoring.family import Family, programs_folder, table
from evopolicy.authoring.graphics import mujoco_gl
from evopolicy.authoring.profile import Column, Episode, Measure, Profile, Series
from evopolicy.authoring.replay import load_policy, policy_context, rollout, run_program, step_again
from evopolicy.authoring.spaces import belongs, column_names, flatten, space_from_gymnasium
from evopolicy.authoring.traces import write_traces
from evopolicy.kernel.errors import (
    BenchmarkError,
    ConfigError,
    ExecutionError,
    InvalidAction,
    did_you_mean,
)
from evopolicy.kernel.policy import PolicyContext
from evopolicy.kernel.ports.benchmark import (
    Artifact,
    Benchmark,
    BenchmarkReference,
    BenchmarkSpec,
    Environment,
    EpisodeSpec,
    Field,
    Split,
    Transition,
)
from evopolicy.kernel.ports.outcome import (
    EpisodeResult,
    Fault,
    Outcome,
    Output,
    PolicyFailure,
    failure_counts,
)
from evopolicy.kernel.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    box,
    cast_action,
)
from evopolicy.kernel.trace import TraceRow, TraceWriter, read_trace
from evopolicy.kernel.values import Value, public

__all__ = [
    "Artifact",
    "Benchmark",
    "BenchmarkError",
    "BenchmarkReference",
    "BenchmarkSpec",
    "Box",
    "Column",
    "ConfigError",
    "Dict",
    "Discrete",
    "Environment",
    "Episode",
    "EpisodeResult",
    "EpisodeSpec",
    "ExecutionError",
    "Family",
    "Fault",
    "Field",
    "GymnasiumBenchmark",
    "GymnasiumEnvironment",
    "InvalidAction",
    "KnownBenchmark",
    "Measure",
    "MultiBinary",
    "MultiDiscrete",
    "OutOfBounds",
    "Outcome",
    "Output",
    "PolicyContext",
    "PolicyFailure",
    "Profile",
    "Series",
    "Space",
    "Split",
    "Text",
    "TraceRow",
    "TraceWriter",
    "Transition",
    "Tuple",
    "Value",
    "belongs",
    "box",
    "cast_action",
    "check_benchmark",
    "column_names",
    "did_you_mean",
    "failure_counts",
    "find_benchmark",
    "find_breaches",
    "flatten",
    "known_benchmarks",
    "load_policy",
    "mujoco_gl",
    "policy_context",
    "programs_folder",
    "public",
    "read_trace",
    "rollout",
    "run_program",
    "space_from_gymnasium",
    "step_again",
    "summarize",
    "table",
    "worst_median_best",
    "write_traces",
]
