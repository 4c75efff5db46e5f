"""Which settings a sweep varies beside agent, Benchmark and seed: with the agent's label they name
its entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

_NEVER = frozenset({"agent", "benchmark", "seed", "suite", "output", "sweep", "dry_run"})
_NEVER_BELOW = ("tracking", "launcher", "hydra", "secret", "axes", "execution.workers")


def swept_axes(
    overrides: Sequence[Sequence[str]],
    configs: Sequence[Mapping[str, Any]],
    swept: Collection[str] = (),
) -> list[dict[str, str]]:
    """For each cell the values of the keys that vary over all of them.

    `overrides` are those of each cell, `configs` the same cells composed. A key under `agent`
    counts only where it varies within one label, and one under `benchmark` only where it varies
    within one Benchmark: otherwise the label or the Benchmark says it already. `swept` keys vary
    over cells that are yet to come."""
    values = [_values(cell) for cell in overrides]
    keys = sorted({key for cell in values for key in cell})
    axes = [key for key in keys if _counts(key) and len({cell.get(key, "") for cell in values}) > 1]
    axes = [key for key in axes if _is_told_apart(key, values, configs)]
    axes = sorted({*axes, *filter(_counts, swept)})
    return [{key: cell[key] for key in axes if key in cell} for cell in values]


def _values(overrides: Sequence[str]) -> dict[str, str]:
    """Value by key; a deletion is no axis, and a package or the + of an addition no part of a
    key."""
    pairs = (
        override.lstrip("+").partition("=")
        for override in overrides
        if not override.startswith("~")
    )
    return {key.partition("@")[0].replace("/", "."): value.strip("'\"") for key, _, value in pairs}


def _counts(key: str) -> bool:
    return key not in _NEVER and not any(
        key == name or key.startswith(f"{name}.") for name in _NEVER_BELOW
    )


def _is_told_apart(
    key: str, values: Sequence[Mapping[str, str]], configs: Sequence[Mapping[str, Any]]
) -> bool:
    group = key.partition(".")[0]
    if group not in ("agent", "benchmark"):
        return True
    names = ("name", "label") if group == "agent" else ("name", "env_id")
    found: dict[tuple[str, ...], set[str]] = {}
    for cell, config in zip(values, configs, strict=True):
        identity = tuple(str(config.get(group, {}).get(name, "")) for name in names)
        found.setdefault(identity, set()).add(cell.get(key, ""))
    return any(len(inside) > 1 for inside in found.values())
