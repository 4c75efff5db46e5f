"""Curves, areas, spending, gaps between the splits and the validity of selection."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicy.analysis import find_runs, load_frames
from evopolicy.analysis.programs.bundle import PARSE_CHARS
from evopolicy.analysis.programs.diagnostics import DIAGNOSTIC_COLUMNS, Diagnostics, diagnose
from evopolicy.analysis.programs.edits import EDITS, KINDS, SIZES
from evopolicy.analysis.programs.mechanisms import MECHANISMS, TABLE_ENTRIES
from evopolicy.analysis.programs.normal_form import DATA_CHARS
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.records.trajectory import (
    curve_areas,
    curve_points,
    curve_reach,
    own_references,
    spending,
)
from evopolicy.analysis.records.validity import (
    score_gaps,
    selection_validity,
    spearman,
    split_means,
)
from evopolicy.kernel.errors import ConfigError
from tests.analysis.trajectories import Made, Sent, frames

RUN = Made(
    [
        Sent("a = 1", 2.0, 10.0, "0:4"),
        Sent("b", 6.0, 9.0, "0:4"),
        Sent("c", None, None, "4:6", status="failed"),
        Sent("d", 4.0, 20.0, "4:10"),
    ],
    selected=2,
)
"""Its Feedback comes 10, 20, 30 and 40 seconds after its beginning; its budget is 20 units."""


def test_a_regrades_seconds_are_those_of_the_run_it_grades_again() -> None:
    """Its record is younger than the Submissions it copied."""
    again = Made(RUN.sent, facts={"created": 1e6, "opened": 95.0})
    assert curve_points(frames(again)).seconds.tolist() == [
        5.0 + 10 * n for n in range(1, len(RUN.sent) + 1)
    ]
    assert curve_points(frames(Made(RUN.sent, facts={"created": 1e6}))).seconds.isna().all()


def test_a_curve_holds_the_best_so_far_on_every_axis() -> None:
    usage = pd.DataFrame(
        {
            "run": "run",
            "submission": [1, 2, 4],
            "tokens": [100, 250, 400],
            "cost_usd": [0.1, 0.2, 0.5],
        }
    )
    found = curve_points(frames(RUN), usage)

    assert found.units.tolist() == [4, 8, 10, 16]
    assert found.submissions.tolist() == [1, 2, 3, 4]
    assert found.seconds.tolist() == [10.0, 20.0, 30.0, 40.0]
    assert found.best_score.tolist() == [10.0, 10.0, 10.0, 20.0]
    assert found.best_validation.tolist() == [2.0, 6.0, 6.0, 6.0]
    np.testing.assert_array_equal(found.validation, [2.0, 6.0, np.nan, 4.0])
    np.testing.assert_array_equal(found.tokens, [100, 250, np.nan, 400])
    assert curve_points(frames(RUN)).cost_usd.isna().all()


def test_a_curve_has_no_best_before_its_first_result_and_no_point_for_what_still_runs() -> None:
    sent = [
        Sent("a", None, None, status="failed"),
        Sent("b", 1.0),
        Sent("c", None, None, status="running"),
    ]
    found = curve_points(frames(Made(sent)))

    np.testing.assert_array_equal(found.best_validation, [np.nan, 1.0])
    np.testing.assert_array_equal(found.best_score, [np.nan, 0.0])


# --- areas ----------------------------------------------------------------------------------------


def test_an_area_is_the_mean_of_the_steps_over_the_budget() -> None:
    found = curve_areas(curve_points(frames(RUN)), references={"cartpole": (0.0, 8.0)}).iloc[0]

    assert found.horizon == 20.0
    assert found.area == (4 * 0 + 4 * 2 + 12 * 6) / 20
    assert found.normalized_area == pytest.approx((4 * 0 + 4 * 2 / 8 + 12 * 6 / 8) / 20)
    assert (found.final, found.low, found.high) == (6.0, 0.0, 8.0)


def test_a_scaled_area_is_cut_to_the_reference() -> None:
    found = curve_areas(curve_points(frames(RUN)), references={"cartpole": (3.0, 5.0)}).iloc[0]

    assert found.normalized_area == pytest.approx(12 / 20)


def test_without_references_the_scale_is_that_of_the_runs_compared() -> None:
    other = Made([Sent("q", 1.0), Sent("r", 9.0)], name="other")
    third = Made([Sent("z", 5.0)], name="third", benchmark="acrobot")
    curves = curve_points(frames(RUN, other, third))

    assert own_references(curves) == {"cartpole": (1.0, 9.0), "acrobot": (5.0, 5.0)}
    areas = curve_areas(curves).set_index("run")
    assert areas.low.to_dict() == {"run": 1.0, "other": 1.0, "third": 5.0}
    assert math.isnan(areas.normalized_area["third"])
    assert areas.area["third"] == 5.0


def test_what_the_last_unit_of_the_budget_bought_is_part_of_the_final_value() -> None:
    spent = Made([Sent("a", 1.0, selector="0:4"), Sent("b", 5.0, selector="4:10")], budget=10)
    found = curve_areas(curve_points(frames(spent)), references={"cartpole": (0.0, 8.0)}).iloc[0]

    assert (found.horizon, found.final) == (10.0, 5.0)
    assert found.area == (4 * 0 + 6 * 1) / 10, "and of no area: it came at the very end"


def test_what_came_after_a_horizon_is_no_part_of_the_final_value() -> None:
    scale, curves = {"cartpole": (0.0, 8.0)}, curve_points(frames(RUN))
    finals = [
        curve_areas(curves, references=scale, horizons={"cartpole": at}).iloc[0].final
        for at in (3.0, 4.0, 7.0)
    ]

    np.testing.assert_array_equal(finals, [np.nan, 2.0, 2.0])


def test_points_that_go_back_on_their_axis_are_counted_once() -> None:
    """As of a Run during which the machine's clock was set back, in frames that were made
    elsewhere."""
    curves = curve_points(frames(RUN))
    curves["seconds"] = [30.0, 10.0, *curves["seconds"].tolist()[2:]]
    curves["best_score"] = 2.0
    found = curve_areas(curves, "seconds", "score", {"cartpole": (2.0, 4.0)}).iloc[0]

    assert found.area == 2.0, "no mean of a curve is above its highest point"


def test_another_axis_reaches_as_far_as_its_longest_run() -> None:
    curves = curve_points(frames(RUN, Made([Sent("q", 1.0)], name="other")))
    found = curve_areas(curves, "seconds", "score", {"cartpole": (0.0, 20.0)}).set_index("run")

    assert found.horizon.tolist() == [40.0, 40.0]
    assert found.area["run"] == (10 * 0 + 30 * 10) / 40
    assert curve_areas(curves, "seconds", horizons={"cartpole": 80.0}).horizon.tolist() == [
        80.0,
        80.0,
    ]
    assert curve_areas(curves, "units", horizons={"cartpole": 10.0}).final.tolist() == [6.0, 1.0]
    assert curve_areas(curves, "tokens").area.isna().all()


values = st.lists(st.tuples(st.integers(1, 5), st.floats(-10, 10)), min_size=1, max_size=8)


@settings(max_examples=15, deadline=None)
@given(values)
def test_an_area_lies_between_the_floor_and_the_best_and_the_scaled_one_in_the_unit_interval(
    steps: list[tuple[int, float]],
) -> None:
    sent = [Sent(f"v{i}", value, value, f"0:{units}") for i, (units, value) in enumerate(steps)]
    found = curve_areas(
        curve_points(frames(Made(sent, budget=40))), references={"cartpole": (-10.0, 10.0)}
    ).iloc[0]

    assert -10 - 1e-9 <= found.area <= max(value for _, value in steps) + 1e-9
    assert 0 <= found.normalized_area <= 1
    assert found.normalized_area == pytest.approx((found.area + 10) / 20)


def test_reach_is_the_first_place_with_the_fraction() -> None:
    found = curve_reach(
        curve_points(frames(RUN)), references={"cartpole": (0.0, 8.0)}, fractions=(0.25, 0.5, 1)
    )

    assert found.target.tolist() == [2.0, 4.0, 8.0]
    assert found.reached.tolist() == [True, True, False]
    np.testing.assert_array_equal(found["at"], [4.0, 8.0, np.nan])


def test_the_whole_way_is_reached_by_the_best_of_all() -> None:
    curves = curve_points(frames(Made([Sent("a", 0.1), Sent("b", 0.7)])))

    assert curve_reach(curves, fractions=(1.0,)).reached.tolist() == [True]


def test_a_fraction_outside_the_way_is_refused() -> None:
    for fraction in (80, 0):
        with pytest.raises(ConfigError, match=f"found {fraction}"):
            curve_reach(curve_points(frames(RUN)), fractions=(fraction,))


# --- spending -------------------------------------------------------------------------------------


def test_every_unit_is_spent_on_one_thing() -> None:
    found = spending(
        frames(
            Made(
                [
                    Sent("a", selector="0:4"),
                    Sent("b", selector="2:6"),
                    Sent("a", selector="3:8"),
                    Sent("c", None, None, "9:12", "failed"),
                    Sent("c", selector="5,9:11,7"),
                ]
            )
        )
    )

    assert found.exploring.tolist() == [4, 2, 0, 0, 2]
    assert found.comparing.tolist() == [0, 2, 0, 0, 2]
    assert found.confirming.tolist() == [0, 0, 5, 0, 0]
    assert found.lost.tolist() == [0, 0, 0, 3, 0]
    assert found.repeated.tolist() == [0, 0, 1, 0, 0]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(1, 5), st.booleans()),
        max_size=8,
    )
)
def test_what_units_were_spent_on_adds_up(run: list[tuple[str, int, int, bool]]) -> None:
    sent = [
        Sent(name, 0.0, 0.0, f"{at}:{at + n}", "failed" if lost else "published")
        for name, at, n, lost in run
    ]
    found = spending(frames(Made(sent)))

    assert (found.exploring + found.comparing + found.confirming + found.lost == found.units).all()
    assert (found.repeated <= found.confirming).all()
    assert found.exploring.sum() <= len(
        {i for _, at, n, lost in run if not lost for i in range(at, at + n)}
    )


# --- gaps and selection ---------------------------------------------------------------------------

CHOSEN = Made(
    [
        Sent("a", 1.0, 5.0, assessment=1.5),
        Sent("b", 4.0, 9.0, assessment=2.0),
        Sent("c", 3.0, 8.0, assessment=3.5),
        Sent("a", 1.0, 6.0, assessment=1.5),
    ],
    selected=2,
)


def test_gaps_lie_between_training_validation_and_assessment() -> None:
    found = score_gaps(frames(CHOSEN))

    assert found.selected.tolist() == [False, True, False, False]
    assert found.training_validation.tolist() == [4.0, 5.0, 5.0, 5.0]
    assert found.validation_assessment.tolist() == [-0.5, 2.0, -0.5, -0.5]
    assert found.training_assessment.tolist() == [3.5, 7.0, 4.5, 4.5]


def test_selection_is_held_against_every_program_on_assessment() -> None:
    found = selection_validity(score_gaps(frames(CHOSEN)), frames(CHOSEN).runs).iloc[0]

    assert (found.programs, found.validated, found.assessed) == (3, 3, 3)
    assert found.best_program == Sent("c").digest
    assert (found.best_assessment, found.regret, found.chose_best) == (3.5, 1.5, False)
    assert (found.heldout_gap, found.validation_gap, found.best_training) == (7.0, 2.0, 9.0)
    assert found.validation_correlation == pytest.approx(0.5)
    assert found.training_correlation == pytest.approx(0.5)


def test_a_right_choice_has_no_regret() -> None:
    made = Made(CHOSEN.sent, selected=3)
    found = selection_validity(score_gaps(frames(made)), frames(made).runs).iloc[0]

    assert (found.regret, found.chose_best) == (0.0, True)


def test_regret_is_unknown_until_every_program_is_assessed() -> None:
    found = selection_validity(
        score_gaps(frames(CHOSEN, splits=False)), frames(CHOSEN, splits=False).runs
    ).iloc[0]

    assert (found.validated, found.assessed) == (3, 1)
    assert math.isnan(found.regret)
    assert found.best_program is pd.NA
    assert found.chose_best is pd.NA
    assert math.isnan(found.validation_correlation)
    assert found.validation_gap == 2.0


def test_an_episode_that_is_there_twice_counts_once_and_more_episodes_go_before_the_record() -> (
    None
):
    whole = frames(CHOSEN)
    doubled = Frames(**{**vars(whole), "episodes": pd.concat([whole.episodes, whole.episodes])})
    more = whole.episodes[whole.episodes.split == "assessment"].assign(
        index=lambda f: f["index"] + 2, score=7.0
    )

    assert split_means(doubled, "assessment").equals(split_means(whole, "assessment"))
    longer = Frames(**{**vars(whole), "episodes": pd.concat([whole.episodes, more])})
    assert split_means(longer, "assessment")["run", Sent("b").digest] == (2.0 + 7.0) / 2


def test_rank_correlation_by_hand() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2, math.nan], [1, 2, 3, 4]) == pytest.approx(math.sqrt(0.75))
    assert math.isnan(spearman([1, 2], [1, 2]))
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))


# --- all at once ----------------------------------------------------------------------------------


def columns_of(found: Diagnostics) -> dict[str, list[tuple[str, str]]]:
    """Name and dtype of every column, by frame."""
    frames_of = {name: getattr(found, name) for name in DIAGNOSTIC_COLUMNS}
    return {
        name: [(c, str(frame[c].dtype)) for c in frame.columns] for name, frame in frames_of.items()
    }


DOCUMENTED = {
    name: [(c.name, c.dtype) for c in columns] for name, columns in DIAGNOSTIC_COLUMNS.items()
}


def test_diagnostics_have_exactly_the_documented_columns_with_runs_and_without(
    lay_run: Callable[..., Path],
) -> None:
    lay_run("bob", "acrobot", upto="session")
    lay_run("eve", "acrobot", upto="opened")
    real = load_frames(find_runs(lay_run("ada", "cartpole").parents[2]))

    assert columns_of(diagnose(real, axes=("units", "seconds", "tokens"))) == DOCUMENTED
    assert columns_of(diagnose(frames(RUN, CHOSEN))) == DOCUMENTED
    assert columns_of(diagnose(load_frames([]))) == DOCUMENTED
    assert columns_of(diagnose(load_frames([]), axes=())) == DOCUMENTED


def test_diagnostics_of_a_real_run(lay_run: Callable[..., Path]) -> None:
    found = diagnose(load_frames(find_runs(lay_run("ada", "cartpole", heldout=[1.0, 3.0]))))

    assert found.curves.best_score.tolist() == [6.0, 6.0]
    assert found.curves.units.tolist() == [2, 4]
    assert found.spending[["exploring", "comparing"]].to_numpy().tolist() == [[2, 0], [0, 2]]
    assert found.gaps[found.gaps.selected].training_validation.tolist() == [-2.0]
    assert found.gaps[found.gaps.selected].validation_assessment.tolist() == [3.0]
    assert found.areas.value.tolist() == ["validation", "score"]
    assert len(found.reach) == 6
    assert found.selection.validation_gap.tolist() == [3.0]


def test_diagnostics_do_without_episodes_and_programs(lay_run: Callable[..., Path]) -> None:
    found = diagnose(
        load_frames(find_runs(lay_run("ada", "cartpole")), episodes=False, programs=False)
    )

    assert columns_of(found) == DOCUMENTED
    assert found.edits.kind.tolist() == ["first", "unknown"]
    assert found.selection.selected_validation.tolist() == [5.0]
    assert len(found.code) == 0


def test_the_documentation_has_every_word_the_frames_use() -> None:
    text = (Path(__file__).parents[3] / "docs/diagnostics.md").read_text()
    rows = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")}

    assert {name for name in KINDS if name not in EDITS} | set(SIZES) | set(MECHANISMS) <= rows
    assert {f"{name} edit" for name in EDITS} <= rows
    assert all(f"`{name}`" in text for name in DIAGNOSTIC_COLUMNS)
    assert all(
        f"up to {most:g} |" in text
        for name, most in SIZES.items()
        if name in ("small", "medium", "large")
    )
    assert f"{PARSE_CHARS:,} characters" in text
    assert f"more than {DATA_CHARS} characters" in text
    assert f"{TABLE_ENTRIES} constants" in text
