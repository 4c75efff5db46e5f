"""Plain config -> kernel objects; adapters joined to ports. The same objects load without Hydra."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from evopolicy.cells import (
    Parts,
    asked_network,
    by_hand,
    load_benchmark,
    parts_of,
    record_of,
    run_folder,
    settled,
    skills_of,
)
from evopolicy.config import ExecutionConfig, RunConfig
from evopolicy.config import config_from as config_from
from evopolicy.execution import isolation as levels
from evopolicy.execution.agent import network as agent_network
from evopolicy.execution.agent.by_hand import ByHand
from evopolicy.execution.agent.launcher import LocalAgentLauncher, know_logins
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.execution.machine import cores as cores
from evopolicy.execution.machine import versions
from evopolicy.kernel.errors import ConfigError, IsolationError, RecordError, did_you_mean
from evopolicy.kernel.files.durable import make_folder, move_durably
from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.files.program import ProgramStore, capture
from evopolicy.kernel.ports.benchmark import Benchmark, Split
from evopolicy.kernel.ports.evaluation import Evaluation, evaluate_program
from evopolicy.kernel.ports.feedback import Visibility
from evopolicy.kernel.ports.outcome import failure_counts
from evopolicy.kernel.ports.pool import SPLITS, plan_pool
from evopolicy.kernel.ports.protocols import (
    AgentIntegration,
    AgentLauncher,
    AgentLimits,
    Executor,
    Observer,
)
from evopolicy.kernel.run.owner import Ownership
from evopolicy.kernel.run.run import RunPlan, run
from evopolicy.kernel.session.record import (
    RECORD,
    Run,
    RunRecord,
    load_run,
)
from evopolicy.kernel.session.selection import Measurement, measure
from evopolicy.kernel.session.session import SessionSite
from evopolicy.kernel.session.submission import Bench
from evopolicy.session import client
from evopolicy.session.gateway import SocketGateway
from evopolicy.session.task_text import TaskTerms
from evopolicy.session.workspace import prepare_workspace

CALL_SECONDS = 5.0
"""From the end of a wait to the return of the command that waited, on a busy machine."""


def run_cell(
    config: RunConfig,
    observers: Sequence[Observer] = (),
    workers: int | None = None,
    *,
    owned: Path | None = None,
) -> Run:
    """Run the cell, or go on with what its folder holds. A finished one is returned as it is, an
    invalid one rerun.

    `owned`: the folder, where it is this command's already. Raises RecordError where another
    command works there."""
    config = settled(config)
    parts = parts_of(config)
    record = record_of(config, parts)
    folder = run_folder(config, record)
    if owned is None:
        with Ownership(folder):
            return _run_owned(config, parts, record, folder, observers, workers)
    if owned.absolute() != folder.absolute():
        raise RecordError(
            f"{owned}: its config makes another Run by now, {folder.name}; run the command again"
        )
    return _run_owned(config, parts, record, folder, observers, workers)


def _run_owned(
    config: RunConfig,
    parts: Parts,
    record: RunRecord,
    folder: Path,
    observers: Sequence[Observer],
    workers: int | None,
) -> Run:
    earlier = load_run(folder) if (folder / RECORD).exists() else None
    if earlier and earlier.finished and earlier.record.result_key == record.result_key:
        if earlier.valid:
            return earlier
        _set_aside(Path(config.output), folder)
        earlier = None
    isolation = _isolation(config, earlier)
    executor = build_executor(
        config.execution, parts.benchmark, workers=workers, isolation=isolation
    )
    try:
        agent_network.check(executor.isolation, asked_network(config), parts.agent.provider)
        executor.warm()  # the workers load the Benchmark while the agent starts
        know_logins(parts.mask.logins, parts.agent)
        launcher = _launcher(config, executor, parts)
        measuring = versions(parts.benchmark, config.execution.policy_packages)
        record = replace(
            record,
            isolation=executor.isolation,
            agent_isolation=launcher.isolation,
            versions={**measuring, **record.versions},
        )
        plan = _run_plan(config, parts, record, folder, executor, launcher, observers)
        return run(replace(plan, measuring=measuring))
    finally:
        executor.close()


def _isolation(config: RunConfig, earlier: Run | None) -> str:
    """A Run that goes on keeps the isolation it began with: its numbers are never of mixed levels.

    Raises IsolationError where that is less than the command asks for: a record alone never lowers
    it."""
    if earlier is None:
        return config.execution.isolation
    began = earlier.record.isolation
    asked = levels.choose(
        cast(levels.Asked, config.execution.isolation), config.execution.allow_unisolated
    )
    if levels.STRENGTH.get(began, 0) < levels.STRENGTH[asked]:
        more = " execution.allow_unisolated=true" if began == "none" else ""
        raise IsolationError(
            f"{earlier.folder.name}: began with isolation {began}, less than this command asks "
            f"for ({asked}); to go on with it add execution.isolation={began}{more}"
        )
    return began


def _set_aside(output: Path, folder: Path) -> None:
    """Keep an invalid Run under `output/invalid/`, as deep as before so that its links hold, and
    clear its place."""
    place = output / "invalid" / folder.relative_to(output / "runs")
    number = 1
    while (target := place.with_name(f"{place.name}-{number}")).exists():
        number += 1
    make_folder(target.parent)
    move_durably(folder, target)  # whole, here or there, wherever this is cut


def _run_plan(
    config: RunConfig,
    parts: Parts,
    record: RunRecord,
    folder: Path,
    executor: Executor,
    launcher: AgentLauncher,
    observers: Sequence[Observer],
) -> RunPlan:
    store = ProgramStore(Path(config.output) / "programs")
    initial = store.put(parts.initial)
    mask, block_seconds = parts.mask, _block_seconds(config, parts.agent)

    def prepare(socket: Path) -> None:
        prepare_workspace(
            folder / "workspace",
            spec=parts.benchmark.spec,
            terms=_terms(config, block_seconds),
            initial_program=initial,
            skills=skills_of(config),
            socket=launcher.seen_socket(socket),
        )

    bench = Bench(
        parts.benchmark, executor, config.feedback, config.execution.episode_retries, folder, mask
    )
    pool = plan_pool(config.pool, parts.benchmark, parts.secret)
    return RunPlan(
        record=record,
        folder=folder,
        site=SessionSite(
            bench, config.budget, pool, store, folder / "workspace", block_seconds, mask
        ),
        agent=parts.agent,
        launcher=launcher,
        gateway=SocketGateway(),
        limits=_limits(config),
        prompt=config.prompt.text,
        agent_retries=config.session.retries,
        backoff_seconds=config.session.backoff_seconds,
        prepare_workspace=prepare,
        observers=observers,
        prices=config.prices,
        mask=mask,
    )


def _block_seconds(config: RunConfig, agent: AgentIntegration) -> float:
    """How long a call may hold the agent's shell: no longer than that shell waits, less what a call
    itself takes."""
    longest = (
        math.inf if agent.call_seconds is None else max(1.0, agent.call_seconds - CALL_SECONDS)
    )
    return min(config.session.block_seconds, longest)


def _limits(config: RunConfig) -> AgentLimits:
    """A person has no process that could leave by itself once the Session is closed."""
    limits = config.session.limits
    return replace(limits, finish_grace_seconds=0.0) if by_hand(config.agent) else limits


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
    config: ExecutionConfig,
    benchmark: Benchmark,
    *,
    workers: int | None = None,
    isolation: str | None = None,
) -> LocalExecutor:
    """The engine for `benchmark`; close it when done. Raises IsolationError where the level does
    not hold here."""
    return LocalExecutor(
        benchmark.reference,
        config.limits,
        workers=workers or config.workers or cores(),
        isolation=levels.choose(
            cast(levels.Asked, isolation or config.isolation), config.allow_unisolated
        ),
        policy_packages=config.policy_packages,
    )


def _launcher(config: RunConfig, executor: Executor, parts: Parts) -> AgentLauncher:
    if by_hand(config.agent):
        return ByHand()
    levels.check_agent(executor.isolation)
    return LocalAgentLauncher(
        isolation=executor.isolation,
        client=Path(client.__file__),
        beside=[Path(client.__file__).with_name(name) for name in client.BESIDE],
        policy_packages=config.execution.policy_packages,
        network=asked_network(config),
        limits=config.session.limits,
        prices=config.prices,
        mask=parts.mask,
    )


def measure_program(
    config: RunConfig, program: Path, split: Split, workers: int | None = None
) -> tuple[Evaluation, Measurement]:
    """Evaluate the Program in the folder `program` on `split` of the config's pool, with no agent
    and no record.

    Raises ConfigError for a split there is none of or that has no Episode, ProgramError and
    ExecutionError."""
    if split not in SPLITS:
        raise ConfigError(f"split: unknown split '{split}'.{did_you_mean(split, SPLITS)}")
    if not config.pool.size(split):
        raise ConfigError(
            f"pool.{split}: is 0, so there is nothing to measure on; at least 1 is needed"
        )
    benchmark = load_benchmark(config.benchmark, config.execution.limits.step_seconds)
    pool = plan_pool(config.pool, benchmark, config.secret.read(Path(config.output), make=True))
    with HeldFolder("evaluate") as folder:
        stored = ProgramStore(folder).put(capture(program), durable=False)
        executor = build_executor(config.execution, benchmark, workers=workers)
        try:
            evaluation = evaluate_program(
                executor,
                benchmark,
                stored,
                getattr(pool, split),
                retries=config.execution.episode_retries,
            )
        finally:
            executor.close()
    failed = sum(failure_counts(evaluation.outcomes).values())
    return evaluation, measure([graded.score for graded in evaluation.graded], failed)
