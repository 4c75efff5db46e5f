"""Regrading: archived Programs evaluated again, with no agent, by a rule or on Episodes of one's own choice."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from evopolicy import build
from evopolicy.config import RunConfig, config_from
from evopolicy.execution import isolation as levels
from evopolicy.execution.machine import machine, versions
from evopolicy.kernel.benchmark import PrivateSplit
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.pool import PoolConfig, plan_pool
from evopolicy.kernel.ports import Observer
from evopolicy.kernel.program import ProgramStore, capture
from evopolicy.kernel.record import Run, RunRecord
from evopolicy.kernel.regrade import adopt, lay_regrade, regrade
from evopolicy.kernel.result import Grading
from evopolicy.kernel.submission import Bench
from evopolicy.kernel.values import digest
from evopolicy.presets import option

SPLITS: tuple[PrivateSplit, ...] = ("validation", "assessment")
GROUPS = ("pool", "selection", "execution", "secret")
"""Config groups a regrade may set anew: whatever else defines a Run is its agent's part."""


def check_changes(changes: Mapping[str, Any]) -> None:
    """Whether a regrade may set `changes`, whatever the Run.

    Raises ConfigError for a group that is the agent's part, for the training pool and for an option there is not.
    """
    for group, change in changes.items():
        if group not in GROUPS:
            raise ConfigError(f"regrade: '{group}' is the agent's part; only {', '.join(GROUPS)} may be set anew")
        if group == "pool" and isinstance(change, Mapping) and "training" in change:
            raise ConfigError("regrade: pool.training is what the agent had; set pool.validation or pool.assessment")
        if isinstance(change, str):
            option(group, change)


def regraded_config(run: Run, changes: Mapping[str, Any]) -> RunConfig:
    """The config of `run` with `changes`: `{"pool": {"assessment": 64}, "selection": "validation_lcb"}`.

    Raises ConfigError for what a regrade may not set, and RecordError for a record without a config.
    """
    check_changes(changes)
    if not run.record.config:
        raise RecordError(f"{run.folder.name}: its record holds no config, so its Benchmark cannot be made again")
    config = dict(run.record.config)
    for group, change in changes.items():
        before = config.get(group, {})
        config[group] = option(group, change) if isinstance(change, str) else {**before, **change}
    return config_from(config)


def regraded_record(run: Run, config: RunConfig, splits: Sequence[PrivateSplit]) -> RunRecord:
    """What the regrade of `run` under `config` is: the same for the same request. `config.axes` name its entry."""
    parent = run.record
    isolation = levels.choose(cast(levels.Asked, config.execution.isolation), config.execution.allow_unisolated)
    secret = build.secret_digest(config.secret.read())
    pool = replace(config.pool, training=parent.pool.training)
    limits, packages = msgspec.to_builtins(config.execution.limits), list(config.execution.policy_packages)
    selection = msgspec.to_builtins(config.selection)
    asked = [parent.result_key, selection, msgspec.to_builtins(pool), list(splits), secret, isolation, limits, packages]
    return replace(
        parent,
        parent=parent.result_key,
        result_key=digest("evopolicy/regrade/2", asked),
        axes=config.axes,
        selection=config.selection,
        pool=pool,
        pool_secret_digest=secret,
        isolation=isolation,
        config=msgspec.to_builtins(config),
        other_rules={},
        created=round(time.time(), 3),
        machine=machine(),
    )


@dataclass
class Measured:
    """Where Episodes of Programs lie that were measured already, by what they were measured under."""

    files: dict[tuple[str, ...], list[tuple[Path, Mapping[str, str]]]] = field(default_factory=dict)
    """With the versions each was measured with."""

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Measured:
        """What `runs` have measured on Validation and Assessment."""
        found = cls()
        for run in runs:
            found.add(run)
        return found

    def add(self, run: Run) -> None:
        """Take in what `run` has measured so far; the files are listed, not read."""
        for split in SPLITS:
            for path in sorted((run.folder / "evaluations" / split).glob("*.jsonl")):
                conditions = _conditions(run.record, split, path.stem)
                self.files.setdefault(conditions, []).append((path, run.record.versions))

    def have(self, record: RunRecord, split: PrivateSplit, program: str, measuring: Mapping[str, str]) -> list[Path]:
        """Files measured as `record` says, with the versions `measuring` of whatever takes part in it."""
        return [
            path
            for path, theirs in self.files.get(_conditions(record, split, program), [])
            if all(theirs.get(name) == version for name, version in measuring.items())
        ]


def _conditions(record: RunRecord, split: PrivateSplit, program: str) -> tuple[str, ...]:
    """Everything an outcome depends on but its index: equal exactly where an Episode need not be run again."""
    pool: PoolConfig = record.pool
    limits = record.config.get("execution", {}).get("limits", {})
    drawn = [pool.kind, pool.seed, pool.cases, pool.policy_seed, record.pool_secret_digest]
    packages = record.config.get("execution", {}).get("policy_packages", [])
    return (
        split,
        program,
        record.benchmark.digest,
        record.isolation,
        digest("evopolicy/conditions/1", [drawn, limits, packages]),
    )


def regrade_run(
    run: Run,
    config: RunConfig,
    folder: Path,
    *,
    splits: Sequence[PrivateSplit] = SPLITS,
    measured: Measured | None = None,
    workers: int | None = None,
    observers: Sequence[Observer] = (),
) -> Run:
    """Grade the Programs of `run` again under `config`, in `folder`; a finished regrade is returned as it is.

    `measured`: Episodes that need not be run again. Raises ConfigError, RecordError, ExecutionError.
    """
    benchmark = build.load_benchmark(config.benchmark)
    if benchmark.spec.digest != run.record.benchmark.digest:
        raise RecordError(
            f"{run.folder.name}: its Benchmark '{benchmark.spec.slug}' has other parameters here than its record says;"
            " install the version of the Benchmark its record names"
        )
    record, measuring = regraded_record(run, config, splits), versions(benchmark)
    record = replace(record, versions={**run.record.versions, **measuring})
    lay_regrade(run, folder, record)
    executor = build.build_executor(config.execution, benchmark, workers=workers, isolation=record.isolation)
    try:
        store = _store(run, config)
        known = measured or Measured.of([run])
        for split in splits:
            for path in sorted((run.folder / "programs").iterdir()):
                adopt(folder, split, path.name, known.have(record, split, path.name, measuring))
        mask = build.mask_of(config)
        bench = Bench(benchmark, executor, config.feedback, config.execution.episode_retries, folder, mask)
        pool = plan_pool(record.pool, benchmark, config.secret.read())
        return regrade(Grading(record, folder, bench, pool, store), splits, observers)
    finally:
        executor.close()


def _store(run: Run, config: RunConfig) -> ProgramStore:
    """The Programs of `run` where the regrade keeps its own: stored again where its folder was moved."""
    store = ProgramStore(Path(config.output) / "programs")
    for path in sorted((run.folder / "programs").iterdir()):
        if not path.is_dir():
            raise RecordError(f"{run.folder.name}: the Program {path.name[:12]} is missing; restore it")
        if not store.folder(path.name).is_dir() and store.put(capture(path.resolve())).name != path.name:
            raise RecordError(f"{run.folder.name}: the Program {path.name[:12]} was changed; restore it")
    return store
