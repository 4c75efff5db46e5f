"""The plain config of a Run: what the YAML groups mirror. No Hydra here; the same objects load
without it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, cast, get_type_hints

import msgspec

from evopolicy.kernel.errors import ConfigError, did_you_mean, wrong_type
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.ports.protocols import AGENT_NETWORKS, AgentLimits, Limits
from evopolicy.kernel.run.prices import NO_PRICES, PriceTable
from evopolicy.kernel.secrecy.pool_secret import pool_secret
from evopolicy.kernel.secrecy.secrets import Masker, is_secret_argument, is_secret_key, mask_uri
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.record import FeedbackConfig
from evopolicy.kernel.session.selection import RULES, SelectionConfig

MAX_BLOCK_SECONDS = 600.0
LEAST_SECONDS = 0.001
MOST_SECONDS = 1e7
MOST_WORKERS = 1024
LEAST_MEMORY = 1 << 24
LEAST_SCRATCH = 1 << 16
MOST_BYTES = 1 << 50


def _within(key: str, value: float | None, least: float, most: float = math.inf) -> None:
    """Raises ConfigError where `value` is not a finite number from `least` to `most`; None
    passes."""
    if value is not None and not (least <= value <= most and math.isfinite(value)):
        upper = "" if most == math.inf else f" and at most {most:g}"
        raise ConfigError(f"{key}: at least {least:g}{upper} is needed, found {value:g}")


@dataclass(frozen=True)
class PromptConfig:
    """What the agent is told first. Its variants are an experiment of their own."""

    name: str
    text: str
    skills: tuple[str, ...]
    """Folders copied read-only under the workspace's `skills/`."""


@dataclass(frozen=True)
class SessionConfig:
    """How the Host deals with the agent's process."""

    block_seconds: float
    """Longest time `submit` and `wait` hold the agent's shell; they then answer `running`."""
    limits: AgentLimits
    retries: int
    """New attempts after the provider failed (overload, rate limit, network)."""
    backoff_seconds: float
    """Wait before attempt k: this times 2**k."""

    def __post_init__(self) -> None:
        # The client gives up after 900 s, so a call has to come back well before.
        _within("session.block_seconds", self.block_seconds, 0, MAX_BLOCK_SECONDS)
        _within("session.retries", self.retries, 0)
        _within("session.backoff_seconds", self.backoff_seconds, 0)
        for name in (
            "wall_seconds",
            "idle_seconds",
            "finish_grace_seconds",
            "tokens",
            "cost_usd",
            "requests",
        ):
            _within(f"session.limits.{name}", getattr(self.limits, name), 0)


@dataclass(frozen=True)
class ExecutionConfig:
    """Where and how Episodes and agents run."""

    isolation: str
    """'auto' (the strongest level a probe proves), 'bubblewrap', 'landlock' or 'none'."""
    allow_unisolated: bool
    """Needed for 'none': Programs are written by models and can do anything you can."""
    agent_network: str
    """How an agent reaches its provider: 'proxy', 'allowlist', 'open' or 'none'."""
    workers: int | None
    """Environment workers; null: one per core this process may use."""
    policy_packages: tuple[str, ...]
    """Python packages a Policy may import."""
    episode_retries: int
    """How often an Episode is tried again after an Environment or engine fault."""
    limits: Limits

    def __post_init__(self) -> None:
        if self.agent_network not in AGENT_NETWORKS:
            hint = did_you_mean(self.agent_network, AGENT_NETWORKS)
            raise ConfigError(f"execution.agent_network: '{self.agent_network}' is unknown.{hint}")
        _within("execution.workers", self.workers, 1, MOST_WORKERS)
        _within("execution.episode_retries", self.episode_retries, 0)
        for name in ("act_seconds", "episode_seconds", "step_seconds"):
            _within(
                f"execution.limits.{name}", getattr(self.limits, name), LEAST_SECONDS, MOST_SECONDS
            )
        _within("execution.limits.stall_factor", self.limits.stall_factor, 1, MOST_SECONDS)
        for name, least in (
            ("memory_bytes", LEAST_MEMORY),
            ("output_bytes", 0),
            ("scratch_bytes", LEAST_SCRATCH),
        ):
            _within(f"execution.limits.{name}", getattr(self.limits, name), least, MOST_BYTES)


@dataclass(frozen=True)
class SecretConfig:
    """Where the pool's secret is; the record holds its digest only. At most one of the three."""

    file: str | None
    variable: str | None
    generated: bool | None = False
    """The Host's own, kept in the output folder; None: where an agent of the command is asked
    through a provider.

    Records from before there was any have none.
    """

    def __post_init__(self) -> None:
        given = {"file": self.file, "variable": self.variable, "generated=true": self.generated}
        if len(named := [f"'{name}'" for name, value in given.items() if value]) > 1:
            raise ConfigError(f"secret: give only one of {' and '.join(named)}")

    def settled(self, *, provided: bool) -> SecretConfig:
        """With `generated` decided; `provided`: an agent of the command is asked through a
        provider."""
        if self.generated is not None:
            return self
        return replace(self, generated=provided and not self.file and not self.variable)

    def read(self, output: Path, *, make: bool = False) -> bytes:
        """The secret; empty for none. One that is generated is `output`'s, and `make` says whether
        it may be made now.

        Raises ConfigError.
        """
        if self.generated:
            return pool_secret(output, make=make)
        if self.file:
            try:
                secret = Path(self.file).expanduser().read_bytes().strip()
            except OSError as error:
                raise ConfigError(
                    f"secret.file: '{self.file}' cannot be read ({error.strerror}); name the file "
                    "that holds the secret"
                ) from None
            return _not_empty(secret, f"secret.file: '{self.file}'")
        if self.variable:
            if self.variable not in os.environ:
                raise ConfigError(
                    f"secret.variable: the environment has no '{self.variable}'; set it or choose "
                    "another"
                )
            return _not_empty(
                os.environ[self.variable].encode(), f"secret.variable: '{self.variable}'"
            )
        return b""


