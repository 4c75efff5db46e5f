"""Edits and events, their sizes, hits and phases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicy.analysis import find_runs, load_frames
from evopolicy.analysis.programs.edits import (
    EDIT_COLUMNS,
    EDITS,
    KINDS,
    PHASE_COLUMNS,
    SIZES,
    Version,
    durable_bests,
    edit_counts,
    edit_frame,
    edit_kinds,
    new_bests,
    phase_frame,
    size_counts,
    size_of,
)
from tests.analysis.trajectories import Made, Sent, frames

A1, A2, B1, B2, C1 = "x = 1", "x = 2", "x = y - 1", "x = y - 2", "while x: y()"


def kinds(*sent: Sent, data_edits: bool = False) -> list[str]:
    return edit_frame(frames(Made(sent)), data_edits=data_edits).kind.tolist()


def test_every_kind_of_a_run() -> None:
    sent = [
        Sent(A1),
        Sent(A2),
        Sent(A2),
        Sent(B1),
        Sent("x = (", failed=2),
        Sent(B2),
        Sent(A1),
        Sent(C1),
        Sent(None),
    ]

    assert kinds(*sent) == [
        "first", "parametric", "retest", "synthesis", "failed", "parametric", "rollback", "synthesis", "unknown",
    ]  # fmt: skip
    assert set(kinds(*sent)) == set(KINDS)


def test_a_topology_gone_back_to_with_other_numbers_is_a_rollback_and_what_follows_it_is_parametric() -> (
    None
):
    assert kinds(Sent(A1), Sent(B1), Sent(A2), Sent("x = 3")) == [
        "first",
        "synthesis",
        "rollback",
        "parametric",
    ]


@pytest.mark.parametrize("data_edits", [False, True])
def test_an_earlier_program_again_is_never_an_edit(data_edits: bool) -> None:
    sent = [Sent(A1), Sent(A2), Sent("x = 3"), Sent(A2), Sent(A1), Sent(A2)]
    assert kinds(*sent, data_edits=data_edits) == [
        "first",
        "parametric",
        "parametric",
        *["rollback"] * 3,
    ]


def test_an_earlier_program_whose_source_is_gone_is_known_again() -> None:
    gone = Sent(None, program="gone")
    assert kinds(Sent(A1), gone, Sent(A2), gone, Sent(A1)) == [
        "first",
        "unknown",
        "unknown",
        "rollback",
        "rollback",
    ]


def test_a_bundle_of_long_ago_byte_for_byte_is_a_rollback_not_a_retest() -> None:
    assert kinds(Sent(A1), Sent(B1), Sent(A1)) == ["first", "synthesis", "rollback"]


def test_a_comment_is_a_parametric_edit_of_size_same() -> None:
    found = edit_frame(frames(Made([Sent(A1), Sent(f"# why\n{A1}")]))).iloc[1]

    assert (found.kind, found["size"], found.lines_added, found.tokens_added) == (
        "parametric",
        "same",
        1,
        0,
    )


def test_a_file_the_program_does_not_import_is_no_edit() -> None:
    found = edit_frame(frames(Made([Sent(A1), Sent({"policy.py": A1, "notes.py": "z()"})]))).iloc[1]

    assert (found.kind, found.data_changed) == ("retest", True)


def test_new_data_beside_the_same_source_is_a_retest_unless_asked_for() -> None:
    sent = [Sent(A1, program="one"), Sent(A1, program="two"), Sent(A1, program="two")]

    assert kinds(*sent) == ["first", "retest", "retest"]
    assert kinds(*sent, data_edits=True) == ["first", "parametric", "retest"]


def test_numbers_in_files_that_come_again_are_no_edits() -> None:
    sent = [Sent(A1, program=name) for name in ("p1", "p2", "p3", "p2", "p1", "p2")]

    assert kinds(*sent, data_edits=True) == ["first", "parametric", "parametric", *["rollback"] * 3]
    assert kinds(*sent) == ["first", *["retest"] * 5]


def test_an_edit_of_data_has_the_size_of_what_changed_in_the_file() -> None:
    data = ("[1, 2, 3, 4]", "[1, 2, 3, 5]", "[6, 7, 8, 9]")
    sent = [Sent(A1, program=text, data={"params.json": text}) for text in data]
    found = edit_frame(frames(Made([*sent, Sent(A1, program="weights")])), data_edits=True)

    # 12 tokens each: x = 1 and nine of the list. One of them and its successor, then four of each.
    assert found.change.tolist()[1:3] == pytest.approx([2 / 24, 8 / 24])
    assert found["size"].tolist()[1:3] == ["medium", "large"]
    plain = edit_frame(frames(Made(sent)))
    assert plain["size"].tolist()[1:] == ["same", "same"], "the paper's reading has no data files"


def test_an_edit_of_data_that_cannot_be_read_has_no_size() -> None:
    found = edit_frame(
        frames(Made([Sent(A1, program="one"), Sent(A1, program="two")])), data_edits=True
    )

    assert found.kind.tolist() == ["first", "parametric"]
    assert found["size"].isna().all() and found.data_changed.tolist() == [pd.NA, True]


@pytest.mark.parametrize("lost", [Sent(C1, status="failed", score=None), Sent(C1, failed=2)])
def test_what_failed_leaves_nothing_to_compare_with(lost: Sent) -> None:
    found = edit_frame(frames(Made([lost, Sent(A1), lost, Sent(A2), Sent(C1)])))

    assert found.kind.tolist() == ["failed", "first", "failed", "parametric", "synthesis"]
    assert found.against.tolist() == [pd.NA, pd.NA, 2, 2, 4]


def test_a_submission_some_of_whose_episodes_failed_did_not_fail() -> None:
    assert kinds(Sent(A1), Sent(A2, failed=1)) == ["first", "parametric"]


def test_what_depends_on_a_source_that_is_gone_is_unknown() -> None:
    gone = Sent(None, program="gone")

    assert kinds(Sent(A1), gone, gone, Sent(B1), Sent(C1), Sent(A1), Sent(A2)) == [
        "first", "unknown", "retest", "unknown", "unknown", "rollback", "parametric",
    ]  # fmt: skip


def test_a_program_that_does_not_parse_is_compared_as_text() -> None:
    assert kinds(Sent("x = ("), Sent("x  =  ( # so"), Sent("y = (")) == [
        "first",
        "parametric",
        "synthesis",
    ]


topologies = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=12)


@settings(max_examples=150, deadline=None)
@given(topologies)
def test_each_topology_of_a_run_is_synthesized_once_or_came_first(
    run: list[tuple[int, int, bool]],
) -> None:
    versions = [Version(f"{t}.{n}", f"{t}.{n}", str(t), failed) for t, n, failed in run]
    found = [kind for kind, _ in edit_kinds(versions)]
    new = [
        v.topology
        for v, kind in zip(versions, found, strict=True)
        if kind in ("first", "synthesis")
    ]

    assert sorted(new) == sorted({v.topology for v in versions if not v.failed})  # type: ignore[type-var]
    assert found.count("failed") == sum(v.failed for v in versions)
    assert found.count("first") <= 1


# --- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "size"),
    [
        *((0.0, "same"), (1e-9, "small"), (0.05, "small"), (0.051, "medium")),
        *((0.2, "medium"), (0.5, "large"), (0.51, "rewrite"), (1.0, "rewrite")),
    ],
)
def test_sizes_end_at_their_thresholds(share: float, size: str) -> None:
    assert size_of(share) == size


def test_a_size_is_the_share_of_tokens_that_changed() -> None:
    found = edit_frame(
        frames(
            Made([Sent("a = 1\nb = 2"), Sent("a = 3\nb = 2"), Sent("a = 3"), Sent("while q: z()")])
        )
    )

    assert found.tokens_added.tolist() == [pd.NA, 1, 0, 6]
    assert found.tokens_removed.tolist() == [pd.NA, 1, 3, 3]
    assert found.lines_removed.tolist() == [pd.NA, 1, 1, 1]
    assert found.change.tolist()[1:] == [2 / 12, 3 / 9, 1.0]
    assert found["size"].tolist() == [pd.NA, "medium", "large", "rewrite"]


# --- new bests ------------------------------------------------------------------------------------


def test_a_new_best_is_above_every_earlier_one() -> None:
    found = edit_frame(
        frames(Made([Sent(A1, 1.0, 5), Sent(B1, 1.0, 6), Sent(C1, 2.0, 4), Sent(A2, 1.5, 7)]))
    )

    assert found.new_best.tolist() == [True, False, True, False]
    assert found.new_best_training.tolist() == [True, True, False, True]
    assert found.validation.tolist() == [1.0, 1.0, 2.0, 1.5]


def test_an_unknown_validation_leaves_open_only_what_it_decides() -> None:
    assert new_bests([(1.0, True), (None, False), (0.5, True), (2.0, True), (None, True), (1.5, True)]) == [
        True, None, False, None, False, False,
    ]  # fmt: skip


def test_a_program_measured_on_fewer_episodes_has_no_comparable_validation() -> None:
    whole = frames(Made([Sent(A1, 1.0), Sent(B1, 2.0)]))
    raced = whole.episodes[
        (whole.episodes.program != Sent(B1).digest) | (whole.episodes["index"] == 0)
    ]
    found = edit_frame(type(whole)(**{**vars(whole), "episodes": raced}))

    assert found.validation.isna().tolist() == [False, True]
    assert found.new_best.tolist() == [True, pd.NA]


def test_validation_comes_from_the_record_where_episodes_were_not_loaded() -> None:
    found = edit_frame(frames(Made([Sent(A1, 1.0), Sent(B1, 2.0)]), splits=False))

    assert found.new_best.tolist() == [True, True]


# --- phases and counts ----------------------------------------------------------------------------

RUN = [
    Sent(A1, 1.0), Sent(B1, 2.0), Sent(B1, 2.0), Sent(C1, 3.0), Sent(C1, 3.0, status="failed"),
    Sent("while x: y(1)", 1.0), Sent("while x: y(2)", 4.0), Sent("while x: y(3)"), Sent(A1, 1.0), Sent("f()", 0.0),
]  # fmt: skip


def test_events_lie_in_the_phase_they_fall_into() -> None:
    found = edit_frame(frames(Made(RUN)))

    assert found.phase.tolist() == [pd.NA, 1, 1, 1, 1, 1, 2, 2, 2, 3]
    assert found.phase_kind.dropna().unique().tolist() == ["synthesis", "parametric"]


def test_a_phase_says_where_it_lies_and_what_it_gave() -> None:
    found = phase_frame(edit_frame(frames(Made(RUN), Made(RUN[:4], name="other"))))
    shown = found[["run", "kind", "first_submission", "last_submission", "first_unit", "last_unit"]]

    assert shown.to_numpy().tolist() == [
        ["run", "synthesis", 2, 6, 2, 12],
        ["run", "parametric", 7, 9, 12, 18],
        ["run", "synthesis", 10, 10, 18, 20],
        ["other", "synthesis", 2, 4, 2, 8],
    ]
    assert found[["edits", "known", "new_bests"]].to_numpy().tolist() == [
        [3, 3, 2],
        [2, 1, 1],
        [1, 1, 0],
        [2, 2, 2],
    ]


def test_counts_of_edits_leave_out_events_and_say_how_many_are_known() -> None:
    edits = edit_frame(
        frames(Made(RUN), Made(RUN[:4], name="other"), Made(RUN[:2], name="third", entry="bob"))
    )
    found = edit_counts(edits)

    assert found.to_dict("list") == {
        "entry": ["ada", "ada", "bob", "bob"],
        "kind": [*EDITS, *EDITS],
        "runs": [2, 2, 1, 1],
        "edits": [6, 2, 1, 0],
        "known": [6, 1, 1, 0],
        "new_bests": [4, 1, 1, 0],
    }
    assert edit_counts(edits, ["entry", "benchmark"]).benchmark.unique().tolist() == ["cartpole"]


def test_counts_of_sizes_hold_every_bin_and_all_adjacent_submissions_with_a_result() -> None:
    found = size_counts(edit_frame(frames(Made(RUN)))).set_index("size")

    assert found.index.tolist() == list(SIZES)
    assert found["submissions"].sum() == 8
    assert found[["submissions", "new_bests"]].loc[["same"]].to_numpy().tolist() == [[1, 0]]


def test_no_runs_have_no_edits_and_the_documented_columns() -> None:
    empty = load_frames([])

    assert list(edit_frame(empty).columns) == [column.name for column in EDIT_COLUMNS]
    assert list(phase_frame(edit_frame(empty)).columns) == [column.name for column in PHASE_COLUMNS]
    assert len(edit_counts(edit_frame(empty))) == 0


def test_edits_of_a_real_run(lay_run: Callable[..., Path]) -> None:
    found = edit_frame(load_frames(find_runs(lay_run("ada", "cartpole"))))

    assert all(found[column.name].dtype == column.dtype for column in EDIT_COLUMNS)
    assert found.kind.tolist() == ["first", "synthesis"]
    assert found.tokens_added.tolist() == [pd.NA, 3]
    assert found.validation.isna().tolist() == [True, False]
    assert found.new_best.tolist() == [pd.NA, pd.NA]
    assert found.new_best_training.tolist() == [True, False]


# --- chance and what lasts ------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "percent"), [(16, 16), (32, 10)])
def test_alike_programs_are_hits_by_chance_alone(count: int, percent: int) -> None:
    sent = [Sent(f"x = {place}", validation=float(place)) for place in range(count)]
    found = edit_frame(frames(Made(sent)))

    assert found.chance.tolist()[1:] == [1 / (place + 1) for place in range(1, count)]
    assert round(100 * found.chance.mean()) == percent
    assert found.chance.isna().tolist() == [True] + [False] * (count - 1)


def test_programs_that_come_again_or_failed_are_no_further_chances() -> None:
    found = edit_frame(frames(Made([Sent(A1), Sent(A2), Sent(C1, failed=2), Sent(A1), Sent(B1)])))

    assert found.chance.tolist()[4] == 1 / 3
    assert found.kind.tolist() == ["first", "parametric", "failed", "rollback", "synthesis"]


@pytest.mark.parametrize(
    ("values", "durable"),
    [
        ((1.0, 2.0, 3.0), (None, True, None)),
        ((1.0, 2.0, 1.0), (None, False, None)),
        ((1.0, 2.0, 1.0 + 2.0**-50), (None, False, None)),
        ((1.0, 3.0, 2.0), (None, True, None)),
        ((1.0, 2.0, None, 3.0), (None, True, None, None)),
        ((2.0, 1.0, 3.0, 2.5), (None, None, True, None)),
    ],
)
def test_a_gain_lasts_while_nothing_later_falls_back_to_what_it_raised(
    values: tuple[float | None, ...], durable: tuple[bool | None, ...]
) -> None:
    bests = new_bests([(value, True) for value in values])
    assert tuple(durable_bests(bests, values)) == durable
