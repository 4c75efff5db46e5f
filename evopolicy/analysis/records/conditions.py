"""What a Run was measured under: in words that are compared, and by setting where a comparison
needs one of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from evopolicy.kernel.errors import ConfigError, did_you_mean
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.record import RunRecord
from evopolicy.kernel.session.selection import SelectionConfig
from evopolicy.kernel.values import digest

CONDITIONS: Mapping[str, str] = {
    "isolation": "isolation levels",
    "parameters": "Benchmark parameters",
    "pool": "pools",
    "budget": "budgets",
    "selection": "selection rules",
    "versions": "package versions",
    "duplicates": "several Runs of one cell",
}
"""What may not differ inside one comparison unless asked for, and how messages call it."""

AXES: Mapping[str, tuple[str, ...]] = {
    "isolation": ("execution",),
    "parameters": (),
    "pool": ("pool", "protocol"),
    "budget": ("budget", "protocol"),
    "selection": ("selection", "protocol"),
}
"""Config groups that set a condition: swept, its difference is part of the entry's name and so was
asked for. None for the Benchmark's: an Episode of 20 steps and one of 50 are no ranks of one
task."""

IDENTITY: tuple[str, ...] = ("agent", "prompt", "feedback", "session", "execution", "versions")
"""Groups of the settings that make a cell what it is beside its conditions: the Runs of one entry
have the same."""
OF_A_BENCHMARK: tuple[str, ...] = (
    "agent.initial_program",
    "execution.limits",
    "execution.policy_packages",
)
"""Of them, those that go with the Benchmark: the Runs of one entry have the same on each."""

_DRAWN_BY = ("pool.kind", "pool.cases", "pool.seed", "pool.policy_seed", "pool.secret")
"""Settings that decide which held-out Episode an index is. Sizes do not: no split shifts
another."""


def run_conditions(record: RunRecord) -> dict[str, str]:
    """By the names in AXES what `record` was measured under, in words equal exactly when the
    conditions are."""
    pool, budget = record.pool, record.budget
    cases = f" ({pool.cases})" if pool.kind == "paper" else ""
    secret = f", secret {record.pool_secret_digest[:12]}" if record.pool_secret_digest else ""
    cap = f", at most {budget.per_submission} each" if budget.per_submission is not None else ""
    return {
        "isolation": record.isolation,
        "parameters": record.benchmark.digest,
        "pool": f"{pool.kind}{cases}, seed {pool.seed}, "
        f"{pool.training}/{pool.validation}/{pool.assessment} Episodes, policy seed "
        f"{pool.policy_seed}{secret}",
        "budget": f"{budget.submissions} Submissions, {budget.episodes} units{cap}, "
        f"{budget.finish}, candidates {budget.candidates}",
        "selection": _selection_words(record.selection),
    }


def _selection_words(selection: SelectionConfig) -> str:
    ties = f", ties by {selection.tie_break}" if selection.breaks_ties else ""
    return f"{selection.rule}{ties}"


def run_settings(record: RunRecord) -> dict[str, Any]:
    """By config key what defines the cell of `record`, but for its seed; versions as
    `versions.PACKAGE`.

    `benchmark.*` are the Benchmark's public parameters. What an older record does not hold is left
    out."""
    parts = {
        "pool": record.pool,
        "budget": record.budget,
        "selection": record.selection,
        "feedback": record.feedback,
    }
    found = {
        f"{group}.{key}": value
        for group, part in parts.items()
        for key, value in msgspec.to_builtins(part).items()
    }
    found["pool.secret"] = record.pool_secret_digest
    found |= {f"benchmark.{key}": value for key, value in record.benchmark.parameters.items()}
    return (
        found
        | _agent_settings(record)
        | {f"versions.{key}": value for key, value in record.versions.items()}
    )


def _agent_settings(record: RunRecord) -> dict[str, Any]:
    """What the agent is, what it is told and what it and its Programs may spend."""
    agent = msgspec.to_builtins(record.agent)
    prompt, execution, session = (
        record.config.get(name) or {} for name in ("prompt", "execution", "session")
    )
    found = {
        "agent.name": agent["name"],
        "agent.model": agent["model"],
        **{f"agent.{key}": value for key, value in agent["options"].items()},
        "agent.initial_program": record.initial_program,
        "prompt.skills": dict(record.skills),
        "execution.agent_network": record.agent_network,
        **{
            f"execution.limits.{key}": value
            for key, value in (execution.get("limits") or {}).items()
        },
        **{f"session.limits.{key}": value for key, value in (session.get("limits") or {}).items()},
    }
    if prompt:
        # The text counts and is long: two of one name differ by their digests.
        found |= {
            "prompt.name": prompt.get("name"),
            "prompt.text": digest("evopolicy/prompt/1", prompt.get("text")),
        }
    if "policy_packages" in execution:
        found["execution.policy_packages"] = list(execution["policy_packages"])
    return found


def check_allowed(names: Collection[str]) -> None:
    """Raises ConfigError for a name in `allow=` that is neither a condition nor a setting of
    IDENTITY, or its group."""
    for name in names:
        if name not in CONDITIONS and name.partition(".")[0] not in IDENTITY:
            hint = did_you_mean(name, [*CONDITIONS, *IDENTITY])
            raise ConfigError(f"allow: there is no '{name}'.{hint}")


def is_allowed(setting: str, names: Collection[str]) -> bool:
    """Whether `names` has `setting` or a group it is in: `agent.sigma` by itself or by `agent`."""
    parts = setting.split(".")
    return any(".".join(parts[:size]) in names for size in range(1, len(parts) + 1))


def drawn_by(conditions: Mapping[str, str], settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal of two Runs of one Benchmark exactly where an index is the same held-out Episode in
    both."""
    if not settings:
        return conditions.get("parameters"), conditions.get("pool")
    cases = settings.get("pool.cases") if settings.get("pool.kind") == "paper" else None
    drawn = {**{name: settings.get(name) for name in _DRAWN_BY}, "pool.cases": cases}
    return conditions.get("parameters"), *drawn.values()


def run_axes(record: RunRecord, cell: Cell | None = None) -> dict[str, str]:
    """The swept settings in the entry's name: of the sweep's `cell`, where it tells, else the
    record's.

    Cells of a sweep over selection rules are one Run, whose record names the axes of the first
    alone."""
    if cell is None or not cell.overrides:
        return dict(record.axes)
    pairs = (override.lstrip("+").partition("=") for override in cell.overrides)
    plain = {key.partition("@")[0].replace("/", "."): value.strip("'\"") for key, _, value in pairs}
    return {key: value for key, value in plain.items() if f" {key}={value}" in cell.entry}
