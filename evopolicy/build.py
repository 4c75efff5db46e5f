"""Plain config -> kernel objects; adapters joined to ports. The same objects load without Hydra."""

from __future__ import annotations

import hashlib
import math
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from evopolicy.agents import load_agent
from evopolicy.authoring.discovery import find_benchmark
from evopolicy.config import ExecutionConfig, RunConfig, check_cost_limit, refuse_secrets
from evopolicy.config import config_from as config_from
from evopolicy.execution import agent_network
from evopolicy.execution import isolation as levels
from evopolicy.execution.agent import LocalAgentLauncher
from evopolicy.execution.engine import LocalExecutor
from evopolicy.execution.machine import cores as cores
from evopolicy.execution.machine import machine, versions
from evopolicy.kernel.benchmark import Benchmark, Split
from evopolicy.kernel.errors import ConfigError, did_you_mean
from evopolicy.kernel.evaluation import Evaluation, evaluate_program, failure_counts
from evopolicy.kernel.feedback import Visibility
from evopolicy.kernel.pool import SPLITS, plan_pool
from evopolicy.kernel.ports import (
    AgentIntegration,
    AgentLauncher,
    AgentNetwork,
    Executor,
    Observer,
)
from evopolicy.kernel.program import Program, ProgramStore, capture
from evopolicy.kernel.record import (
    RECORD,
    SCHEMA,
    BenchmarkIdentity,
    Run,
    RunRecord,
    load_run,
)
from evopolicy.kernel.run import RunPlan, run
from evopolicy.kernel.secrets import Masker
from evopolicy.kernel.selection import Measurement, measure
from evopolicy.kernel.session import SessionSite
from evopolicy.kernel.submission import Bench
from evopolicy.kernel.values import digest
from evopolicy.session import client
from evopolicy.session.gateway import SocketGateway
from evopolicy.session.task_text import TaskTerms
from evopolicy.session.workspace import prepare_workspace, skill_digests

CALL_SECONDS = 5.0
"""From the end of a wait to the return of the command that waited, on a busy machine."""
RESULT_VERSION = 1
"""Part of every cell's key; raised only when the same config gives another result."""


# --- config -> what a cell is -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellPlan:
    """What is known of a cell before anything is spent."""

    key: str
    result_key: str
    folder: Path
    """The Run's folder."""
    entry: str
    benchmark: str
    seed: int
    units: int
    """Training Episode units at most."""
    validation_units: int
    """Validation Episodes at most: every candidate on every one."""
    assessment_units: int


def cell_plan(config: RunConfig) -> CellPlan:
    """Check everything that can be checked before anything is spent, and say what the cell is.

    Raises ConfigError, AgentError, BenchmarkError or IsolationError.
    """
    parts = _parts(config)
    _check_output(Path(config.output))
    level = levels.choose(cast(levels.Asked, config.execution.isolation), config.execution.allow_unisolated)
    levels.check_agent(level)
    agent_network.check(level, _asked_network(config), parts.agent.provider)
    record = _record(config, parts)
    candidates = config.budget.submissions if config.selection.needs_validation else 0
    return CellPlan(
        record.key,
        record.result_key,
        run_folder(config, record),
        record.entry,
        record.benchmark.slug,
        record.seed,
        config.budget.episodes,
        candidates * config.pool.validation,
        config.pool.assessment,
    )


@dataclass(frozen=True)
class _Parts:
    agent: AgentIntegration
    agent_versions: Mapping[str, str]
    benchmark: Benchmark
    secret: bytes
    initial: Program
    skills: Mapping[str, str]
    """Digest of each skill's files, by name."""


def _parts(config: RunConfig) -> _Parts:
    agent = load_agent(str(config.agent.get("name", "")), config.agent)
    benchmark = load_benchmark(config.benchmark)
    refuse_secrets(_plain(config), mask_of(config))
    check_cost_limit(config, agent.provider.models if agent.provider else ())
    if agent.program not in benchmark.programs:
        raise ConfigError(
            f"agent '{agent.identity.label}' starts from the '{agent.program}' Program, and benchmark "
            f"'{benchmark.spec.slug}' has none; it has {', '.join(sorted(benchmark.programs))}"
        )
    initial = capture(benchmark.programs[agent.program])
    skills = skill_digests(_skills(config))
    found = agent.probe()
    return _Parts(agent, found, benchmark, config.secret.read(), initial, skills)


def _asked_network(config: RunConfig) -> AgentNetwork:
    return cast(AgentNetwork, config.execution.agent_network)


def _skills(config: RunConfig) -> list[Path]:
    return [Path(skill).expanduser() for skill in config.prompt.skills]


