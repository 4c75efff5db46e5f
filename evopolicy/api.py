"""EvoPolicy for Python users: the same Runs without Hydra and without MLflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evopolicy import build
from evopolicy.kernel.ports.benchmark import Split
from evopolicy.kernel.ports.outcome import Graded
from evopolicy.kernel.ports.pool import SPLITS
from evopolicy.kernel.ports.protocols import Observer
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.kernel.session.selection import Measurement
from evopolicy.presets import load_config

__all__ = ["Result", "evaluate", "load_run", "run"]


@dataclass(frozen=True)
class Result:
    """A Program measured on Episodes."""

    measurement: Measurement
    """Mean score, standard error, Episodes, failed Episodes."""
    episodes: tuple[Graded, ...]
    """Score and outcome of each, in the order of their indices."""

    @property
    def mean(self) -> float:
        return self.measurement.mean


def evaluate(
    program: Path | str,
    benchmark: str | Mapping[str, Any],
    *,
    split: Split = "training",
    episodes: int | None = None,
    workers: int | None = None,
    **settings: Any,
) -> Result:
    """Measure the Program in the folder `program` on a Benchmark, isolated and in parallel; no agent, no record.

    `benchmark` is a name (`"cartpole"`) or a mapping with `name` and parameters. `episodes` is how many of `split`
    (default: all of it). `settings` as in `run`. Raises ConfigError, ProgramError, ExecutionError.
    """
    config = load_config(agent="baseline", benchmark=benchmark, **settings)
    if episodes is not None and split in SPLITS:
        sizes: dict[str, Any] = {split: episodes}
        config = replace(config, pool=replace(config.pool, **sizes))
    evaluation, measurement = build.measure_program(config, Path(program), split, workers)
    return Result(measurement, evaluation.graded)


def run(
    agent: str | Mapping[str, Any],
    benchmark: str | Mapping[str, Any],
    *,
    protocol: str = "small",
    workers: int | None = None,
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> Run:
    """Run one agent on one Benchmark to the end: Session, handoff, Validation, selection, Assessment.

    `settings` are the config's keys: the name of an option (`pool="paper"`), a mapping of values over the default
    (`budget={"episodes": 16}`), or a value (`seed=1`, `output="outputs"`). The same call again returns the finished
    Run, or goes on with a cut one. Raises ConfigError, AgentError, ExecutionError.
    """
    config = load_config(protocol, agent=agent, benchmark=benchmark, **settings)
    return build.run_cell(config, observers, workers)
