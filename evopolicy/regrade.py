"""Regrading: archived Programs evaluated again, with no agent, by a rule or on Episodes of one's
own choice."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from evopolicy import build, cells
from evopolicy.config import RunConfig, config_from, written
from evopolicy.consent import TRUST, check_lowered, loaded
from evopolicy.execution import isolation as levels
from evopolicy.execution.machine import machine, versions
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.files.program import ProgramStore, archived, archived_names
from evopolicy.kernel.files.received import names_in
from evopolicy.kernel.files.seal import is_ours, seal
from evopolicy.kernel.ports.benchmark import PrivateSplit
from evopolicy.kernel.ports.pool import PoolConfig, plan_pool
from evopolicy.kernel.ports.protocols import Observer
from evopolicy.kernel.run.owner import Ownership
from evopolicy.kernel.run.regrade import adopt, lay_regrade, regrade
from evopolicy.kernel.run.result import Grading
from evopolicy.kernel.secrecy.pool_secret import POOL_SECRET
from evopolicy.kernel.session.record import Run, RunRecord, new_id, output_of_run
from evopolicy.kernel.session.selection import rule_versions
from evopolicy.kernel.session.submission import Bench
from evopolicy.kernel.values import digest
from evopolicy.presets import option

SPLITS: tuple[PrivateSplit, ...] = ("validation", "assessment")
GROUPS = ("pool", "selection", "execution", "secret")
"""Config groups a regrade may set anew: whatever else defines a Run is its agent's part."""


def check_changes(changes: Mapping[str, Any]) -> None:
    """Whether a regrade may set `changes`, whatever the Run.

    Raises ConfigError for a group that is the agent's part, for the training pool and for an option
    there is not."""
    for group, change in changes.items():
        if group not in GROUPS:
            raise ConfigError(
                f"regrade: '{group}' is the agent's part; only {', '.join(GROUPS)} may be set anew"
            )
        if group == "pool" and isinstance(change, Mapping) and "training" in change:
            raise ConfigError(
                "regrade: pool.training is what the agent had; set pool.validation or "
                "pool.assessment"
            )
        if isinstance(change, str):
            option(group, change)


def regraded_config(run: Run, changes: Mapping[str, Any], *, trusted: bool = False) -> RunConfig:
    """The config of `run` with `changes`: `{"pool": {"assessment": 64}, "selection":
    "validation_lcb"}`.

    `trusted`: whether a record that was not made here may have its Environment made as it says.
    Raises ConfigError for what a regrade may not set, and RecordError for a record without a
    config."""
    check_changes(changes)
    if not run.record.config:
        raise RecordError(
            f"{run.folder.name}: its record holds no config, so its Benchmark cannot be made again"
        )
    _check_consent(run, changes, trusted=trusted)
    config = dict(run.record.config)
    for group, change in changes.items():
        # Another secret takes the place of the one there was, wherever that was.
        before = config.get(group, {}) if group != "secret" else {"file": None, "variable": None}
        config[group] = option(group, change) if isinstance(change, str) else {**before, **change}
    if "execution" in config and "allow_unisolated" not in _asked(changes):
        config["execution"] = {
            **config["execution"],
            "allow_unisolated": False,
        }  # no record allows this by itself
    return config_from(config)