def load_benchmark(config: Mapping[str, Any]) -> Benchmark:
    """The Benchmark a config's `benchmark` names. Raises ConfigError or BenchmarkError."""
    parameters = {key: value for key, value in config.items() if key != "name"}
    return find_benchmark(str(config.get("name", "")), parameters)


def _check_output(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise ConfigError(f"output: '{output}' cannot be written ({error.strerror}); choose another folder") from None


def run_folder(config: RunConfig, record: RunRecord) -> Path:
    """`output/runs/<benchmark>/<agent>/s<seed>-<key>/`."""
    label = re.sub(r"[^A-Za-z0-9_.=-]+", "-", record.agent.label).strip("-.") or record.agent.name
    return Path(config.output) / "runs" / record.benchmark.slug / label / f"s{record.seed}-{record.key[:8]}"


def _record(config: RunConfig, parts: _Parts) -> RunRecord:
    """What is known before an engine is started: its isolation and versions are still to come."""
    spec, reference = parts.benchmark.spec, parts.benchmark.reference
    secret = secret_digest(parts.secret)
    key = digest("evopolicy/cell/1", _cell_key(config, parts, secret))
    pool = config.pool
    result = [key, _plain(config.selection), pool.validation, pool.assessment]
    return RunRecord(
        schema=SCHEMA,
        key=key,
        result_key=digest("evopolicy/result/1", result),
        agent=parts.agent.identity,
        benchmark=BenchmarkIdentity(
            spec.slug, spec.id, spec.digest, reference.factory, dict(reference.parameters), dict(spec.parameters)
        ),
        seed=config.seed,
        budget=config.budget,
        pool=pool,
        pool_secret_digest=secret,
        selection=config.selection,
        feedback=config.feedback,
        isolation="",
        agent_isolation="",
        agent_network=agent_network.wanted(_asked_network(config), parts.agent.provider),
        initial_program=parts.initial.digest,
        versions=parts.agent_versions,
        machine=machine(),
        created=round(time.time(), 3),
        suite=config.suite,
        axes=dict(config.axes),
        skills=parts.skills,
        config=_plain(config),
    )


def secret_digest(secret: bytes) -> str:
    """What a record holds of the pool's secret; '' for none."""
    return hashlib.sha256(b"evopolicy/pool-secret/1" + secret).hexdigest() if secret else ""


def _cell_key(config: RunConfig, parts: _Parts, secret_digest: str) -> list[Any]:
    """What defines the agent's part of a result; raise RESULT_VERSION when the same of it gives another result."""
    pool = config.pool
    return [
        RESULT_VERSION,
        _plain(parts.agent.identity),
        [parts.benchmark.spec.slug, parts.benchmark.spec.digest, parts.initial.digest],
        _plain(config.budget),
        [pool.kind, pool.cases, pool.policy_seed, pool.seed, pool.training, secret_digest],
        _plain(config.feedback),
        # A skill counts by what it says, not by where it lies on this machine.
        [config.prompt.name, config.prompt.text, [list(pair) for pair in parts.skills.items()]],
        [_plain(config.execution.limits), list(config.execution.policy_packages)],
        agent_network.wanted(_asked_network(config), parts.agent.provider),
        _plain(config.session.limits),
        config.seed,
    ]


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value)


# --- config -> a Run ------------------------------------------------------------------------------------------------


def run_cell(config: RunConfig, observers: Sequence[Observer] = (), workers: int | None = None) -> Run:
    """Run the cell, or go on with what its folder holds. A finished one is returned as it is, an invalid one rerun."""
    parts = _parts(config)
    _check_output(Path(config.output))
    record = _record(config, parts)
    folder = run_folder(config, record)
    earlier = load_run(folder) if (folder / RECORD).exists() else None
    if earlier and earlier.finished and earlier.record.result_key == record.result_key:
        if earlier.valid:
            return earlier
        _set_aside(Path(config.output), folder)
        earlier = None
    # A Run that goes on keeps the isolation it began with: its numbers are never of mixed levels.
    isolation = earlier.record.isolation if earlier else config.execution.isolation
    executor = build_executor(config.execution, parts.benchmark, workers=workers, isolation=isolation)
    try:
        agent_network.check(executor.isolation, _asked_network(config), parts.agent.provider)
        executor.warm()  # the workers load the Benchmark while the agent starts
        launcher = _launcher(config, executor)
        record = replace(
            record,
            isolation=executor.isolation,
            agent_isolation=launcher.isolation,
            versions={**versions(parts.benchmark), **record.versions},
        )
        return run(_run_plan(config, parts, record, folder, executor, launcher, observers))
    finally:
        executor.close()


def _set_aside(output: Path, folder: Path) -> None:
    """Keep an invalid Run under `output/invalid/`, as deep as before so that its links hold, and clear its place."""
    place = output / "invalid" / folder.relative_to(output / "runs")
    number = 1
    while (target := place.with_name(f"{place.name}-{number}")).exists():
        number += 1
    target.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(target)


