"""The rank score: worked cases, properties, the published table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evopolicy.analysis.paper.published import CORE16, ENTRIES, FAMILIES
from evopolicy.analysis.stats import rank
from evopolicy.kernel.errors import ConfigError, RecordError

MEANS = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: arrays(float, shape, elements=st.integers(-4, 4).map(float))
)


def test_ties_share_the_best_rank() -> None:
    means = np.array([[3.0], [2.0], [0.0], [0.0], [0.0]])

    assert rank.competition_ranks(means).ravel().tolist() == [1, 2, 3, 3, 3]
    assert rank.rank_scores(means).ravel().tolist() == [1.0, 0.75, 0.5, 0.5, 0.5]


def test_a_tie_for_the_first_place_pushes_the_next_to_the_third() -> None:
    assert rank.competition_ranks([[1.0], [1.0], [0.0]]).ravel().tolist() == [1, 1, 3]


def test_a_single_entry_scores_one() -> None:
    ranking = rank.rank_entries([[-5.0, 7.0]])

    assert ranking.rank_score.tolist() == [1.0]
    assert ranking.wins.tolist() == [2]


def test_seeds_are_averaged_before_they_are_ranked() -> None:
    # a wins two of three seeds but has the lower mean.
    scores = [[[2.0, 2.0, 0.0]], [[1.0, 1.0, 9.0]]]

    assert rank.rank_scores(rank.average_seeds(scores)).ravel().tolist() == [0.0, 1.0]


def test_equal_seeds_in_another_order_tie() -> None:
    scores = [[[0.1, 0.2, 0.3]], [[0.3, 0.1, 0.2]]]

    assert rank.rank_scores(rank.average_seeds(scores)).ravel().tolist() == [1.0, 1.0]


def test_a_missing_seed_is_left_out_of_mean_and_error() -> None:
    scores = [[[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]]]

    assert rank.average_seeds(scores)[0, 0] == 2.0
    assert rank.seed_errors(scores)[0, 0] == pytest.approx(1.0)
    assert np.isnan(rank.average_seeds(scores)[0, 1])


@given(MEANS)
def test_scores_lie_between_zero_and_one_and_the_best_has_one(means: np.ndarray) -> None:
    scores = rank.rank_scores(means)

    assert ((scores >= 0) & (scores <= 1)).all()
    assert (scores.max(axis=0) == 1).all()


@given(MEANS)
def test_a_higher_mean_never_scores_lower_and_an_equal_one_scores_the_same(
    means: np.ndarray,
) -> None:
    scores = rank.rank_scores(means)
    higher = means[:, np.newaxis] > means[np.newaxis]
    equal = means[:, np.newaxis] == means[np.newaxis]

    assert (scores[:, np.newaxis] > scores[np.newaxis])[higher].all()
    assert (scores[:, np.newaxis] == scores[np.newaxis])[equal].all()


@given(MEANS, st.randoms(use_true_random=False))
def test_the_order_of_entries_and_benchmarks_does_not_matter(
    means: np.ndarray, random: object
) -> None:
    rows, columns = list(range(means.shape[0])), list(range(means.shape[1]))
    random.shuffle(rows)  # type: ignore[attr-defined]
    random.shuffle(columns)  # type: ignore[attr-defined]
    before, after = rank.rank_entries(means), rank.rank_entries(means[rows][:, columns])

    assert after.rank_score.tolist() == before.rank_score[rows].tolist()
    assert after.wins.tolist() == before.wins[rows].tolist()
    assert after.top2.tolist() == before.top2[rows].tolist()


@given(MEANS)
def test_only_the_order_of_means_counts(means: np.ndarray) -> None:
    assert rank.rank_scores(means).tolist() == rank.rank_scores(np.exp(means) * 100 - 7).tolist()


@given(MEANS)
def test_the_rank_score_is_the_mean_over_benchmarks(means: np.ndarray) -> None:
    ranking = rank.rank_entries(means)

    assert ranking.rank_score == pytest.approx(ranking.scores.mean(axis=1))


@given(MEANS, st.data())
def test_raising_one_mean_never_lowers_its_rank_score(
    means: np.ndarray, data: st.DataObject
) -> None:
    row = data.draw(st.integers(0, means.shape[0] - 1))
    column = data.draw(st.integers(0, means.shape[1] - 1))
    raised = means.copy()
    raised[row, column] += 1.5

    assert rank.rank_entries(raised).rank_score[row] >= rank.rank_entries(means).rank_score[row]


GAP = np.array([[1.0, 4.0], [np.nan, 3.0], [0.0, 5.0]])


def test_missing_cells_are_refused_unless_a_policy_is_named() -> None:
    with pytest.raises(RecordError, match="1 of 6 cells are missing"):
        rank.rank_entries(GAP)


def test_excluding_leaves_out_the_benchmark_that_lacks_a_cell() -> None:
    ranking = rank.rank_entries(GAP, "exclude")

    assert ranking.included.tolist() == [False, True]
    assert ranking.rank_score.tolist() == [0.5, 0.0, 1.0]
    assert ranking.wins.tolist() == [0, 0, 1]


def test_worst_ranks_a_missing_cell_below_every_other() -> None:
    ranking = rank.rank_entries(GAP, "worst")

    assert ranking.ranks[:, 0].tolist() == [1, 3, 2]
    assert ranking.rank_score.tolist() == [0.75, 0.0, 0.75]


def test_a_benchmark_without_any_score_never_counts() -> None:
    ranking = rank.rank_entries([[np.nan, 1.0], [np.nan, 2.0]], "worst")

    assert ranking.included.tolist() == [False, True]


def test_nothing_complete_gives_no_rank_score() -> None:
    ranking = rank.rank_entries([[np.nan], [1.0]], "exclude")

    assert np.isnan(ranking.rank_score).all()
    assert ranking.wins.tolist() == [0, 0]


def test_an_infinite_mean_is_a_fault() -> None:
    with pytest.raises(RecordError, match="infinite"):
        rank.rank_entries([[np.inf], [1.0]])


def test_an_unknown_policy_is_named_with_the_near_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'exclude'"):
        rank.rank_entries(GAP, "excludes")  # type: ignore[arg-type]


# --- the published table --------------------------------------------------------------------------

PUBLISHED = {
    # Gym/Box2D, MuJoCo, MiniGrid, Robotics/Driving, Core16, wins, top-2
    "GPT-5.5": (0.9375, 0.875, 0.8125, 0.9375, 0.890625, 9, 16),
    "Claude Opus 4.7": (0.8125, 0.75, 0.9375, 0.5, 0.75, 5, 12),
    "MiniMax-M3": (0.375, 0.625, 0.5, 0.625, 0.53125, 1, 3),
    "DeepSeek-V4-Pro": (0.375, 0.25, 0.4375, 0.375, 0.359375, 1, 1),
    "uniform random": (0.0, 0.0, 0.375, 0.0625, 0.109375, 0, 0),
}


def test_the_published_table_follows_from_the_published_means() -> None:
    ranking = rank.rank_entries(np.array([benchmark.means for benchmark in CORE16]).T)
    categories = rank.category_means(ranking, [benchmark.family for benchmark in CORE16])

    assert list(categories) == ["Gym/Box2D", "MuJoCo", "MiniGrid", "Robotics/Driving"]
    for i, entry in enumerate(ENTRIES):
        row = [*(float(means[i]) for means in categories.values()), float(ranking.rank_score[i])]
        assert row == pytest.approx(PUBLISHED[entry][:5], abs=1e-12), entry
        assert (ranking.wins[i], ranking.top2[i]) == PUBLISHED[entry][5:], entry


def test_the_published_scores_print_to_three_digits() -> None:
    ranking = rank.rank_entries(np.array([benchmark.means for benchmark in CORE16]).T)

    assert [f"{score:.3f}" for score in ranking.rank_score] == [
        "0.891",
        "0.750",
        "0.531",
        "0.359",
        "0.109",
    ]


def test_the_published_benchmarks_are_four_families_of_four() -> None:
    families = list(FAMILIES.values())

    assert len(FAMILIES) == 16
    assert {family: families.count(family) for family in families} == dict.fromkeys(families, 4)
    assert [benchmark.demand for benchmark in CORE16].count("synthesis") == 5
