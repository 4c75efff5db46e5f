"""The published random row stands beside what was measured on its cases, and beside nothing
else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis import RandomCell, find_runs, random_row, random_table
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.ports.protocols import AgentIdentity
from evopolicy.kernel.session.record import BenchmarkIdentity
from evopolicy.present import render

ROW = PoolConfig("paper", 1, 0, 32, 0, "hash", "case_plus_one")


@pytest.fixture
def lay_row(lay_run: Callable[..., Path]) -> Callable[..., Path]:
    """Lays a Run of `agent` on a Benchmark with a Gymnasium id."""

    def lay(
        slug: str, env_id: str, heldout: list[float], pool: PoolConfig = ROW, agent: str = "random"
    ) -> Path:
        return lay_run(
            agent,
            slug,
            heldout=heldout,
            pool=pool,
            agent=AgentIdentity(agent, agent),
            benchmark=BenchmarkIdentity(slug, f"family/{env_id}", "d" * 64, "m:f", {}),
        )

    return lay


def test_the_row_is_in_the_papers_order_with_equal_cells_marked(
    lay_row: Any, tmp_path: Path
) -> None:
    lay_row("reacher", "Reacher-v5", [-43.7719994412] * 32)
    lay_row("acrobot", "Acrobot-v1", [-499.15625] * 32)
    lay_row("half_cheetah", "HalfCheetah-v5", [-275.0, -274.0] * 16)
    cells = random_row(find_runs(tmp_path / "outputs"))
    assert [(c.benchmark, c.equal) for c in cells] == [
        ("acrobot", True),
        ("reacher", True),
        ("half_cheetah", False),
    ]
    text = render(random_table(cells), "terminal")
    assert "2 of 3" in text
    (cheetah,) = [line.split() for line in text.splitlines() if line.startswith("half_cheetah")]
    assert cheetah == ["half_cheetah", "-291.843544", "-274.500000", "0.09", "+17.343544"]
    assert max(map(len, text.splitlines())) < 120


def test_equal_is_to_the_last_published_digit() -> None:
    cell = RandomCell("minigrid_four_rooms", 0.041688, 0.0416875, 0.02)
    assert cell.equal
    assert not replace(cell, measured=0.041686).equal
    assert not replace(cell, published=0.0, measured=0.03).equal


@pytest.mark.parametrize(
    "changed",
    [
        {"pool": replace(ROW, cases="files")},
        {"pool": replace(ROW, policy_seed="opaque")},
        {"pool": replace(ROW, assessment=16)},
        {"agent": "baseline"},
    ],
)
def test_another_pool_or_agent_is_not_beside_it(
    lay_row: Any, tmp_path: Path, changed: dict[str, Any]
) -> None:
    lay_row("acrobot", "Acrobot-v1", [-499.15625] * 32, **changed)
    assert random_row(find_runs(tmp_path / "outputs")) == []


def test_a_task_the_paper_has_not_is_left_out(lay_row: Any, tmp_path: Path) -> None:
    lay_row("cartpole", "CartPole-v1", [20.0] * 32)
    assert random_row(find_runs(tmp_path / "outputs")) == []
