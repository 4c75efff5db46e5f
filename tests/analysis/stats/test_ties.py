"""One rule says when two scores are equal, and ranks, wins, marks, scales and intervals all follow
it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from evopolicy.analysis import present_ranks
from evopolicy.analysis.paper.anchors import find_scale, own_anchors
from evopolicy.analysis.paper.published import published_scores
from evopolicy.analysis.programs.edits import new_bests
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.stats.rank import average_seeds, rank_entries, score_sizes
from evopolicy.analysis.stats.resampling import rank_score_intervals
from evopolicy.analysis.stats.statistics import (
    normalize,
    performance_profile,
    probability_of_improvement,
)
from evopolicy.analysis.stats.ties import ROUNDING, is_above, settle
from evopolicy.analysis.tables.marks import mark_best
from evopolicy.analysis.tables.ranks import rank_table
from evopolicy.kernel.errors import ConfigError
from evopolicy.present import render
from evopolicy.present.table import Cell

TENTH = 0.1 + 0.2  # 0.30000000000000004


def cells(entry: str, means: Sequence[float], benchmark: str = "cartpole") -> list[CellScore]:
    return [CellScore(entry, benchmark, seed, "done", mean) for seed, mean in enumerate(means)]


def test_what_differs_by_rounding_alone_ties() -> None:
    assert not is_above(TENTH, 0.3) and is_above(0.3 + 1e-9, 0.3)
    assert settle([0.3, TENTH, 0.2]).tolist() == [0.3, 0.3, 0.2]
    assert (
        is_above(1.0, -math.inf)
        and is_above(math.inf, 1e300)
        and not is_above(-math.inf, -math.inf)
    )
    assert not is_above(math.nan, 1.0) and not is_above(1.0, math.nan)
    assert settle([[1.0], [math.nan], [math.nan]])[0, 0] == 1.0


def test_means_near_zero_tie_by_the_size_of_their_scores() -> None:
    assert is_above(1e-11, 0.0)
    assert not is_above(1e-11, 0.0, 1e6)
    assert settle([1e-11, 0.0], [0.0, 1e6]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("seed", range(20))
def test_no_order_scale_or_company_changes_what_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice([0.1, 0.3, 7.0, -2.5, 1e9, -1e-9], size=12)
    values = values * (1 + rng.integers(-3, 4, size=12) * 2.0**-52)
    settled = settle(values)
    order = rng.permutation(12)
    assert (settle(values[order]) == settled[order]).all()
    for power in (-40, -3, 5, 60):
        assert (settle(values * 2.0**power) == settled * 2.0**power).all()
    equal = settled[:, np.newaxis] == settled
    above = is_above(values[:, np.newaxis], values)
    assert (equal == ~(above | above.T)).all()
    assert (np.abs(settled - values) <= ROUNDING * np.abs(values)).all()


def test_seeds_in_other_parts_tie_with_equal_ones_in_table_and_interval() -> None:
    one, two = (0.1, 0.2, 0.3), (0.2, 0.2, 0.2)
    assert average_seeds([[one], [two]]).tolist() != [[0.2], [0.2]], (
        "the smallest input that once told them apart"
    )
    table = rank_table([], extra=[*cells("ada", one), *cells("bob", two)])
    spans = rank_score_intervals(
        {
            "ada": {"x": np.array([one]).T.repeat(2, 1)},
            "bob": {"x": np.array([two]).T.repeat(2, 1)},
        },
        rng=np.random.default_rng(0),
        over="episodes",
    )
    for row in table.entries:
        assert (row.place, row.rank_score, row.wins) == (1, 1.0, 1)
        assert (spans[row.entry].estimate, spans[row.entry].low) == (1.0, 1.0)


def test_a_score_far_below_ties_no_others() -> None:
    means = (-1e11, 1.0, 2.0)
    tables = {name: {"x": np.full((3, 4), mean)} for name, mean in zip("abc", means, strict=True)}
    spans = rank_score_intervals(tables, rng=np.random.default_rng(0))
    assert [spans[name].estimate for name in "abc"] == [0.0, 0.5, 1.0]
    assert [(spans[name].low, spans[name].high) for name in "abc"] == [
        (0.0, 0.0),
        (0.5, 0.5),
        (1.0, 1.0),
    ]


def test_a_run_of_a_published_rows_score_ranks_with_it() -> None:
    row = next(score for score in published_scores() if score.mean)
    assert row.mean is not None
    own = CellScore("ada", row.benchmark, 0, "done", math.nextafter(row.mean, math.inf))
    table = rank_table([], extra=[own, CellScore("row", row.benchmark, 0, "done", row.mean)])
    assert {entry.place for entry in table.entries} == {1}


def test_there_is_no_scale_between_scores_that_tie() -> None:
    up = math.nextafter(0.3, 1.0)
    found = find_scale(
        {("random", "x"): 0.3, ("ada", "x"): up}, ["x"], {}, own=["random", "ada"], zero="random"
    )
    assert found.without == ("x",) and not found.anchors
    runs = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.1, 0.3]])
    assert own_anchors({"ada": {"x": runs}, "bob": {"x": runs[::-1]}}, [])[0] == {}
    with pytest.raises(ConfigError, match="two different finite scores"):
        normalize([0.3], 0.3, up)


def test_marks_wins_chances_profiles_and_new_bests_follow_it() -> None:
    marked = mark_best([Cell(0.3, "a"), Cell(TENTH, "b"), Cell(0.1, "c")])
    assert [cell.best for cell in marked] == [True, True, False]
    assert [cell.best for cell in mark_best([Cell(0.3), Cell(TENTH), Cell(0.4)], lowest=True)] == [
        True,
        True,
        False,
    ]
    assert not any(cell.best for cell in mark_best([Cell(0.3), Cell(TENTH)]))
    assert float(probability_of_improvement([TENTH], [0.3])) == 0.5
    assert performance_profile([[TENTH]], [0.3]).tolist() == [0.0]
    assert new_bests([(0.3, True), (TENTH, True), (0.4, True)]) == [True, False, True]
    assert rank_entries([[0.3], [TENTH]]).wins.tolist() == [1, 1]


def test_the_rank_tables_text_marks_all_that_tie() -> None:
    found = [*cells("ada", [0.3]), *cells("bob", [TENTH]), *cells("eve", [0.1])]
    rows = render(present_ranks(rank_table([], extra=found)), "terminal").splitlines()
    assert ["*" in row for row in rows if row.split()[1:2] in (["ada"], ["bob"], ["eve"])] == [
        True,
        True,
        False,
    ]


def drawn(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Scores with many ties: few values, in any order, of any size."""
    scale = 10.0 ** rng.integers(-6, 12)
    benchmarks = [f"b{i}" for i in range(rng.integers(1, 4))]
    return {
        f"e{i}": {
            name: np.array(
                [rng.permutation(row) for row in rng.choice([0.1, 0.2, 0.3, -0.6], size=(runs, 4))]
            )
            * scale
            for name in benchmarks
        }
        for i, runs in enumerate(rng.integers(1, 5, size=rng.integers(1, 6)))
    }


