"""Point estimates and tests against worked cases, published definitions and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evopolicy.analysis.stats import statistics
from evopolicy.kernel.errors import ConfigError, RecordError

NUMBERS = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=23)


def test_the_iqm_of_five_values_counts_their_parts_inside_the_middle_half() -> None:
    # 1.25 of five values are cut at either end: 0.75 of the second, the third, 0.75 of the fourth;
    # over 2.5.
    assert statistics.iqm_weights(np.ones(5)).tolist() == pytest.approx([0, 0.3, 0.4, 0.3, 0])
    assert statistics.iqm([100.0, 3.0, -50.0, 4.0, 8.0]) == pytest.approx(
        0.3 * 3 + 0.4 * 4 + 0.3 * 8
    )


def test_the_iqm_of_eight_values_is_the_mean_of_the_inner_four() -> None:
    assert statistics.iqm([8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 900.0]) == pytest.approx(
        (3 + 5 + 6 + 7) / 4
    )


@pytest.mark.parametrize("values", [[5.0], [5.0, 7.0]])
def test_the_iqm_of_one_or_two_values_is_their_mean(values: list[float]) -> None:
    assert statistics.iqm(values) == pytest.approx(np.mean(values))


@settings(max_examples=30, deadline=None)
@given(NUMBERS)
def test_whole_values_cut_is_scipys_trimmed_mean(values: list[float]) -> None:
    assert statistics.iqm(values, whole=True) == pytest.approx(stats.trim_mean(values, 0.25))


@settings(max_examples=30, deadline=None)
@given(st.lists(NUMBERS, min_size=4, max_size=4))
def test_both_forms_of_the_iqm_agree_where_four_divides_the_count(lists: list[list[float]]) -> None:
    size = min(map(len, lists))
    values = [value for each in lists for value in each[:size]]

    assert statistics.iqm(values) == pytest.approx(
        float(statistics.iqm(values, whole=True)), abs=1e-9
    )


@settings(max_examples=30, deadline=None)
@given(NUMBERS, st.floats(0.1, 5), st.floats(-9, 9))
def test_the_iqm_moves_with_shift_and_scale_and_not_with_order(
    values: list[float], scale: float, shift: float
) -> None:
    moved = statistics.iqm(np.array(values[::-1]) * scale + shift)

    assert moved == pytest.approx(float(statistics.iqm(values)) * scale + shift, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(NUMBERS)
def test_a_weight_of_two_is_the_value_twice(values: list[float]) -> None:
    weights = [1.0 + (i % 2) for i in range(len(values))]
    repeated = [
        value for value, weight in zip(values, weights, strict=True) for _ in range(int(weight))
    ]

    assert statistics.iqm(values, weights) == pytest.approx(
        float(statistics.iqm(repeated)), abs=1e-9
    )


def test_aggregates_over_benchmarks() -> None:
    scores = [[0.0, 2.0], [3.0, 5.0], [10.0, 10.0], [20.0, 24.0]]  # means 1, 4, 10, 22

    assert statistics.aggregate(scores, "mean") == pytest.approx(37 / 4)
    assert statistics.aggregate(scores, "median") == pytest.approx(7)
    assert statistics.aggregate(scores, "iqm_benchmarks") == pytest.approx(7)
    assert statistics.aggregate(scores, "iqm") == pytest.approx((3 + 5 + 10 + 10) / 4)


def test_the_iqm_over_runs_is_rliables_trimmed_mean_of_all_runs_and_benchmarks() -> None:
    scores = np.random.default_rng(0).normal(size=(4, 5))

    assert statistics.aggregate(list(scores), "iqm") == pytest.approx(
        stats.trim_mean(scores.ravel(), 0.25)
    )


def test_a_benchmark_with_more_runs_weighs_no_more_in_the_iqm() -> None:
    once, twice = [[0.0], [1.0], [5.0], [9.0]], [[0.0, 0.0], [1.0], [5.0], [9.0, 9.0]]

    assert statistics.aggregate(once, "iqm") == pytest.approx(statistics.aggregate(twice, "iqm"))


def test_with_one_benchmark_the_median_is_of_its_runs() -> None:
    assert statistics.aggregate([[1.0, 2.0, 9.0]], "median") == 2.0


def test_clipping_happens_to_what_the_statistic_is_over() -> None:
    scores = [[-1.0, 2.0], [0.5, 0.5]]

    assert statistics.aggregate(scores, "mean", clip=True) == pytest.approx(
        0.5
    )  # means 0.5, 0.5: nothing to clip
    assert statistics.aggregate([[2.0, 2.0], [0.5, 0.5]], "mean", clip=True) == pytest.approx(0.75)


def test_probability_of_improvement_counts_ties_by_half() -> None:
    # Of 3 x 2 pairs: 1 < 2 < 3; 2 = 2, 2 < 3; 4 > both: two above, one equal.
    assert statistics.probability_of_improvement([1.0, 2.0, 4.0], [2.0, 3.0]) == pytest.approx(
        2.5 / 6
    )


@settings(max_examples=30, deadline=None)
@given(NUMBERS, NUMBERS)
def test_probabilities_of_improvement_are_mann_whitneys_and_add_up(
    x: list[float], y: list[float]
) -> None:
    chance = float(statistics.probability_of_improvement(x, y))

    assert chance + float(statistics.probability_of_improvement(y, x)) == pytest.approx(1)
    assert chance == pytest.approx(
        stats.mannwhitneyu(x, y, method="asymptotic").statistic / len(x) / len(y)
    )


def test_a_profile_is_the_share_of_runs_strictly_above() -> None:
    scores = [[0.0, 0.5, 1.0, 1.0], [0.5, 0.5]]

    assert statistics.performance_profile(scores, [-1, 0, 0.5, 1]).tolist() == [
        1.0,
        (3 / 4 + 1) / 2,
        1 / 4,
        0.0,
    ]


@pytest.mark.parametrize(
    "successes, trials", [(81, 263), (15, 148), (0, 20), (1, 29), (29, 29), (5, 10)]
)
def test_wilson_is_scipys(successes: int, trials: int) -> None:
    known = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")

    assert statistics.wilson(successes, trials) == pytest.approx((known.low, known.high), abs=1e-12)


def test_wilson_against_newcombes_published_values() -> None:
    # Newcombe 1998, Table I, method 3.
    assert statistics.wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert statistics.wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert statistics.wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert statistics.wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_wilson_without_trials_knows_nothing() -> None:
    assert statistics.wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(RecordError, match="3 successes of 2"):
        statistics.wilson(3, 2)


def test_holm_on_a_worked_case() -> None:
    # 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04, which may not be below the one before.
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )


def test_holm_stops_at_one_and_leaves_out_what_was_not_tested() -> None:
    adjusted = statistics.holm([0.7, math.nan, 0.01])

    assert adjusted[[0, 2]].tolist() == pytest.approx([0.7, 0.02])
    assert math.isnan(adjusted[1])
    assert statistics.holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert statistics.holm([]).size == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_order_and_is_never_below_the_p_value(p_values: list[float]) -> None:
    adjusted = statistics.holm(p_values)
    order = np.argsort(p_values)

    assert (adjusted >= np.array(p_values) - 1e-15).all()
    assert (np.diff(adjusted[order]) >= 0).all()
    assert statistics.holm(np.array(p_values)[order]).tolist() == pytest.approx(
        adjusted[order].tolist()
    )


def test_normalizing_puts_the_anchors_at_zero_and_one() -> None:
    assert statistics.normalize([-10.0, 0.0, 10.0, 20.0], -10, 10).tolist() == [0, 0.5, 1, 1.5]
    assert statistics.normalize([-20.0, 20.0], -10, 10, clip=True).tolist() == [0, 1]
    with pytest.raises(ConfigError, match="two different"):
        statistics.normalize([1.0], 2, 2)


def test_benchmarks_without_anchors_are_named() -> None:
    with pytest.raises(ConfigError, match="acrobot"):
        statistics.anchored({"acrobot": [[1.0]], "pong": [[1.0]]}, {"pong": (0, 1)})


def test_missing_episodes_and_runs_are_left_out_of_run_scores() -> None:
    table = [[1.0, np.nan, 3.0], [np.nan] * 3, [0.0, 0.0, 6.0]]

    assert statistics.run_scores(table).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("table, words", [([1.0, 2.0], "shape"), ([[np.inf]], "infinite")])
def test_what_is_no_table_is_refused(table: object, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        statistics.run_scores(table)  # type: ignore[arg-type]


def test_unknown_statistics_and_levels_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'means' .*mean"):
        statistics.aggregate([[1.0]], "means")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="between 0 and 1"):
        statistics.wilson(1, 2, 95)
