"""The rank table of records."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicy.analysis import entry_ranks, find_runs, published_scores, rank_table
from evopolicy.analysis.paper.published import FAMILIES, NOTE
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.tables.footnotes import _reason
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.record import BenchmarkIdentity

Lay = Callable[..., Path]
Plan = Callable[..., Cell]


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return tmp_path / "outputs"


def notes(table: object) -> str:
    return "\n".join(table.notes)  # type: ignore[attr-defined]


def test_a_worked_table(lay_run: Lay, outputs: Path) -> None:
    # cartpole: ada (4 + 6) / 2 = 5, bob 5 (a tie), eve 1; pendulum: eve 3, bob 2, ada 1.
    for name, cartpole, pendulum in (
        ("ada", (4, 6), (1, 1)),
        ("bob", (5, 5), (2, 2)),
        ("eve", (1, 1), (3, 3)),
    ):
        for seed in (0, 1):
            lay_run(name, "cartpole", seed, heldout=[cartpole[seed]] * 2)
            lay_run(name, "pendulum", seed, heldout=[pendulum[seed]] * 2)
    table = rank_table(find_runs(outputs), missing="refuse")

    assert [(r.entry, r.place, r.rank_score, r.wins, r.top2) for r in table.entries] == [
        ("bob", 1, 0.75, 1, 2),
        ("ada", 2, 0.5, 1, 1),
        ("eve", 2, 0.5, 1, 1),
    ]
    ada = table.cells["ada", "cartpole"]
    assert (ada.mean, ada.standard_error, ada.error_over, ada.rank, ada.rank_score) == (
        5.0,
        1.0,
        "seeds",
        1,
        1.0,
    )
    assert table.benchmarks == table.ranked == ("cartpole", "pendulum")
    assert table.entries[0].heldout == {"cartpole": 5.0, "pendulum": 2.0}
    assert "over 2 Benchmarks; N = 3" in notes(table)
    assert "over 2 seeds (fewer than three" in notes(table)


def test_one_seed_shows_the_error_over_its_episodes_named_as_such(
    lay_run: Lay, outputs: Path
) -> None:
    lay_run("ada", "cartpole", heldout=[1.0, 3.0])
    table = rank_table(find_runs(outputs))
    cell = table.cells["ada", "cartpole"]

    assert (cell.standard_error, cell.error_over) == (1.0, "episodes")
    assert "over the held-out Episodes of a single Run" in notes(table)


def test_totals_cover_every_run_that_has_begun(lay_run: Lay, outputs: Path) -> None:
    lay_run(
        "ada",
        "cartpole",
        0,
        heldout=[1.0, 3.0],
        failed=1,
        usage={"output_tokens": 10, "cost_is_estimate": True},
    )
    lay_run(
        "ada",
        "cartpole",
        1,
        valid=False,
        reasons=["provider"],
        usage={"output_tokens": 5, "cost_usd": None},
    )
    (row,) = rank_table(find_runs(outputs)).entries

    assert (row.cells_done, row.cells_total, row.failures) == (1, 2, 1)
    assert (row.policy_failures, row.episodes) == (1, 2)
    assert row.usage == {"output_tokens": 15}
    assert row.wall_seconds == 36.0


def sweep_of_three(lay_sweep: Lay, plan: Plan, **status: str) -> Path:
    return lay_sweep(
        [
            plan(n, b, 0, status.get(n, "finished"))
            for n in ("ada", "bob")
            for b in ("acrobot", "cartpole", "pendulum")
        ]
    )


def test_a_running_sweep_ranks_over_what_is_complete_and_says_so(
    lay_run: Lay, lay_sweep: Lay, plan: Plan
) -> None:
    for name, score in (("ada", 1.0), ("bob", 2.0)):
        lay_run(name, "acrobot", heldout=[score])
        lay_run(name, "cartpole", heldout=[score])
    lay_run("ada", "pendulum", heldout=[99.0])
    table = rank_table(find_runs(sweep_of_three(lay_sweep, plan, bob="pending")))

    assert table.ranked == ("acrobot", "cartpole")
    assert [
        (r.entry, r.rank_score, r.benchmarks, r.cells_done, r.cells_total) for r in table.entries
    ] == [
        ("bob", 1.0, 2, 2, 3),
        ("ada", 0.0, 2, 3, 3),
    ]
    assert table.cells["ada", "pendulum"].rank is None
    assert (
        "Ranks over 2 of 3 Benchmarks complete for all entries; not pendulum (bob 0/1)."
        in table.notes
    )
    assert "Still to come: 1 of 6 cells." in table.notes


def test_before_any_benchmark_is_complete_there_is_no_rank_score(
    lay_run: Lay, lay_sweep: Lay, plan: Plan
) -> None:
    lay_run("ada", "acrobot")
    ranks = entry_ranks(find_runs(sweep_of_three(lay_sweep, plan, ada="pending", bob="pending")))

    assert [(r.rank_score, r.place, r.wins) for r in ranks.values()] == [(None, None, 0)] * 2
    assert ranks["ada"].heldout == {"acrobot": 2.0}
    assert ranks["bob"].cells_total == 3


def test_entry_ranks_take_plain_runs_and_a_plan(lay_run: Lay, plan: Plan) -> None:
    runs = list(find_runs(lay_run("ada", "cartpole")))

    assert entry_ranks(runs)["ada"].rank_score == 1.0
    planned = [plan("ada", "cartpole"), plan("bob", "cartpole", 0, "pending")]
    assert entry_ranks(runs, planned)["ada"].rank_score is None
    assert entry_ranks(runs, planned)["bob"].cells_total == 1
    assert entry_ranks([], planned)["ada"].cells_done == 0
    assert entry_ranks([]) == {}


def test_a_benchmark_with_one_seed_missing_is_not_complete(
    lay_run: Lay, lay_sweep: Lay, plan: Plan
) -> None:
    lay_run("ada", "cartpole", 0)
    lay_run("ada", "cartpole", 1)
    lay_run("bob", "cartpole", 0)
    cells = [plan(n, "cartpole", s) for n in ("ada", "bob") for s in (0, 1)]
    cells[-1] = plan("bob", "cartpole", 1, "failed", "disk full")
    found = find_runs(lay_sweep(cells))
    table = rank_table(found)

    assert table.ranked == ()
    assert "0 of 1 Benchmarks complete for all entries (cartpole (bob 1/2))" in notes(table)
    assert "Cells that failed: bob on cartpole, seed 1 (disk full)." in table.notes
    assert rank_table(found, missing="worst").entries[0].entry == "ada"
    assert (
        "Missing cells rank last: cartpole (bob 1/2)." in rank_table(found, missing="worst").notes
    )
    with pytest.raises(
        RecordError, match=r"1 cells have no valid result \(bob on cartpole, seed 1\)"
    ):
        rank_table(found, missing="refuse")


def test_an_entry_that_failed_everywhere_does_not_stop_the_others_ranks(
    lay_run: Lay, lay_sweep: Lay, plan: Plan
) -> None:
    lay_run("ada", "cartpole", heldout=[1.0])
    lay_run("bob", "cartpole", heldout=[2.0])
    cells = [
        plan("ada", "cartpole"),
        plan("bob", "cartpole"),
        plan("eve", "cartpole", 0, "failed", "no CLI"),
    ]
    table = rank_table(find_runs(lay_sweep(cells)))

    assert [(r.entry, r.rank_score) for r in table.entries] == [
        ("bob", 1.0),
        ("ada", 0.0),
        ("eve", None),
    ]
    assert "eve is left out of the ranks: none of its 1 cells has a valid result." in table.notes
    assert "N = 2" in notes(table)


def test_invalid_and_unreadable_runs_are_left_out_and_named(
    lay_run: Lay, lay_sweep: Lay, plan: Plan
) -> None:
    lay_run("ada", "cartpole", heldout=[1.0])
    lay_run("bob", "cartpole", heldout=[9.0], valid=False, reasons=["provider"])
    (lay_run("eve", "cartpole") / "record.json").write_text("{")
    table = rank_table(find_runs(lay_sweep([plan(n, "cartpole") for n in ("ada", "bob", "eve")])))

    assert table.cells["bob", "cartpole"].mean is None
    assert "Invalid Runs left out: bob on cartpole, seed 0 (its provider failed)." in table.notes
    assert "Runs that cannot be read: eve on cartpole, seed 0" in notes(table)
    assert table.entries[0].rank_score == 1.0


def test_a_fault_is_told_with_what_was_said_of_it() -> None:
    """That a reward was no number stood in the journal alone."""
    fault = "open_network, engine_fault: Episode 0: environment fault: the reward nan, found"
    said = _reason(CellScore("ada", "cartpole", 0, "invalid", reason=fault))
    assert said.endswith(
        "network, a Submission met an engine fault: Episode 0: environment fault: the reward nan, "
        "found"
    )


def test_a_run_that_published_nothing_counts_and_is_flagged(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole", reasons=["nothing_published"])
    table = rank_table(find_runs(outputs))

    assert table.entries[0].rank_score == 1.0
    assert (
        "ada on cartpole, seed 0 (nothing was published: the initial Program was measured)"
        in notes(table)
    )


def test_an_agent_with_the_machines_own_network_is_marked(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole", agent_network="open")
    lay_run("bob", "cartpole", agent_network="proxy")
    table = rank_table(find_runs(outputs))

    assert (
        "To be known: ada on cartpole, seed 0 (its agent had the machine's own network)."
        in table.notes
    )


def test_a_never_planned_cell_is_refused_by_name(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole")
    lay_run("ada", "pendulum")
    lay_run("bob", "cartpole")

    with pytest.raises(RecordError, match="bob on pendulum"):
        rank_table(find_runs(outputs), missing="refuse")
    assert rank_table(find_runs(outputs)).ranked == ("cartpole",)


def test_allowed_mixes_are_said_in_the_notes(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole")
    lay_run("bob", "cartpole", isolation="none")

    with pytest.raises(RecordError, match="isolation levels"):
        rank_table(find_runs(outputs))
    assert "Mixes isolation levels" in notes(rank_table(find_runs(outputs), allow={"isolation"}))


def test_allowed_duplicates_are_averaged(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole", heldout=[1.0])
    lay_run("ada", "cartpole", heldout=[3.0], tag="other")

    assert rank_table(find_runs(outputs), allow={"duplicates"}).cells["ada", "cartpole"].mean == 2.0


def test_the_published_rows_make_the_published_table() -> None:
    table = rank_table(
        [], missing="refuse", groups=FAMILIES, extra=published_scores(), notes=[NOTE]
    )

    assert [(r.entry, r.rank_score, r.wins, r.top2) for r in table.entries] == [
        ("GPT-5.5", 0.890625, 9, 16),
        ("Claude Opus 4.7", 0.75, 5, 12),
        ("MiniMax-M3", 0.53125, 1, 3),
        ("DeepSeek-V4-Pro", 0.359375, 1, 1),
        ("uniform random", 0.109375, 0, 0),
    ]
    assert table.categories == ("Gym/Box2D", "MuJoCo", "MiniGrid", "Robotics/Driving")
    assert table.category_scores["Claude Opus 4.7", "MiniGrid"] == 0.9375
    assert NOTE in table.notes


def test_own_runs_stand_among_the_published_rows(lay_run: Lay, outputs: Path) -> None:
    benchmark = BenchmarkIdentity("half_cheetah", "mujoco/HalfCheetah-v5", "d" * 64, "m:f", {})
    lay_run("ada", "half_cheetah", heldout=[700.0, 702.0], benchmark=benchmark)
    table = rank_table(
        find_runs(outputs), groups=FAMILIES, extra=published_scores(["GPT-5.5", "MiniMax-M3"])
    )

    assert table.ranked == ("half_cheetah",)
    assert [r.entry for r in table.entries] == ["ada", "MiniMax-M3", "GPT-5.5"]
    assert table.category_scores["MiniMax-M3", "MuJoCo"] == 0.5
    assert table.category_scores["ada", "MiniGrid"] is None


def test_an_unknown_published_entry_is_named_with_the_near_one() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'GPT-5\.5'"):
        published_scores(["GPT-5"])


def test_nothing_at_all_is_an_empty_table() -> None:
    table = rank_table([])

    assert table.entries == ()
    assert table.notes == ("No cells yet.",)


def test_two_equal_sets_of_runs_give_equal_tables(lay_run: Lay, tmp_path: Path) -> None:
    for place in ("one", "two"):
        for seed, score in enumerate((0.1, 0.2, 0.3) if place == "one" else (0.3, 0.2, 0.1)):
            lay_run("ada", "cartpole", seed, heldout=[score], output=tmp_path / place)
        lay_run(
            "bob", "cartpole", heldout=[math.fsum((0.1, 0.2, 0.3)) / 3], output=tmp_path / place
        )

    first, second = (rank_table(find_runs(tmp_path / place)) for place in ("one", "two"))
    assert first.entries[0].rank_score == second.entries[0].rank_score == 1.0
    assert [r.place for r in first.entries] == [r.place for r in second.entries] == [1, 1]
