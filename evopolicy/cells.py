"""Plain config -> what a cell is: its parts, key, folder and record, all that is known before
anything is spent."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from evopolicy import looks
from evopolicy.agents import agent_versions, load_agent
from evopolicy.authoring.discovery import find_benchmark
from evopolicy.config import RunConfig, check_cost_limit, refuse_secrets, written
from evopolicy.config import config_from as config_from
from evopolicy.execution import isolation as levels
from evopolicy.execution.agent import network as agent_network
from evopolicy.execution.machine import cores as cores
from evopolicy.execution.machine import machine
from evopolicy.kernel.errors import ConfigError, wrong_type
from evopolicy.kernel.files.program import Program, capture
from evopolicy.kernel.files.seal import seal
from evopolicy.kernel.ports.benchmark import Benchmark
from evopolicy.kernel.ports.protocols import (
    AgentIntegration,
    AgentNetwork,
)
from evopolicy.kernel.run.prices import Price
from evopolicy.kernel.secrecy.logins import Logins
from evopolicy.kernel.secrecy.secrets import Masker
from evopolicy.kernel.session.record import (
    SCHEMA,
    BenchmarkIdentity,
    RunRecord,
    new_id,
)
from evopolicy.kernel.session.selection import rule_versions
from evopolicy.kernel.values import digest
from evopolicy.session.workspace import skill_digests

RESULT_VERSION = 1
"""Part of every cell's key; raised only when the same config gives another result."""


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
    isolation: str
    """The level it would run at here."""


def is_provided(agent: Mapping[str, Any]) -> bool:
    """Whether the agent of a config is asked through a provider. Raises AgentError or
    ConfigError."""
    return load_agent(str(agent.get("name", "")), agent).provider is not None


def by_hand(agent: Mapping[str, Any]) -> bool:
    """Whether the agent of a config is a person: nothing is started, nothing holds who works in the
    workspace."""
    return agent.get("name") == "human"


def settled(config: RunConfig, *, provided: bool | None = None) -> RunConfig:
    """`config` with all that is left to the Host decided; `provided`: of all agents of a command,
    else of its own."""
    provided = is_provided(config.agent) if provided is None else provided
    try:
        price = msgspec.convert(config.agent.get("price"), Price | None)
    except msgspec.ValidationError as error:
        raise wrong_type(error, "agent.price") from None
    prices = config.prices.with_own(str(config.agent.get("model", "")), price)
    return replace(config, secret=config.secret.settled(provided=provided), prices=prices)


def cell_plan(config: RunConfig, *, begun: bool = False) -> CellPlan:
    """Check everything that can be checked before anything is spent, and say what the cell is.

    `begun`: nothing it was begun with is made anew. Raises ConfigError, AgentError, BenchmarkError
    or IsolationError."""
    config = settled(config)
    parts = parts_of(config, begun=begun)
    level = levels.choose(
        cast(levels.Asked, config.execution.isolation), config.execution.allow_unisolated
    )
    if not by_hand(config.agent):
        levels.check_agent(level)
    agent_network.check(level, asked_network(config), parts.agent.provider)
    record = record_of(config, parts)
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
        level,
    )


@dataclass(frozen=True)
class Parts:
    agent: AgentIntegration
    versions: Mapping[str, str]
    benchmark: Benchmark
    secret: bytes
    initial: Program
    skills: Mapping[str, str]
    """Digest of each skill's files, by name."""
    mask: Masker


def parts_of(config: RunConfig, *, begun: bool = False) -> Parts:
    agent = load_agent(str(config.agent.get("name", "")), config.agent)
    benchmark = load_benchmark(config.benchmark, config.execution.limits.step_seconds)
    mask = mask_of(config)
    refuse_secrets(written(config), mask)
    check_cost_limit(config, agent.provider.models if agent.provider else ())
    for key, seed in {"seed": config.seed, "pool.seed": config.pool.seed}.items():
        if seed < 0 and not begun:
            raise ConfigError(
                f"{key}: a whole number from 0 is needed, found {seed}; choose another"
            )
    if agent.program not in benchmark.programs:
        raise ConfigError(
            f"agent '{agent.identity.label}' starts from the '{agent.program}' Program, and "
            f"benchmark '{benchmark.spec.slug}' has none; it has "
            f"{', '.join(sorted(benchmark.programs))}"
        )
    initial = capture(benchmark.programs[agent.program])
    skills = skill_digests(skills_of(config))
    # Of an agent's program, and of the distributions that bring an agent or a rule that are not
    # ours.
    found = {
        **agent_versions(str(config.agent["name"])),
        **rule_versions(config.selection.rule),
        **agent.probe(),
    }
    _check_output(Path(config.output))
    secret = config.secret.read(Path(config.output), make=not begun)
    return Parts(agent, found, benchmark, secret, initial, skills, mask)


