"""What tables compare, pair and say of the conditions their cells were measured under."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis import check_comparable, find_runs, load_frames
from evopolicy.analysis.paper.protocol import protocol_differences
from evopolicy.analysis.records.heldout import unlike_benchmarks
from evopolicy.analysis.records.scores import cell_scores
from evopolicy.analysis.tables.config import TableConfig
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.record import BenchmarkIdentity
from evopolicy.kernel.session.selection import SelectionConfig
from evopolicy.present.table import Table

Lay = Callable[..., Path]
POOL = PoolConfig("derived", 16, 4, 2, 0)
LAST = SelectionConfig("last", "fewer_failures")


def table(kind: str, columns: str, tmp_path: Path, **changes: Any) -> Table:
    config = TableConfig(title="t", kind=kind, columns=tuple(columns.split()), **changes)  # type: ignore[arg-type]
    return paper_table(config, load_frames(find_runs(tmp_path / "outputs")))


def overs(sheet: Table) -> set[str]:
    return {cell.over for row in sheet.rows for cell in row} - {""}


def foot(sheet: Table) -> str:
    return "\n".join(sheet.notes)


# --- which Episodes are the same ------------------------------------------------------------------


def lay_pools(lay_run: Lay, **pools: PoolConfig) -> None:
    for entry, pool in pools.items():
        for seed in range(3):
            lay_run(entry, "cartpole", seed, heldout=[1.0 + seed, 9.0 + seed], pool=pool)


@pytest.mark.parametrize(("kind", "columns"), [("rank", "rank_score"), ("heldout", "entries")])
def test_sizes_of_a_pool_leave_its_episodes_as_they_are(
    lay_run: Lay, tmp_path: Path, kind: str, columns: str
) -> None:
    lay_pools(lay_run, ada=POOL, bob=replace(POOL, training=128, validation=8))
    rows: Any = "benchmarks" if kind == "heldout" else "entries"
    sheet = table(kind, columns, tmp_path, rows=rows, interval="runs_and_episodes", allow=("pool",))
    assert overs(sheet) == {"runs_and_episodes"}
    assert "Other Episodes" not in foot(sheet)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 7},
        {"policy_seed": "case_plus_one"},
        {"kind": "paper"},
        {"kind": "paper", "cases": "hash"},
    ],
)
def test_what_draws_the_episodes_tells_them_apart(
    lay_run: Lay, tmp_path: Path, changes: dict[str, Any]
) -> None:
    lay_pools(lay_run, ada=POOL, bob=replace(POOL, **changes))
    found = find_runs(tmp_path / "outputs")
    assert (
        unlike_benchmarks(cell_scores(found))
        == unlike_benchmarks(load_frames(found).scores())
        == ("cartpole",)
    )
    rank = table("rank", "rank_score", tmp_path, interval="runs_and_episodes", allow=("pool",))
    assert "none are paired and a Run counts as its mean: cartpole." in foot(rank)
    assert overs(rank) <= {"runs"}


def test_a_cell_keeps_its_own_episodes_whatever_others_met(lay_run: Lay, tmp_path: Path) -> None:
    lay_pools(lay_run, ada=POOL, bob=replace(POOL, seed=7))
    config: dict[str, Any] = {
        "rows": "benchmarks",
        "interval": "runs_and_episodes",
        "allow": ("pool",),
    }
    sheet = table("heldout", "entries", tmp_path, **config)
    assert overs(sheet) == {"runs_and_episodes"}
    assert "Other Episodes" not in foot(sheet)
    lay_run("bob", "cartpole", 3, heldout=[1.0, 9.0], pool=POOL)
    mixed = table("heldout", "entries", tmp_path, **config)
    assert "a Run counts as its mean: bob on cartpole." in foot(mixed)
    assert [cell.over for cell in mixed.rows[0]][1:3] == ["runs_and_episodes", "runs"]


# --- selection rules ------------------------------------------------------------------------------


def test_runs_selected_by_two_rules_are_not_one_cell_unasked(lay_run: Lay, tmp_path: Path) -> None:
    lay_run("ada", "cartpole", 0)
    lay_run("ada", "cartpole", 1, selection=LAST)
    with pytest.raises(
        RecordError,
        match=r"mixes selection rules on cartpole: 'validation_mean, .*allow 'selection'",
    ):
        table("heldout", "entries", tmp_path, rows="benchmarks")
    allowed = table("heldout", "entries", tmp_path, rows="benchmarks", allow=("selection",))
    assert "Mixes selection rules" in foot(allowed)


def test_ties_are_part_of_a_rule_that_looks_at_them(lay_run: Lay, tmp_path: Path) -> None:
    lay_run("ada", "cartpole", 0, selection=LAST)
    lay_run("ada", "cartpole", 1, selection=SelectionConfig("last", "latest"))
    assert check_comparable(find_runs(tmp_path / "outputs")) == []
    lay_run("ada", "pendulum", 0)
    lay_run("ada", "pendulum", 1, selection=SelectionConfig("validation_mean", "latest"))
    with pytest.raises(RecordError, match="selection rules on pendulum"):
        check_comparable(find_runs(tmp_path / "outputs"))


def test_regrades_by_several_rules_stand_beside_each_other_and_their_parents(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_run("ada", "cartpole")
    for rule in ("validation_mean", "last"):
        config = SelectionConfig(rule, "fewer_failures")
        lay_run(
            "ada", "cartpole", tag=rule, selection=config, axes={"selection": rule}, parent="r" * 64
        )
    assert check_comparable(find_runs(tmp_path / "outputs")) == []
    rows = table("selection", "runs selected", tmp_path, rows="cells").rows
    assert [row[1].value for row in rows] == [
        "ada",
        "ada selection=last",
        "ada selection=validation_mean",
    ]


def test_of_a_run_in_a_sweep_over_rules_the_cell_says_which(lay_run: Lay, lay_sweep: Lay) -> None:
    """Both cells are one Run, whose record knows the axes of the first alone."""
    lay_run("ada", "cartpole", axes={"selection": "validation_mean"}, selection=LAST)
    cell = Cell(
        "runs/cartpole/ada/s0-abc",
        "ada selection=last",
        "cartpole",
        0,
        ("agent=ada", "selection=last"),
    )
    (score,) = cell_scores(find_runs(lay_sweep([replace(cell, status="finished")])))
    assert score.axes == {"selection": "last"}


# --- beside published rows ------------------------------------------------------------------------

PAPER: dict[str, Any] = {
    "pool": PoolConfig("paper", 1024, 16, 32, 0),
    "budget": Budget(128, 128, 128, "exhaust", "all"),
    "selection": SelectionConfig("validation_mean", "latest"),
    "benchmark": BenchmarkIdentity(
        "acrobot", "f/Acrobot-v1", "a" * 64, "m:f", {}, {"out_of_bounds": "clip"}
    ),
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"pool": PoolConfig("paper", 1024, 16, 64, 0)}, "pool 'paper (files), seed 0, 1024/16/64"),
        ({"pool": PoolConfig("paper", 1024, 16, 32, 0, "hash")}, "pool 'paper (hash)"),
        ({"budget": Budget(1000, 1128, None, "exhaust", "all")}, "budget '1000 Submissions, 1128 " "units"),
        ({"budget": Budget(1000, 128, None, "exhaust", "all")}, ""),
        ({"budget": Budget(128, 128, 8, "exhaust", "all")}, "at most 8 each"),
        ({"budget": Budget(128, 128, 128, "exhaust", "named")}, "candidates named"),
        ({"selection": LAST}, "selection 'last'"),
        ({"selection": SelectionConfig("validation_mean", "fewer_failures")}, "ties by fewer_failures"),
        ({"benchmark": BenchmarkIdentity("acrobot", "f/Acrobot-v1", "b" * 64, "m:f", {}, {"max_steps": 9})},
         "Benchmark parameters 'out_of_bounds=None, max_steps=9' in 1 of 1 cells"),
    ],
)  # fmt: skip
def test_what_is_not_the_papers_is_told_setting_by_setting(
    lay_run: Lay, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    lay_run("ada", "acrobot", **{**PAPER, **changes})
    parts = protocol_differences(load_frames(find_runs(tmp_path / "outputs")).scores())
    assert len(parts) == bool(words)
    assert words in "".join(parts)


@pytest.mark.parametrize(("kind", "column"), [("edits", "synthesis_edits"), ("code", "functions")])
def test_published_totals_beside_fewer_benchmarks_say_so(
    lay_run: Lay, tmp_path: Path, kind: str, column: str
) -> None:
    lay_run("ada", "acrobot", **PAPER)
    sheet = table(kind, column, tmp_path, published=True, benchmarks=("core16",), missing="exclude")
    assert (
        "Published rows are over all 16 Benchmarks of Core16, the others over Acrobot-v1 alone."
        in foot(sheet)
    )
    assert "complete for all entries." not in foot(sheet)


def test_normalized_means_are_over_the_same_benchmarks_in_every_row(
    lay_run: Lay, tmp_path: Path
) -> None:
    for entry, mean in (("ada", -90.0), ("rnd", -500.0)):
        lay_run(entry, "acrobot", heldout=[mean] * 2, **PAPER)
        lay_run(entry, "cartpole", heldout=[mean] * 2)
    config: dict[str, Any] = {
        "published": True,
        "zero": "rnd",
        "benchmarks": ("acrobot", "cartpole"),
    }
    sheet = table("normalized", "normalized benchmarks", tmp_path, **config)
    assert {row[2].whole for row in sheet.rows} == {"1"}
    assert "Over the 1 of 2 Benchmarks that are complete for all entries." in foot(sheet)


# --- few Runs, and keys ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "columns", "interval"),
    [("edits", "synthesis_hits", "runs"), ("efficiency", "area", "runs"), ("code", "lines", "none"),
     ("rank", "rank_score", "none")],
)  # fmt: skip
def test_a_table_without_episode_intervals_promises_none(
    lay_run: Lay, tmp_path: Path, kind: str, columns: str, interval: Any
) -> None:
    lay_run("ada", "cartpole")
    sheet = table(kind, columns, tmp_path, interval=interval)
    assert (
        "Fewer than three Runs in the only cell (ada on cartpole: 1): they do not say what"
        in foot(sheet)
    )
    assert "Episodes only" not in foot(sheet) and "single Episode" not in foot(sheet)


@pytest.mark.parametrize(
    ("kind", "column", "changes", "message"),
    [
        (
            "rank",
            "wins",
            {"by": "demand"},
            "by: it is for normalized and edits and code and efficiency; leave it out",
        ),
        ("rank", "wins", {"zero": "ada"}, "zero: it is for normalized; leave it out for rank"),
        ("heldout", "benchmarks", {"one": "published"}, "one: it is for normalized"),
        ("efficiency", "area", {"published": True}, "published: it is for"),
        ("code", "lines", {"seed": 3}, "seed: it is for rank and heldout and normalized"),
        (
            "code",
            "lines",
            {"interval": "runs_and_episodes"},
            "interval: what a code table shows is of Runs",
        ),
    ],
)
def test_a_key_that_the_kind_has_no_use_for_is_refused(
    kind: Any, column: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        TableConfig(title="t", kind=kind, columns=(column,), **changes)
