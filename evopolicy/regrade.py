"""Regrading: archived Programs evaluated again, with no agent, by a rule or on Episodes of one's own choice."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from evopolicy import build
from evopolicy.config import RunConfig, config_from
from evopolicy.execution.machine import machine, versions
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.pool import PoolConfig, plan_pool
from evopolicy.kernel.ports import Observer
from evopolicy.kernel.program import ProgramStore, capture
from evopolicy.kernel.record import Run, RunRecord
from evopolicy.kernel.regrade import PrivateSplit, adopt, lay_regrade, regrade
from evopolicy.kernel.result import Grading
from evopolicy.kernel.submission import Bench
from evopolicy.kernel.values import digest
from evopolicy.presets import option

SPLITS: tuple[PrivateSplit, ...] = ("validation", "assessment")
GROUPS = ("pool", "selection", "execution", "secret")
"""Config groups a regrade may set anew: whatever else defines a Run is its agent's part."""


def regraded_config(run: Run, changes: Mapping[str, Any]) -> RunConfig:
    """The config of `run` with `changes`: `{"pool": {"assessment": 64}, "selection": "validation_lcb"}`.

    Raises ConfigError for a group that a regrade may not set, and RecordError for a record without a config.
    """
    if not run.record.config:
        raise RecordError(f"{run.folder.name}: its record holds no config, so its Benchmark cannot be made again")
    config = dict(run.record.config)
    for group, change in changes.items():
        if group not in GROUPS:
            raise ConfigError(f"regrade: '{group}' is the agent's part; only {', '.join(GROUPS)} may be set anew")
        before = config.get(group, {})
        config[group] = option(group, change) if isinstance(change, str) else {**before, **change}
    return config_from(config)


def regraded_record(run: Run, config: RunConfig, splits: Sequence[PrivateSplit]) -> RunRecord:
    """What the regrade of `run` under `config` is: the same for the same request. `config.axes` name its entry."""
    parent = run.record
    asked = [parent.result_key, msgspec.to_builtins(config.selection), msgspec.to_builtins(config.pool), list(splits)]
    secret = build.secret_digest(config.secret.read()) if parent.pool_secret_digest else ""
    return replace(
        parent,
        parent=parent.result_key,
        result_key=digest("evopolicy/regrade/1", [*asked, secret, config.execution.isolation]),
        axes=config.axes,
        selection=config.selection,
        pool=config.pool,
        pool_secret_digest=secret,
        config=msgspec.to_builtins(config),
        other_rules={},
        created=round(time.time(), 3),
        machine=machine(),
    )


@dataclass
class Measured:
    """Where Episodes of Programs lie that were measured already, by what they were measured under."""

    files: dict[tuple[str, ...], list[Path]] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Measured:
        found = cls()
        for run in runs:
            found.add(run)
        return found

    def add(self, run: Run) -> None:
        for split in SPLITS:
            for path in sorted((run.folder / "evaluations" / split).glob("*.jsonl")):
                self.files.setdefault(_conditions(run.record, split, path.stem), []).append(path)

    def have(self, record: RunRecord, split: PrivateSplit, program: str) -> list[Path]:
        return self.files.get(_conditions(record, split, program), [])


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
            f"{run.folder.name}: was measured on another version of '{benchmark.spec.slug}' than the one installed;"
            " install the version its record names"
        )
    executor = build.build_executor(config.execution, benchmark, workers=workers)
    try:
        record = regraded_record(run, config, splits)
        record = replace(
            record,
            isolation=executor.isolation,
            versions={
                **versions(benchmark),
                **{k: v for k, v in run.record.versions.items() if k not in versions(benchmark)},
            },
        )
        lay_regrade(run, folder, record)
        store = _store(run, config)
        for split in splits:
            for path in sorted((run.folder / "programs").iterdir()):
                adopt(folder, split, path.name, (measured or Measured.of([run])).have(record, split, path.name))
        bench = Bench(benchmark, executor, config.feedback, config.execution.episode_retries, folder)
        pool = plan_pool(config.pool, benchmark, config.secret.read())
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