def _run_plan(
    config: RunConfig,
    parts: _Parts,
    record: RunRecord,
    folder: Path,
    executor: Executor,
    launcher: AgentLauncher,
    observers: Sequence[Observer],
) -> RunPlan:
    store = ProgramStore(Path(config.output) / "programs")
    initial = store.put(parts.initial)
    mask, block_seconds = mask_of(config), _block_seconds(config, parts.agent)

    def prepare(socket: Path) -> None:
        prepare_workspace(
            folder / "workspace",
            spec=parts.benchmark.spec,
            terms=_terms(config, block_seconds),
            initial_program=initial,
            skills=_skills(config),
            socket=launcher.seen_socket(socket),
        )

    bench = Bench(parts.benchmark, executor, config.feedback, config.execution.episode_retries, folder, mask)
    pool = plan_pool(config.pool, parts.benchmark, parts.secret)
    return RunPlan(
        record=record,
        folder=folder,
        site=SessionSite(bench, config.budget, pool, store, folder / "workspace", block_seconds, mask),
        agent=parts.agent,
        launcher=launcher,
        gateway=SocketGateway(),
        limits=config.session.limits,
        prompt=config.prompt.text,
        agent_retries=config.session.retries,
        backoff_seconds=config.session.backoff_seconds,
        prepare_workspace=prepare,
        observers=observers,
        prices=config.prices,
        mask=mask,
    )


def _block_seconds(config: RunConfig, agent: AgentIntegration) -> float:
    """How long a call may hold the agent's shell: no longer than that shell waits, less what a call itself takes."""
    longest = math.inf if agent.call_seconds is None else max(1.0, agent.call_seconds - CALL_SECONDS)
    return min(config.session.block_seconds, longest)


def _terms(config: RunConfig, block_seconds: float) -> TaskTerms:
    return TaskTerms(
        budget=config.budget,
        pool_size=config.pool.training,
        visibility=cast(Visibility, config.feedback.visibility),
        limits=config.execution.limits,
        packages=config.execution.policy_packages,
        block_seconds=block_seconds,
        wall_seconds=config.session.limits.wall_seconds,
    )


def build_executor(
    config: ExecutionConfig, benchmark: Benchmark, *, workers: int | None = None, isolation: str | None = None
) -> LocalExecutor:
    """The engine for `benchmark`; close it when done. Raises IsolationError where the level does not hold here."""
    return LocalExecutor(
        benchmark.reference,
        config.limits,
        workers=workers or config.workers or cores(),
        isolation=cast(levels.Asked, isolation or config.isolation),
        allow_unisolated=config.allow_unisolated,
        policy_packages=config.policy_packages,
    )


def _launcher(config: RunConfig, executor: Executor) -> AgentLauncher:
    levels.check_agent(executor.isolation)
    return LocalAgentLauncher(
        isolation=executor.isolation,
        client=Path(client.__file__),
        policy_packages=config.execution.policy_packages,
        network=_asked_network(config),
        limits=config.session.limits,
        prices=config.prices,
        mask=mask_of(config),
    )


def mask_of(config: RunConfig) -> Masker:
    """Masks every secret that a process of this Run may come to know."""
    provider = config.agent.get("provider") or {}
    named = [*(config.agent.get("variables") or ()), config.agent.get("key_variable"), provider.get("key_variable")]
    return Masker.of(os.environ, [name for name in named if name])


def measure_program(
    config: RunConfig, program: Path, split: Split, workers: int | None = None
) -> tuple[Evaluation, Measurement]:
    """Evaluate the Program in the folder `program` on `split` of the config's pool, with no agent and no record.

    Raises ConfigError for a split there is none of or that has no Episode, ProgramError and ExecutionError.
    """
    if split not in SPLITS:
        raise ConfigError(f"split: '{split}' is none.{did_you_mean(split, SPLITS)}")
    if not config.pool.size(split):
        raise ConfigError(f"pool.{split}: is 0, so there is nothing to measure on; at least 1 is needed")
    benchmark = load_benchmark(config.benchmark)
    pool = plan_pool(config.pool, benchmark, config.secret.read())
    with tempfile.TemporaryDirectory() as folder:
        stored = ProgramStore(Path(folder)).put(capture(program))
        executor = build_executor(config.execution, benchmark, workers=workers)
        try:
            evaluation = evaluate_program(
                executor, benchmark, stored, getattr(pool, split), retries=config.execution.episode_retries
            )
        finally:
            executor.close()
    failed = sum(failure_counts(evaluation.outcomes).values())
    return evaluation, measure([graded.score for graded in evaluation.graded], failed)
