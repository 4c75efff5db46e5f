"""Levels and seeds that changed nothing are told by name, in tables and figures alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis import find_runs, load_frames, note_of, profile_figure, rank_table
from evopolicy.analysis.records.copies import equal_levels, equal_seeds, trajectory_of
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.tables.config import TableConfig
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.kernel.ports.pool import PoolConfig


def cell(
    trajectory: str, seed: int = 0, benchmark: str = "x", agent: str = "ada", **axes: Any
) -> CellScore:
    named = {key.replace("__", "."): str(value) for key, value in axes.items()}
    entry = " ".join([agent, *(f"{key}={value}" for key, value in sorted(named.items()))])
    return CellScore(entry, benchmark, seed, "done", axes=named, key=entry, trajectory=trajectory)


def test_equal_programs_at_two_levels_are_told_with_how_often() -> None:
    cells = [cell(f"t{seed}", seed, pool__training=size) for size in (128, 16) for seed in (0, 1)]
    cells += [
        cell("a", 2, pool__training=16),
        cell("b", 2, pool__training=128),
        cell("", 3, pool__training=16),
    ]
    (said,) = equal_levels(cells)
    assert "ada pool.training=16|128 in 2 of 3 cells." in said


def test_one_setting_at_a_time_and_each_agent_by_itself() -> None:
    levels = [(budget, pool) for budget in ("small", "smoke") for pool in (4, 8)]
    moved = [cell(f"{b} {p}", budget=b, pool=p) for b, p in levels]
    assert equal_levels(moved) == []
    by_budget = [cell(b, agent="bob", budget=b, pool=p) for b, p in levels]
    (said,) = equal_levels([*moved, *by_budget])
    assert (
        "bob budget=small pool=4|8 in 1 of 1 cell; bob budget=smoke pool=4|8 in 1 of 1 cell."
        in said
    )
    assert "ada" not in said


@pytest.mark.parametrize(
    "cells",
    [
        [cell("", feedback="score"), cell("", feedback="full")],
        [cell("t", agent="ada"), cell("t", agent="bob")],
        [cell("t", seed, feedback=one) for seed, one in ((0, "score"), (1, "full"))],
        [cell("t", 0, slug, feedback=one) for slug, one in (("x", "score"), ("y", "full"))],
    ],
    ids=["nothing submitted", "other agents", "other seeds", "other Benchmarks"],
)
def test_what_is_no_copy_of_another_level_is_not_told(cells: list[CellScore]) -> None:
    assert equal_levels(cells) == []


def measured(
    selected: str, seed: int, benchmark: str = "x", agent: str = "ada", **changes: Any
) -> CellScore:
    known: dict[str, Any] = {
        "conditions": {"parameters": "1"},
        "settings": {"pool.seed": 0},
        **changes,
    }
    return CellScore(agent, benchmark, seed, "done", episodes=8, selected=selected, **known)


def test_seeds_that_gave_one_program_are_told_with_how_many_and_where() -> None:
    cells = [
        measured("p", seed, slug, agent)
        for seed in (0, 1)
        for slug in ("x", "y")
        for agent in ("ada", "bob")
    ]
    cells += [measured(program, seed, "z") for seed, program in enumerate("ppq")]
    (said,) = equal_seeds(cells)
    assert "ada, bob (2 of 2 on 2 Benchmarks); ada (2 of 3 on z). Such Runs are copies" in said


@pytest.mark.parametrize(
    "other",
    [
        measured("q", 1),
        measured("p", 1, "y"),
        measured("p", 1, agent="bob"),
        measured("p", 0),
        measured("p", 1, settings={"pool.seed": 1}),
        measured("p", 1, conditions={"parameters": "2"}),
    ],
    ids=[
        "another Program",
        "another Benchmark",
        "another entry",
        "one seed",
        "other Episodes",
        "another task",
    ],
)
def test_what_is_no_copy_over_seeds_is_not_told(other: CellScore) -> None:
    assert (
        equal_seeds([measured("p", 0), other])
        == equal_seeds([measured("", 0), measured("", 1)])
        == []
    )


def test_every_table_and_figure_tells_the_seeds_that_are_copies(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    for seed in range(3):
        lay_run("still", "cartpole", seed, [1.0, 2.0], alike=True)
        lay_run("ada", "cartpole", seed, [1.0 + seed, 2.0 + seed])
    found = find_runs(tmp_path / "outputs")
    frames = load_frames(found)
    config = TableConfig(title="t", kind="heldout", columns=("benchmarks",))
    told = "Several seeds gave the same Program: still (3 of 3 on cartpole)."
    for said in (
        "\n".join(paper_table(config, frames).notes),
        "\n".join(rank_table(found).notes),
        note_of(profile_figure(frames)),
    ):
        assert told in said


def test_a_trajectory_is_the_programs_in_their_order() -> None:
    assert trajectory_of("ab") == trajectory_of(["a", "b"]) != trajectory_of("ba")
    assert trajectory_of("") == ""


def test_every_table_and_figure_tells_the_copies(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    for pool in (16, 128):
        for seed in range(3):
            changes: dict[str, Any] = {
                "axes": {"pool.training": str(pool)},
                "pool": PoolConfig("derived", pool, 4, 8, 0),
                "key": f"{pool}-{seed}".encode().hex().ljust(64, "0"),
            }
            lay_run("ada", "cartpole", seed, [1.0 + seed, 2.0 + seed], tag=str(pool), **changes)
            rules = {**changes, "axes": {"pool.training": str(pool), "selection": "last"}}
            if pool == 16:  # read by another rule: the same Run, and no copy
                lay_run("ada", "cartpole", seed, [1.0 + seed, 3.0 + seed], tag="rule", **rules)
    found = find_runs(tmp_path / "outputs")
    frames = load_frames(found)
    config = TableConfig(title="t", kind="heldout", columns=("benchmarks",))
    told = "ada pool.training=16|128 in 3 of 3 cells."
    for said in (
        "\n".join(paper_table(config, frames).notes),
        "\n".join(rank_table(found).notes),
        note_of(profile_figure(frames)),
    ):
        assert told in said
        assert "selection=" not in said