def _not_empty(secret: bytes, where: str) -> bytes:
    if not secret:
        raise ConfigError(
            f"{where} is empty, so anyone could compute the pool; put a secret there or name none"
        )
    return secret


@dataclass(frozen=True)
class TrackingConfig:
    """MLflow, a projection of the record. It can neither fail nor slow a Run."""

    enabled: bool
    uri: str | None
    """MLflow's store: a database's address, a server's, or '' for the output folder's mlflow.db."""
    experiment: str
    """MLflow's experiment (evopolicy)."""
    artifacts: str
    """'standard' (Programs, Feedback, permanent artifacts, the record) or 'full' (bulk traces and
    replays too)."""

    def __post_init__(self) -> None:
        if self.artifacts not in ("standard", "full"):
            raise ConfigError(
                f"tracking.artifacts: 'standard' or 'full' is needed, found '{self.artifacts}'"
            )


@dataclass(frozen=True)
class RunConfig:
    """One cell: everything a Run needs, resolved."""

    agent: Mapping[str, Any]
    """`name` of the integration, `label`, `model`, and its own options."""
    benchmark: Mapping[str, Any]
    """`name` (a slug, or 'gymnasium') and the task's public parameters."""
    budget: Budget
    pool: PoolConfig
    secret: SecretConfig
    selection: SelectionConfig
    feedback: FeedbackConfig
    prompt: PromptConfig
    session: SessionConfig
    execution: ExecutionConfig
    tracking: TrackingConfig
    seed: int
    """The agent's replicate; the pool does not change with it."""
    output: str
    """Folder of runs/, sweeps/, programs/ and mlflow.db."""
    suite: str
    """The suite this cell came from, '' for none."""
    axes: Mapping[str, str]
    """Swept settings other than agent, Benchmark and seed."""
    prices: PriceTable = NO_PRICES
    """What a cost is estimated by. Records from before there were any have none."""

    def __post_init__(self) -> None:
        self.budget.check_against(self.pool.training)
        if self.selection.needs_validation and self.pool.validation == 0:
            others = ", ".join(name for name, rule in RULES.items() if not rule.needs_validation)
            raise ConfigError(
                f"selection.rule: '{self.selection.rule}' needs Validation, but pool.validation "
                f"is 0; set it to at least 1 or choose one of {others}"
            )


def config_from(value: Mapping[str, Any]) -> RunConfig:
    """A resolved plain config as dataclasses. Raises ConfigError naming the key that is wrong or
    that there is not."""
    _refuse_unknown(value, RunConfig, "")
    try:
        return msgspec.convert(value, RunConfig)
    except msgspec.ValidationError as error:
        raise wrong_type(error, "") from None


def _refuse_unknown(value: Mapping[str, Any], kind: type, where: str) -> None:
    """A misspelt key that is added (`+seeed=1`) must not be a Run under the default."""
    known = get_type_hints(kind)
    for key, inner in value.items():
        if key not in known:
            raise ConfigError(f"{where}{key}: there is no such key.{did_you_mean(str(key), known)}")
        if is_dataclass(known[key]) and isinstance(inner, Mapping):
            _refuse_unknown(inner, cast(type, known[key]), f"{where}{key}.")


def written(config: RunConfig) -> dict[str, Any]:
    """The config as records, jobs and MLflow hold it: the tracking URI without its password."""
    value: dict[str, Any] = msgspec.to_builtins(config)
    if config.tracking.uri:
        value["tracking"]["uri"] = mask_uri(config.tracking.uri)
    return value


def refuse_secrets(value: Any, mask: Masker, key: str = "") -> None:
    """Raises ConfigError for a key in a plain config: it is written to records and MLflow, so
    variables are named."""
    secret = isinstance(value, str) and (
        mask.holds(value.encode("utf-8", "replace")) or is_secret_argument(value)
    )
    if secret or (isinstance(value, str) and value and is_secret_key(key.rpartition(".")[2])):
        raise ConfigError(
            f"{key}: holds a key, or what looks like one; name the variable that holds it instead"
        )
    inner = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, item in inner:
        refuse_secrets(item, mask, f"{key}.{name}" if key else str(name))


def check_cost_limit(config: RunConfig, models: Iterable[str]) -> None:
    """Raises ConfigError for a limit on cost that cannot be held: what has no price is never too
    expensive."""
    for model in models if config.session.limits.cost_usd is not None else ():
        if config.prices.price(model) is None:
            raise ConfigError(
                f"session.limits.cost_usd: the price of '{model}' is not known; add it to a list "
                "of your own (conf/prices/mine.yaml, prices=mine), or limit session.limits.tokens"
            )