@pytest.mark.parametrize("seed", range(60))
def test_an_estimate_lies_in_its_interval_and_is_the_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = drawn(rng)
    spans = rank_score_intervals(tables, rng=rng, over="episodes", replicates=200)
    scores = [
        score
        for entry, of in tables.items()
        for name, table in of.items()
        for score in cells(entry, [math.fsum(row) / row.size for row in table], name)
    ]
    for row in rank_table([], extra=scores).entries:
        span = spans[row.entry]
        assert row.rank_score == span.estimate
        assert span.low <= span.estimate <= span.high


def test_sizes_are_the_largest_of_the_seeds() -> None:
    assert score_sizes([[[1.0, -3.0, math.nan]], [[math.nan] * 3]]).tolist() == [[3.0], [0.0]]


def test_rounding_in_a_rank_score_that_never_moves_is_no_movement() -> None:
    rng = np.random.default_rng(1)
    tables = {f"e{i}": {"x": rng.normal(size=(3, 6)) + 1e3 * i} for i in range(4)}
    spans = rank_score_intervals(tables, rng=np.random.default_rng(0), replicates=300)
    assert [round(span.estimate, 3) for span in spans.values()] == [0.0, 0.333, 0.667, 1.0]
    assert {span.df for span in spans.values()} == {2.0}, "the fewest there are, for each alike"
