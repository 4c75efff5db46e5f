"""Intervals of means and differences, and the crossed bootstrap: worked cases, properties,
coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from evopolicy.analysis.stats import components, intervals, resampling, statistics
from evopolicy.kernel.errors import ConfigError, RecordError

# Means of Runs 2, 4, 9; of Episodes 3, 7. SS_run = 2 (9 + 1 + 16) = 52, SS_episode = 3 (4 + 4) =
# 24, and the rest is (-1, 1), (1, -1), (0, 0): SS_rest = 4. Mean squares 26 (2), 24 (1), 2 (2).
TABLE = [[-1.0, 5.0], [3.0, 5.0], [7.0, 11.0]]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def noise(
    runs: int, episodes: int, seed: int = 0, variances: tuple[float, float, float] = (0.2, 1, 1)
) -> np.ndarray:
    draw = np.random.default_rng(seed)
    run, episode, rest = (math.sqrt(variance) for variance in variances)
    hard = np.random.default_rng(99).normal(size=(1, episodes))
    return (
        run * draw.normal(size=(runs, 1))
        + episode * hard
        + rest * draw.normal(size=(runs, episodes))
    )


def test_the_mean_of_a_worked_table_over_runs_and_episodes() -> None:
    found = intervals.mean_interval(TABLE)
    variance = (26 + 24 - 2) / 6
    df = variance**2 / ((26 / 6) ** 2 / 2 + (24 / 6) ** 2 / 1 + (2 / 6) ** 2 / 2)

    assert found.estimate == 5
    assert found.standard_error == pytest.approx(math.sqrt(variance))
    assert found.df == pytest.approx(df)
    half = stats.t.ppf(0.975, df) * math.sqrt(variance)
    assert (found.low, found.high) == pytest.approx((5 - half, 5 + half))
    assert found.over == "runs_and_episodes"
    assert found.kind == "over Runs and Episodes, Student's t"


def test_over_runs_is_students_interval_of_the_run_scores() -> None:
    found = intervals.mean_interval(TABLE, over="runs")
    known = stats.t.interval(0.95, 2, loc=5, scale=stats.sem([2, 4, 9]))

    assert (found.low, found.high) == pytest.approx(known)


def test_over_episodes_is_students_interval_of_the_episode_means() -> None:
    found = intervals.mean_interval(TABLE, over="episodes", level=0.9)
    known = stats.t.interval(0.9, 1, loc=5, scale=stats.sem([3, 7]))

    assert (found.low, found.high) == pytest.approx(known)
    assert found.level == 0.9


def test_the_error_is_never_below_that_of_runs_or_of_episodes_alone() -> None:
    # Each Run and each Episode has the mean 0, so that all is rest.
    found = intervals.mean_interval([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [-1.0, 0.0, 1.0]])
    assert found.standard_error == 0

    table = noise(4, 6, variances=(0, 0, 1))
    both, runs, episodes = (
        intervals.mean_interval(table, over=over).standard_error for over in components.OVER
    )
    assert both >= max(runs, episodes)


def test_an_interval_moves_with_shift_and_scale_and_not_with_order() -> None:
    table = noise(5, 8)
    one = intervals.mean_interval(table)
    moved = intervals.mean_interval(table[::-1, ::-1] * -3 + 10)

    assert (moved.low, moved.high) == pytest.approx((-3 * one.high + 10, -3 * one.low + 10))


def test_an_empty_run_and_an_empty_column_change_nothing() -> None:
    wide = np.full((4, 3), np.nan)
    wide[[0, 1, 3], :2] = TABLE

    one, other = intervals.mean_interval(wide), intervals.mean_interval(TABLE)
    assert (one.low, one.high, one.df) == pytest.approx((other.low, other.high, other.df))


def test_a_missing_score_is_fitted_around() -> None:
    table = noise(5, 12)
    table[2, 3] = np.nan
    found, full = intervals.mean_interval(table), intervals.mean_interval(noise(5, 12))

    assert found.estimate == pytest.approx(np.mean([np.nanmean(row) for row in table]))
    assert found.standard_error == pytest.approx(full.standard_error, rel=0.3)


def test_the_mean_over_benchmarks_adds_their_variances() -> None:
    first, second = noise(5, 8, 1, (1, 1, 0.2)), 3 * noise(4, 6, 2, (1, 1, 0.2))
    found = intervals.aggregate_mean_interval({"a": first, "b": second})
    apart = [intervals.mean_interval(table) for table in (first, second)]

    assert found.estimate == pytest.approx((first.mean() + second.mean()) / 2)
    assert found.standard_error == pytest.approx(
        math.hypot(*(each.standard_error for each in apart)) / 2
    )


def test_anchors_normalize_each_benchmark() -> None:
    table = noise(5, 8)
    found = intervals.aggregate_mean_interval(
        {"a": table, "b": table * 100}, anchors={"a": (-1, 1), "b": (-100, 100)}
    )

    assert found.estimate == pytest.approx((table.mean() + 1) / 2)
    assert found.standard_error == pytest.approx(
        math.sqrt(2) / 4 * intervals.mean_interval(table).standard_error, rel=1e-6
    )


# --- too little to say more -----------------------------------------------------------------------


@pytest.mark.parametrize("over", ["runs_and_episodes", "runs"])
@pytest.mark.parametrize("runs", [1, 2])
def test_below_three_runs_only_episodes_are_spoken_of(over: components.Over, runs: int) -> None:
    table = noise(runs, 16)
    found = intervals.mean_interval(table, over=over)

    assert found.over == "episodes"
    assert found.kind.startswith("over Episodes")
    assert "fewer than 3 Runs" in found.note
    assert found.standard_error == pytest.approx(stats.sem(table.mean(axis=0)))


def test_a_mean_of_short_cells_and_others_has_no_interval_and_one_of_short_cells_alone_is_over_episodes() -> (
    None
):
    mixed, short = {"a": noise(5, 8), "b": noise(2, 8)}, {"a": noise(1, 8), "b": noise(2, 8)}

    for found in (
        intervals.aggregate_mean_interval(mixed),
        resampling.aggregate_interval(mixed, "iqm", rng=rng()),
    ):
        assert found.over is None and math.isnan(found.low)
        assert "fewer than 3 Runs" in found.note
    assert intervals.aggregate_mean_interval(mixed, over="episodes").over == "episodes"
    assert intervals.aggregate_mean_interval(short).over == "episodes"
    assert resampling.aggregate_interval(short, "iqm", rng=rng()).over == "episodes"


def test_a_benchmark_of_one_episode_takes_no_other_benchmarks_episodes_away() -> None:
    tables = {"a": noise(5, 8), "b": noise(5, 1)}
    found = intervals.aggregate_mean_interval(tables)
    apart = [intervals.mean_interval(table).standard_error for table in tables.values()]

    assert found.over == "runs_and_episodes" and "single Episode" in found.note
    assert found.standard_error == pytest.approx(math.hypot(*apart) / 2, rel=0.02)
    drawn = resampling.aggregate_interval(tables, "iqm_benchmarks", rng=rng())
    assert drawn.over == "runs_and_episodes" and drawn.note == found.note


def test_a_single_episode_leaves_the_runs_and_nothing_leaves_nothing() -> None:
    one_episode = intervals.mean_interval([[1.0], [2.0], [4.0]])
    assert one_episode.over == "runs"
    assert "single Episode" in one_episode.note

    nothing = intervals.mean_interval([[1.0]])
    assert nothing.over is None
    assert math.isnan(nothing.low)
    assert nothing.estimate == 1.0


def test_no_spread_is_said_to_be_no_certainty() -> None:
    found = intervals.mean_interval([[0.1] * 7] * 3)

    assert (found.low, found.high) == (found.estimate, found.estimate)
    assert "does not mean certainty" in found.note


def test_the_foot_names_the_cells_with_few_runs() -> None:
    assert intervals.few_runs_foot({"a on x": 3, "a on y": 5}) == ""
    foot = intervals.few_runs_foot({"a on x": 3, "a on y": 1, "b on y": 2})
    assert "2 of 3 cells (a on y: 1, b on y: 2)" in foot
    assert "over Episodes only" in foot
    assert "all 8 cells" in intervals.few_runs_foot({f"a on {i}": 1 for i in range(8)})
    assert "and 2 more" in intervals.few_runs_foot({f"a on {i}": 1 for i in range(8)})
    named = intervals.few_runs_foot({f"a on {i}": 1 for i in range(8)} | {"b on 0": 3})
    assert "a on 7: 1" in named and "more" not in named


def test_a_note_is_told_once_whether_or_not_there_was_a_spread() -> None:
    flat = intervals.mean_interval([[0.1] * 7] * 2).note
    other = intervals.mean_interval(noise(2, 8)).note
    assert intervals.told_once(["", other, flat, other]) == [
        other,
        flat.removeprefix(other).strip(),
    ]


def test_a_summary_holds_the_points() -> None:
    found = intervals.summarize(TABLE)

    assert found.points == (2.0, 4.0, 9.0)
    assert (found.mean, found.median, found.runs, found.episodes) == (5.0, 4.0, 3, 2)
    assert found.iqm == pytest.approx((0.25 * 2 + 4 + 0.25 * 9) / 1.5)
    assert found.standard_error == pytest.approx(math.sqrt(8))
    assert found.error_over == "runs_and_episodes"


# --- differences ----------------------------------------------------------------------------------


def test_with_one_run_each_a_difference_is_the_paired_t_test() -> None:
    first, second = noise(1, 12, 1), noise(1, 12, 2)
    found = intervals.difference_interval(first, second)
    known = stats.ttest_rel(first[0], second[0])

    assert found.p_value == pytest.approx(known.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        tuple(known.confidence_interval())
    )
    assert found.interval.over == "episodes"


def test_over_runs_a_difference_is_welchs_t_test() -> None:
    first, second = noise(5, 12, 1), noise(4, 12, 2)
    found = intervals.difference_interval(first, second, over="runs")

    assert found.p_value == pytest.approx(
        stats.ttest_ind(first.mean(1), second.mean(1), equal_var=False).pvalue
    )


def test_what_makes_an_episode_hard_for_both_cancels() -> None:
    hard = 50 * np.random.default_rng(3).normal(size=8)
    plain = intervals.difference_interval(noise(4, 8, 1), noise(4, 8, 2)).interval
    shifted = intervals.difference_interval(noise(4, 8, 1) + hard, noise(4, 8, 2) + hard).interval

    assert (shifted.low, shifted.high) == pytest.approx((plain.low, plain.high))


def test_differences_on_several_benchmarks_are_adjusted_together() -> None:
    first = {"a": noise(4, 8, 1) + 3, "b": noise(4, 8, 2)}
    second = {"b": noise(4, 8, 3), "a": noise(4, 8, 4)}
    a, b = intervals.compare(first, second)

    assert (a.benchmark, b.benchmark) == ("a", "b")
    assert a.p_value < 0.01 < b.p_value
    assert a.p_holm == pytest.approx(2 * a.p_value)
    assert b.p_holm == b.p_value


def test_tables_that_do_not_match_are_refused() -> None:
    with pytest.raises(RecordError, match="8 and 9 columns"):
        intervals.difference_interval(noise(3, 8), noise(3, 9))
    with pytest.raises(RecordError, match="found b on one side"):
        intervals.compare({"a": TABLE}, {"a": TABLE, "b": TABLE})
    with pytest.raises(RecordError, match="without any score"):
        intervals.mean_interval([[np.nan]])
    with pytest.raises(ConfigError, match=r"'run' .*runs"):
        intervals.mean_interval(TABLE, over="run")  # type: ignore[arg-type]


# --- the crossed bootstrap ------------------------------------------------------------------------


@pytest.mark.parametrize("over", components.OVER)
def test_of_a_mean_the_bootstrap_says_what_the_formula_says(over: components.Over) -> None:
    v = (0.5, 1.0, 1.0)
    tables = {
        "a": noise(5, 12, 1, v),
        "b": noise(6, 12, 2, v),
        "c": noise(5, 10, 3, v),
        "d": noise(5, 10, 4, v),
    }
    formula = intervals.aggregate_mean_interval(tables, over=over)
    wide = dict.fromkeys(tables, (-1000.0, 1000.0))
    drawn = resampling.aggregate_interval(
        tables, clip=True, anchors=wide, over=over, rng=rng(), replicates=8000
    )

    assert drawn.kind.endswith("crossed bootstrap")
    assert 2000 * drawn.standard_error == pytest.approx(formula.standard_error, rel=0.06)
    assert 2000 * drawn.low - 1000 == pytest.approx(formula.low, abs=0.12 * formula.standard_error)
    assert 2000 * drawn.high - 1000 == pytest.approx(
        formula.high, abs=0.12 * formula.standard_error
    )
    assert drawn.df == pytest.approx(formula.df, rel=0.15)


@pytest.mark.parametrize("statistic", ["iqm", "median", "iqm_benchmarks"])
def test_bootstrap_intervals_move_with_shift_and_scale(statistic: str) -> None:
    tables = {"a": noise(5, 8, 1), "b": noise(3, 6, 2)}
    moved = {name: table * 4 - 7 for name, table in tables.items()}
    one, other = (
        resampling.aggregate_interval(each, statistic, rng=rng())  # type: ignore[arg-type]
        for each in (tables, moved)
    )

    assert (other.low, other.high) == pytest.approx((4 * one.low - 7, 4 * one.high - 7))
    assert one.low <= one.estimate <= one.high


def test_the_same_generator_gives_the_same_interval() -> None:
    one, other = (
        resampling.aggregate_interval({"a": noise(5, 8)}, "iqm", rng=rng()) for _ in range(2)
    )

    assert one == other


def test_improvement_is_an_even_chance_of_equals_and_sure_far_away() -> None:
    first, second = noise(6, 8, 1, (1, 1, 0.2)), noise(6, 8, 2, (1, 1, 0.2))
    first += second.mean() - first.mean()
    even = resampling.improvement_interval({"a": first}, {"a": second}, rng=rng())
    sure = resampling.improvement_interval({"a": first + 100}, {"a": second}, rng=rng())

    assert even.low < 0.4 < even.estimate < 0.6 < even.high
    assert 0.1 < even.standard_error < 0.25  # without Episodes: sqrt(13 / (12 36)) = 0.173
    assert (round(sure.low, 3), sure.high) == (0.689, 1.0)
    assert sure.kind == "over Runs and Episodes, Newcombe's score"


def test_six_pairs_won_by_one_run_each_say_nothing_of_another_run() -> None:
    for runs in (1, 2):
        found = resampling.improvement_interval(
            {"a": noise(runs, 8) + 9}, {"a": noise(5, 8)}, rng=rng()
        )
        assert (found.estimate, found.over) == (1.0, None) and math.isnan(found.low)
        assert "fewer than 3 Runs" in found.note


@pytest.mark.parametrize(("n", "m"), [(3, 3), (5, 5), (3, 10), (10, 10)])
@pytest.mark.parametrize("chance", [1.0, 0.8])
def test_a_score_interval_ends_where_the_chance_found_is_z_errors_off(
    n: int, m: int, chance: float
) -> None:
    low, high = statistics.improvement_bounds(chance, [(n, m)])
    for p in {low, high} - {1.0}:
        mixed = 1 + ((n + m) / 2 - 1) * ((1 - p) / (2 - p) + p / (1 + p))
        assert abs(chance - p) == pytest.approx(1.959964 * math.sqrt(p * (1 - p) * mixed / (n * m)))
    mirrored = statistics.improvement_bounds(1 - chance, [(m, n)])
    assert mirrored == pytest.approx((1 - high, 1 - low))
    assert low < statistics.improvement_bounds(chance, [(n, m)] * 4)[0] < chance


def test_of_one_pair_the_score_interval_is_wilsons_of_one_trial() -> None:
    assert statistics.improvement_bounds(1.0, [(1, 1)]) == pytest.approx(statistics.wilson(1, 1))
    with pytest.raises(RecordError, match=r"between 0 and 1 .* found 1\.5"):
        statistics.improvement_bounds(1.5, [(1, 1)])


def test_a_profile_lies_in_its_band_and_falls() -> None:
    tables = {"a": noise(5, 8, 1), "b": noise(5, 8, 2)}
    band = resampling.profile_band(tables, np.linspace(-3, 3, 13), rng=rng())

    assert (band.low <= band.fractions).all() and (band.fractions <= band.high).all()
    assert (np.diff(band.fractions) <= 0).all()
    assert (band.fractions[0], band.fractions[-1]) == (1.0, 0.0)


def ranked(gap: float) -> dict[str, dict[str, np.ndarray]]:
    return {
        entry: {b: noise(5, 12, 10 * i + j) + gap * i for j, b in enumerate(("x", "y"))}
        for i, entry in enumerate(("low", "mid", "top"))
    }


def test_entries_far_apart_have_certain_rank_scores() -> None:
    found = resampling.rank_score_intervals(ranked(100), rng=rng())

    assert [(each.low, each.estimate, each.high) for each in found.values()] == [
        (0, 0, 0),
        (0.5, 0.5, 0.5),
        (1, 1, 1),
    ]


def test_rank_scores_of_entries_close_together_are_open() -> None:
    found = resampling.rank_score_intervals(ranked(0.3), rng=rng())

    for each in found.values():
        assert 0 <= each.low <= each.estimate <= each.high <= 1
        assert each.high - each.low >= 0.5
        assert each.kind == "over Runs and Episodes, crossed bootstrap"


def test_equal_entries_tie_in_every_replicate() -> None:
    solved = {"x": np.full((3, 9), 0.1)}
    found = resampling.rank_score_intervals(
        {"a": solved, "b": {"x": np.full((4, 9), 0.1)}}, rng=rng()
    )

    assert [(each.low, each.high) for each in found.values()] == [(1.0, 1.0), (1.0, 1.0)]


def five_seeds(count: int = 4) -> dict[str, dict[str, np.ndarray]]:
    return {
        f"e{i}": {b: noise(5, 12, 10 * i + j) + 0.3 * i for j, b in enumerate("xy")}
        for i in range(count)
    }


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("mean", [-9.0, 0.0, 0.5, 9.0])
def test_an_entry_of_few_runs_has_no_rank_interval_and_does_not_narrow_the_others(
    runs: int, mean: float
) -> None:
    before = resampling.rank_score_intervals(five_seeds(), rng=rng())
    beside = {
        **five_seeds(),
        "late": {b: noise(runs, 12, 77 + j) + mean for j, b in enumerate("xy")},
    }
    after = resampling.rank_score_intervals(beside, rng=rng())

    assert after["late"].over is None and math.isnan(after["late"].low)
    assert f"2 of 10 cells (late on x: {runs}, late on y: {runs})" in after["late"].note
    for entry, span in before.items():
        found = after[entry]
        assert found.over == "runs_and_episodes" and found.note == after["late"].note
        assert 4 * (found.high - found.low) >= 3 * (span.high - span.low) - 1e-9, "in ranks"


def test_one_short_cell_takes_its_entrys_interval_and_no_others() -> None:
    tables = five_seeds()
    tables["e1"]["y"] = tables["e1"]["y"][:2]
    found = resampling.rank_score_intervals(tables, rng=rng())

    assert [span.over is None for span in found.values()] == [False, True, False, False]
    assert "1 of 8 cells (e1 on y: 2)" in found["e0"].note


def test_there_are_no_rank_intervals_where_nothing_tells_how_far_runs_differ() -> None:
    fixed = np.tile(noise(1, 12), (5, 1))
    for others in (fixed, noise(2, 12, 3)):
        tables = {
            "a": {"x": noise(5, 12, 1), "y": others},
            "b": {"x": noise(5, 12, 2), "y": others + 1},
        }
        found = resampling.rank_score_intervals(
            {**tables, "c": {"x": noise(1, 12), "y": noise(1, 12)}}, rng=rng()
        )
        assert all(span.over is None and math.isnan(span.low) for span in found.values())
    assert (
        "nor do Runs of others differ on y"
        in resampling.rank_score_intervals(
            {"a": {"y": fixed}, "c": {"y": noise(1, 12)}}, rng=rng()
        )["a"].note
    )
    asked = resampling.rank_score_intervals(
        {"a": {"y": fixed}, "c": {"y": noise(1, 12)}}, rng=rng(), over="episodes"
    )
    assert {span.over for span in asked.values()} == {"episodes"}


def test_missing_cells_of_rank_scores_follow_the_policy() -> None:
    tables = ranked(100)
    del tables["top"]["y"]
    with pytest.raises(RecordError, match="1 of 6 cells"):
        resampling.rank_score_intervals(tables, rng=rng())

    assert resampling.rank_score_intervals(tables, rng=rng(), missing="exclude")["top"].low == 1.0
    worst = resampling.rank_score_intervals(tables, rng=rng(), missing="worst")["top"]
    assert (worst.low, worst.estimate, worst.high) == (0.5, 0.5, 0.5)


def test_entries_with_other_episodes_are_not_ranked() -> None:
    with pytest.raises(RecordError, match="must share their Episodes"):
        resampling.rank_score_intervals(
            {"a": {"x": noise(3, 8)}, "b": {"x": noise(3, 9)}}, rng=rng()
        )


# --- coverage -------------------------------------------------------------------------------------


@pytest.mark.parametrize("variances", [(1.0, 0.1, 0.3), (0.02, 1.0, 0.3), (0.2, 1.0, 1.0)])
def test_ninety_five_in_a_hundred_intervals_hold_the_truth(
    variances: tuple[float, float, float],
) -> None:
    draw = np.random.default_rng(5)
    run, episode, rest = (math.sqrt(variance) for variance in variances)
    held = 0
    for _ in range(200):
        table = (
            run * draw.normal(size=(5, 1))
            + episode * draw.normal(size=24)
            + rest * draw.normal(size=(5, 24))
        )
        found = intervals.mean_interval(table)
        held += found.low <= 0 <= found.high

    assert 184 <= held <= 197  # 95 % of 200, within two standard errors


def test_intervals_of_an_iqm_hold_the_truth_as_often() -> None:
    draw = np.random.default_rng(6)
    held = 0
    for _ in range(100):
        table = (
            draw.normal(size=(5, 1)) + 0.3 * draw.normal(size=16) + 0.5 * draw.normal(size=(5, 16))
        )
        found = resampling.aggregate_interval({"a": table}, "iqm", rng=draw, replicates=300)
        held += found.low <= 0 <= found.high

    assert 90 <= held <= 99