def asked_network(config: RunConfig) -> AgentNetwork:
    return cast(AgentNetwork, config.execution.agent_network)


def _network(config: RunConfig, agent: AgentIntegration) -> AgentNetwork:
    return (
        "open"
        if by_hand(config.agent)
        else agent_network.wanted(asked_network(config), agent.provider)
    )


def skills_of(config: RunConfig) -> list[Path]:
    return [Path(skill).expanduser() for skill in config.prompt.skills]


def load_benchmark(config: Mapping[str, Any], seconds: float = looks.SECONDS) -> Benchmark:
    """The Benchmark a config's `benchmark` names. Raises ConfigError or BenchmarkError.

    Any Gymnasium id is looked at in a process of its own, where a call of its Environment may take
    `seconds`."""
    parameters = {key: value for key, value in config.items() if key != "name"}
    return find_benchmark(
        str(config.get("name", "")), parameters, partial(looks.look, seconds=seconds)
    )


def _check_output(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise ConfigError(
            f"output: '{output}' cannot be written ({error.strerror}); choose another folder"
        ) from None


def run_folder(config: RunConfig, record: RunRecord) -> Path:
    """`output/runs/<benchmark>/<agent>/s<seed>-<key>/`."""
    label = _portable(record.agent.label) or _portable(record.agent.name) or "agent"
    return (
        Path(config.output)
        / "runs"
        / record.benchmark.slug
        / label
        / f"s{record.seed}-{_portable(record.key[:8])}"
    )


def _portable(name: str) -> str:
    """`name` as one part of a path that leads nowhere else; '' where nothing of it can be."""
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", name).strip("-.")


def record_of(config: RunConfig, parts: Parts) -> RunRecord:
    """What is known before an engine is started: its isolation and versions are still to come."""
    spec, reference = parts.benchmark.spec, parts.benchmark.reference
    secret = secret_digest(parts.secret)
    key = digest("evopolicy/cell/1", _cell_key(config, parts, secret))
    pool = config.pool
    result = [key, _plain(config.selection), pool.validation, pool.assessment]
    # Whoever has the record has the folder: a path of this machine would be of no use to anyone.
    output = Path(config.output)
    plain = {**written(config), "output": output.name if output.is_absolute() else config.output}
    return RunRecord(
        schema=SCHEMA,
        key=key,
        result_key=digest("evopolicy/result/1", result),
        agent=parts.agent.identity,
        benchmark=BenchmarkIdentity(
            spec.slug,
            spec.id,
            spec.digest,
            reference.factory,
            dict(reference.parameters),
            dict(spec.parameters),
        ),
        seed=config.seed,
        budget=config.budget,
        pool=pool,
        pool_secret_digest=secret,
        selection=config.selection,
        feedback=config.feedback,
        isolation="",
        agent_isolation="",
        agent_network=_network(config, parts.agent),
        initial_program=parts.initial.digest,
        versions=parts.versions,
        machine=machine(),
        created=round(time.time(), 3),
        suite=config.suite,
        axes=dict(config.axes),
        skills=parts.skills,
        config=plain,
        seal=seal(plain),
        id=new_id(),
    )


def secret_digest(secret: bytes) -> str:
    """What a record holds of the pool's secret; '' for none."""
    return hashlib.sha256(b"evopolicy/pool-secret/1" + secret).hexdigest() if secret else ""


def _cell_key(config: RunConfig, parts: Parts, secret_digest: str) -> list[Any]:
    """What defines the agent's part of a result; raise RESULT_VERSION when the same of it gives
    another result."""
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
        _network(config, parts.agent),
        _plain(config.session.limits),
        config.seed,
    ]


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value)


def mask_of(config: RunConfig) -> Masker:
    """Masks every secret that a process of this Run may come to know."""
    provider = config.agent.get("provider") or {}
    named = [
        *(config.agent.get("variables") or ()),
        config.agent.get("key_variable"),
        provider.get("key_variable"),
    ]
    return replace(Masker.of(os.environ, [name for name in named if name]), logins=Logins())