def _asked(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of `execution` that `changes` set."""
    execution = changes.get("execution", {})
    return option("execution", execution) if isinstance(execution, str) else execution


def _check_consent(run: Run, changes: Mapping[str, Any], *, trusted: bool) -> None:
    """Raises ConfigError for what the record would lower, or read here, and the request does not
    say itself."""
    record, execution = run.record, _asked(changes)
    said = (
        {f"execution.{key}": str(value).lower() for key, value in execution.items()}
        if execution
        else {}
    )
    if "isolation" not in execution:
        check_lowered(run.folder.name, _as_recorded(run), said)
    if is_ours(record.config, record.seal) or not record.config:
        return
    if not trusted and (others := loaded(record.config)):
        raise ConfigError(
            f"{run.folder.name}: was not made by you on this machine, and loads {others};"
            f" if you trust whoever made it, add {TRUST}=true"
        )
    secret = record.config.get("secret", {})
    if (secret.get("file") or secret.get("variable")) and "secret" not in changes:
        raise ConfigError(
            f"{run.folder.name}: was not made by you on this machine, and reads a secret that it "
            "names; say where yours is: secret.file=FILE or secret.variable=NAME"
        )
    packages = record.config.get("execution", {}).get("policy_packages", [])
    unknown = [
        str(name) for name in packages if name not in option("execution", "auto")["policy_packages"]
    ]
    if unknown and "policy_packages" not in execution:
        raise ConfigError(
            f"{run.folder.name}: was not made by you on this machine, and lets its Programs "
            f"import {', '.join(unknown)[:200]}; say so yourself: "
            f"execution.policy_packages=[{','.join(map(str, packages))}]"
        )


def _as_recorded(run: Run) -> RunConfig:
    return config_from(run.record.config)


def regraded_record(
    run: Run, config: RunConfig, splits: Sequence[PrivateSplit], *, trusted: bool = False
) -> RunRecord:
    """What the regrade of `run` under `config` is: the same for the same request. `config.axes`
    name its entry.

    `trusted`: it may take over what a record says was measured elsewhere, so that no other one
    believes it unasked."""
    parent = run.record
    isolation = levels.choose(
        cast(levels.Asked, config.execution.isolation), config.execution.allow_unisolated
    )
    secret = cells.secret_digest(pool_secret(run, config))
    pool = replace(config.pool, training=parent.pool.training)
    limits, packages = (
        msgspec.to_builtins(config.execution.limits),
        list(config.execution.policy_packages),
    )
    selection = msgspec.to_builtins(config.selection)
    asked = [
        parent.result_key,
        selection,
        msgspec.to_builtins(pool),
        list(splits),
        secret,
        isolation,
        limits,
        packages,
    ]
    asked += ["trusted"] if trusted else []
    result_key = digest("evopolicy/regrade/2", asked)
    return replace(
        parent,
        parent=parent.result_key,
        result_key=result_key,
        axes=config.axes,
        selection=config.selection,
        pool=pool,
        pool_secret_digest=secret,
        isolation=isolation,
        config=written(config),
        seal="" if trusted else seal(_measured_here(parent.key, result_key)),
        other_rules={},
        created=round(time.time(), 3),
        machine=machine(),
        id=new_id(),
    )


def _measured_here(key: str, result_key: str) -> dict[str, Any]:
    """What a regrade's seal is of: that its Episodes were run here. Its config may be somebody
    else's, unsealed."""
    return {"evopolicy/regrade": [key, result_key]}


def pool_secret(run: Run, config: RunConfig) -> bytes:
    """What the pool of the regrade is drawn with: the secret of `run`, unless `config` names
    another.

    Raises ConfigError as `SecretConfig.read`, and RecordError where the one of `run` is not the
    same any more."""
    output, unasked = (
        output_of_run(run.folder.absolute()),
        config.secret == config_from(run.record.config).secret,
    )
    if config.secret.generated and not unasked and not (output / POOL_SECRET).exists():
        raise ConfigError(
            f"secret.generated: {run.folder.name} was drawn without such a secret, and {output} "
            "holds none to draw by; name one: secret.file=FILE or secret.variable=NAME"
        )
    secret = config.secret.read(output)
    if unasked and cells.secret_digest(secret) != run.record.pool_secret_digest:
        raise RecordError(
            f"{run.folder.name}: the pool's secret is not here, or another one than it was drawn "
            "with, so its Episodes would be others; bring it back, or name the one to draw by: "
            "secret.file=FILE"
        )
    return secret


@dataclass
class Measured:
    """Where Episodes of Programs lie that were measured already, by what they were measured
    under."""

    files: dict[tuple[str, ...], list[tuple[Path, Mapping[str, str]]]] = field(default_factory=dict)
    """With the versions each was measured with."""
    trusted: bool = False
    """Whether what a record says was measured that was not made here is believed."""

    @classmethod
    def of(cls, runs: Iterable[Run], *, trusted: bool = False) -> Measured:
        """What `runs` have measured on Validation and Assessment. Of a record that was not made
        here: nothing, unless it is `trusted`: whoever made it may have written any score."""
        found = cls(trusted=trusted)
        for run in runs:
            found.add(run)
        return found

    def add(self, run: Run) -> None:
        """Take in what `run` has measured so far; the files are listed, not read."""
        if not self.trusted and not _is_measured_here(run.record):
            return
        for split in SPLITS:
            for name in names_in(run.folder, f"evaluations/{split}"):
                path = run.folder / "evaluations" / split / name
                if path.suffix != ".jsonl":
                    continue
                conditions = _conditions(run.record, split, path.stem)
                self.files.setdefault(conditions, []).append((path, run.record.versions))

    def have(
        self, record: RunRecord, split: PrivateSplit, program: str, measuring: Mapping[str, str]
    ) -> list[Path]:
        """Files measured as `record` says, with the versions `measuring` of whatever takes part in
        it."""
        return [
            path
            for path, theirs in self.files.get(_conditions(record, split, program), [])
            if all(theirs.get(name) == version for name, version in measuring.items())
        ]


def _is_measured_here(record: RunRecord) -> bool:
    content = _measured_here(record.key, record.result_key) if record.parent else record.config
    return is_ours(content, record.seal)


def _conditions(record: RunRecord, split: PrivateSplit, program: str) -> tuple[str, ...]:
    """Everything an outcome depends on but its index: equal exactly where an Episode need not be
    run again."""
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
    """Grade the Programs of `run` again under `config`, in `folder`; a finished regrade is returned
    as it is.

    `measured`: Episodes that need not be run again. Raises ConfigError, RecordError,
    ExecutionError."""
    benchmark = cells.load_benchmark(config.benchmark, config.execution.limits.step_seconds)
    if benchmark.spec.digest != run.record.benchmark.digest:
        raise RecordError(
            f"{run.folder.name}: its Benchmark '{benchmark.spec.slug}' has other parameters here "
            "than its record says; install the version of the Benchmark its record names"
        )
    known = measured or Measured.of([run])
    record = regraded_record(run, config, splits, trusted=known.trusted)
    measuring = versions(benchmark, config.execution.policy_packages)
    record = replace(
        record,
        versions={**run.record.versions, **rule_versions(record.selection.rule), **measuring},
    )
    with Ownership(folder):
        lay_regrade(run, folder, record, measuring)
        executor = build.build_executor(
            config.execution, benchmark, workers=workers, isolation=record.isolation
        )
        try:
            store = _store(run, config)
            for split in splits:
                for program in archived_names(run.folder):
                    adopt(folder, split, program, known.have(record, split, program, measuring))
            mask = cells.mask_of(config)
            bench = Bench(
                benchmark, executor, config.feedback, config.execution.episode_retries, folder, mask
            )
            pool = plan_pool(record.pool, benchmark, pool_secret(run, config))
            return regrade(Grading(record, folder, bench, pool, store), splits, observers)
        finally:
            executor.close()


def _store(run: Run, config: RunConfig) -> ProgramStore:
    """The Programs of `run` where the regrade keeps its own: stored again where its folder was
    moved."""
    store = ProgramStore(Path(config.output) / "programs")
    for name in archived_names(run.folder):
        program = archived(run.folder, name)
        if program is None:
            raise RecordError(
                f"{run.folder.name}: the Program {name[:12]} is missing; bring it along: a Run's "
                "programs/ holds links into that of its output folder (cp -rL copies what they "
                "lead to)"
            )
        if program.digest != name:
            raise RecordError(f"{run.folder.name}: the Program {name[:12]} was changed; restore it")
        store.put(program)
        store.get(name)  # what lies in the store is what will be run
    return store
