"""A small sweep of the offline agents, each cell a full Run: records for whatever reads records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evopolicy import build
from evopolicy.config import ExecutionConfig
from evopolicy.execution.engine.executor import LocalExecutor
from evopolicy.kernel.ports.benchmark import Benchmark
from evopolicy.kernel.run.sweep import SCHEMA, Cell, Sweep, write_sweep
from evopolicy.kernel.session.record import Run
from evopolicy.presets import load_config

NAME = "offline"
AGENTS = ("random", "baseline", "cma_es")
BENCHMARKS = ("cartpole", "pendulum", "acrobot", "frozen_lake")
"""Seconds each; one of them is of the paper's sixteen."""
SEEDS = (0, 1, 2)
SETTINGS: Mapping[str, Any] = {
    "budget": {"submissions": 4, "episodes": 4},
    "pool": {"training": 4, "validation": 2, "assessment": 4},
    "execution": {"workers": 1},
    "tracking": "off",
}


def sweep_offline_agents(output: Path) -> list[Run]:
    """Run every agent on every Benchmark with every seed, and write the sweep NAME under
    `output`."""
    with one_engine_a_benchmark():
        runs = [
            _run(output, agent, name, seed)
            for name in BENCHMARKS
            for agent in AGENTS
            for seed in SEEDS
        ]
    cells = tuple(
        Cell(
            run.folder.relative_to(output).as_posix(),
            run.record.entry,
            run.record.benchmark.slug,
            run.record.seed,
            status="finished" if run.valid else "failed",
            result_key=run.record.result_key,
        )
        for run in runs
    )
    write_sweep(output, Sweep(SCHEMA, NAME, runs[0].record.created, cells))
    return runs


def _run(output: Path, agent: str, benchmark: str, seed: int) -> Run:
    config = load_config(
        "smoke",
        output=str(output),
        agent={"name": agent},
        benchmark=benchmark,
        seed=seed,
        **SETTINGS,
    )
    return build.run_cell(config)


class _Kept:
    """An engine that its user may close without ending it."""

    def __init__(self, engine: LocalExecutor) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def close(self) -> None:
        """Left to `one_engine_a_benchmark`."""


@contextmanager
def one_engine_a_benchmark() -> Iterator[None]:
    """Inside, Runs of one Benchmark share its engine: starting one costs more than such a Run's
    Episodes."""
    engines: dict[str, LocalExecutor] = {}
    start = build.build_executor

    def share(config: ExecutionConfig, benchmark: Benchmark, **options: Any) -> _Kept:
        slug = benchmark.spec.slug
        if slug not in engines:
            for old in engines:
                engines.pop(old).close()
                break
            engines[slug] = start(config, benchmark, **options)
        return _Kept(engines[slug])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "build_executor", share)
        try:
            yield
        finally:
            for engine in engines.values():
                engine.close()
