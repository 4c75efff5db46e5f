"""EvoPolicy for Python users: the same Runs and sweeps, without Hydra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicy import build, looks
from evopolicy.analysis.records.load import find_runs, load_frames
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.benchmark import Split
from evopolicy.kernel.ports.outcome import Graded
from evopolicy.kernel.ports.pool import SPLITS
from evopolicy.kernel.ports.protocols import Observer
from evopolicy.kernel.run.sweep import Cell, read_sweep, sweep_folder
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.kernel.session.selection import Measurement
from evopolicy.presets import load_config
from evopolicy.sweeps.keywords import plan_keywords
from evopolicy.sweeps.plan import say_again
from evopolicy.sweeps.sweep import run_sweep, wait_for_tracker

__all__ = ["Result", "SweepResult", "evaluate", "load", "load_run", "run", "sweep"]

if TYPE_CHECKING:
    from evopolicy.analysis import Frames

Setting = str | Mapping[str, Any]
"""An option's name, or a mapping with `name` and what differs from that option."""


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
    benchmark: Setting,
    *,
    split: Split = "training",
    episodes: int | None = None,
    workers: int | None = None,
    **settings: Any,
) -> Result:
    """Measure the Program in the folder `program` on a Benchmark, isolated and in parallel; no
    agent, no record.

    `benchmark` is a name (`"cartpole"`) or a mapping with `name` and parameters. `episodes` is how
    many of `split` (default: all of it). `settings` as in `run`. Raises ConfigError, ProgramError,
    ExecutionError."""
    config = load_config(agent="baseline", benchmark=benchmark, **settings)
    if episodes is not None and split in SPLITS:
        sizes: dict[str, Any] = {split: episodes}
        config = replace(config, pool=replace(config.pool, **sizes))
    evaluation, measurement = build.measure_program(config, Path(program), split, workers)
    return Result(measurement, evaluation.graded)


def run(
    agent: Setting,
    benchmark: Setting,
    *,
    protocol: str = "small",
    workers: int | None = None,
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> Run:
    """Run one agent on one Benchmark to the end: Session, handoff, Validation, selection,
    Assessment.

    `settings` are the config's keys: the name of an option (`pool="paper"`), a mapping of values
    over the default (`budget={"episodes": 16}`), or a value (`seed=1`, `output="outputs"`). The
    same call again returns the finished Run, or goes on with a cut one. Raises ConfigError,
    AgentError, ExecutionError."""
    config = load_config(protocol, agent=agent, benchmark=benchmark, **settings)
    return build.run_cell(config, observers, workers)


def load(*sources: Path | str) -> Frames:
    """The Runs under `sources` (folders of Runs, of sweeps or above them) as the frames that tables
    are computed from.

    What was planned and is not there, or cannot be read, is in `gaps`. Raises RecordError for a
    source that does not exist or holds no Run."""
    return load_frames(find_runs(*sources))


@dataclass(frozen=True)
class SweepResult:
    """A sweep whose cells have all ended."""

    name: str
    folder: Path
    """`OUTPUT/sweeps/NAME`, which `evopolicy.analysis.find_runs` and `evopolicy table sweep=NAME`
    read."""
    cells: tuple[Cell, ...]
    """As the sweep's record holds them: entry, Benchmark, seed, status, and the error of a failed
    one."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """The Runs of the cells that did not fail, loaded now."""
        output = self.folder.parents[1]
        return tuple(
            load_run(output / cell.run)
            for cell in self.cells
            if cell.status in ("finished", "reused")
        )


def sweep(
    agent: Setting | Sequence[Setting],
    benchmark: Setting | Sequence[Setting] | None = None,
    *,
    suite: str | None = None,
    name: str | None = None,
    launcher: Mapping[str, Any] | None = None,
    **settings: Any,
) -> SweepResult:
    """Run every combination of what is listed, several cells at once, as `evopolicy -m` does;
    progress is printed.

    `settings` are those of `run`, `protocol` among them; each may be a list (`seed=[0, 1]`,
    `feedback=["score", "full"]`), and then is an axis of the sweep. `suite` names a list of
    Benchmarks in place of `benchmark`, `name` the sweep (default: a digest of its cells),
    `launcher` changes values of `conf/launcher/local.yaml`. The same call, or the same command,
    again reuses what is finished and goes on with the rest; a cell that fails is recorded and the
    others go on. Raises ConfigError before the first cell starts, and KeyboardInterrupt with what
    goes on with it."""
    if (benchmark is None) == (suite is None):
        raise ConfigError(
            "benchmark: name Benchmarks or a suite of them, and not both: benchmark='cartpole'"
        )
    asked = {"agent": agent, **({} if benchmark is None else {"benchmark": benchmark}), **settings}
    with looks.sharing():
        command, name = plan_keywords(asked, name, launcher or {}, suite)
        say_again(command.cells)
        _, tracker = run_sweep(command, name)
    wait_for_tracker(tracker, command)
    folder = sweep_folder(command.output, name)
    return SweepResult(name, folder, read_sweep(folder).cells)
