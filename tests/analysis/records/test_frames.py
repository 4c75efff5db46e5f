"""Runs as typed frames."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evopolicy.analysis import find_runs, load_frames, rank_table
from evopolicy.analysis.figures.inputs import gather, heldout_tables
from evopolicy.analysis.programs.diagnostics import diagnose
from evopolicy.analysis.records.columns import WHOSE
from evopolicy.analysis.records.frames import COLUMNS, Frames
from evopolicy.analysis.records.trajectory import curve_points
from evopolicy.analysis.records.validity import split_means
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import load_run

Lay = Callable[..., Path]


@pytest.mark.parametrize("name", list(COLUMNS))
def test_frames_have_exactly_the_documented_columns_and_types(name: str, lay_run: Lay) -> None:
    full = getattr(load_frames(find_runs(lay_run("ada", "cartpole"))), name)
    empty = getattr(load_frames([]), name)

    for frame in (full, empty):
        assert list(frame.columns) == [column.name for column in COLUMNS[name]]
        assert all(frame[column.name].dtype == column.dtype for column in COLUMNS[name])
    assert len(empty) == 0


@pytest.fixture
def frames(lay_run: Lay, tmp_path: Path) -> Frames:
    lay_run(
        "ada",
        "cartpole",
        heldout=[1.0, 3.0],
        failed=1,
        usage={"output_tokens": 50, "cost_usd": 0.25},
    )
    lay_run("bob", "cartpole", upto="session")
    return load_frames(find_runs(tmp_path / "outputs"))


def test_runs_carry_result_status_and_conditions(frames: Frames) -> None:
    ada, bob = (frames.runs[frames.runs.entry == name].iloc[0] for name in ("ada", "bob"))

    assert (ada.heldout_mean, ada.heldout_se, ada.heldout_failed) == (2.0, 1.0, 1)
    assert (ada.status, ada.valid, ada.finished, ada.selected_submission) == ("done", True, True, 2)
    assert (ada.wall_seconds, ada.units_used, ada.units_budget) == (18.0, 4, 8)
    assert (bob.status, bob.valid, bob.finished) == ("unfinished", False, False)
    assert pd.isna(bob.heldout_mean)
    assert pd.isna(bob.selected_submission)
    assert ada.budget == "4 Submissions, 8 units, allow_early, candidates all"


def test_submissions_carry_the_best_so_far(frames: Frames) -> None:
    rows = frames.submissions[frames.submissions.entry == "ada"]

    assert rows.score.tolist() == [6.0, 3.0]
    assert rows.best_so_far.tolist() == [6.0, 6.0]
    assert rows.units_used.tolist() == [2, 4]
    assert rows.selector.tolist() == ["0:2", "0:2"]


def test_episodes_join_runs_and_mark_failures(frames: Frames) -> None:
    held_out = frames.episodes[frames.episodes.split == "assessment"]

    assert held_out.run.tolist() == [frames.runs[frames.runs.entry == "ada"].run.iloc[0]] * 2
    assert held_out.failure_kind.tolist() == ["exception", ""]
    assert held_out.failure_step.tolist() == [3, pd.NA]
    assert held_out.submission.isna().all()
    assert (
        frames.episodes[frames.episodes.split == "training"].score.tolist()
        == [5.0, 7.0, 3.0, 3.0] * 2
    )


def test_programs_candidates_and_usage(frames: Frames) -> None:
    programs = frames.programs[frames.programs.entry == "ada"]
    candidates = frames.candidates[frames.candidates.entry == "ada"]
    usage = frames.usage.set_index("entry")

    assert programs.initial.tolist() == [True, False]
    assert programs.selected.tolist() == [False, True]
    assert programs.lines.tolist() == [1, 2]
    assert programs.source.iloc[1]["policy.py"].endswith("x = 1\n")
    assert candidates.named.tolist() == [pd.NA, 0]
    assert candidates.validation_mean.tolist()[1] == 5.0
    assert pd.isna(candidates.validation_mean.iloc[0])
    assert usage.output_tokens["ada"] == 50
    assert usage.cost_usd["ada"] == 0.25
    assert pd.isna(usage.output_tokens["bob"])


def test_frames_say_how_the_agent_fared(lay_run: Lay) -> None:
    folder = lay_run("ada", "cartpole", upto="session", parent="p" * 64)
    journal = Journal(folder)
    journal.append("agent_started", attempt=2)
    fault = {"error": "529 overloaded", "error_kind": "overload", "unexplained_tokens": 7}
    journal.append(
        "agent_ended", reason="provider", turns=3, tool_calls=4, thinking_seconds=2.5, **fault
    )
    journal.close()
    found = load_frames(find_runs(folder))

    (usage,) = found.usage.to_dict("records")
    assert (
        usage["turns"],
        usage["tool_calls"],
        usage["attempts"],
        usage["unexplained_tokens"],
    ) == (3, 4, 2, 7)
    assert (usage["thinking_seconds"], usage["evaluating_seconds"]) == (12.5, 4.0)
    assert usage["agent_error"] == "529 overloaded"
    (run,) = found.runs.to_dict("records")
    assert (run["parent"], run["error_kind"]) == ("p" * 64, "overload")


def test_every_frame_says_whether_its_runs_are_finished_and_valid() -> None:
    for columns in COLUMNS.values():
        assert {("finished", "bool"), ("valid", "bool")} <= {
            (column.name, column.dtype) for column in columns
        }


def test_episodes_and_programs_can_be_left_unread(lay_run: Lay) -> None:
    frames = load_frames(find_runs(lay_run("ada", "cartpole")), episodes=False, programs=False)

    assert len(frames.runs) == 1
    assert len(frames.episodes) == len(frames.programs) == 0


def test_gaps_name_planned_cells_and_corrupt_files(
    lay_run: Lay, lay_sweep: Callable[..., Path], plan: Callable[..., Cell]
) -> None:
    folder = lay_run("ada", "cartpole")
    (folder / "submissions" / "0001" / "outcomes.jsonl").write_text("nonsense\n")
    broken = lay_run("bob", "cartpole")
    (broken / "record.json").write_text("{")
    cells = [
        plan("ada", "cartpole"),
        plan("bob", "cartpole"),
        plan("eve", "cartpole", 0, "failed", "no such CLI"),
    ]
    gaps = load_frames(find_runs(lay_sweep(cells))).gaps

    assert sorted(zip(gaps.entry, gaps.status, strict=True)) == [
        ("ada", "unreadable"),
        ("bob", "unreadable"),
        ("eve", "failed"),
    ]
    assert gaps.set_index("entry").reason["eve"] == "no such CLI"


def test_tables_of_frames_and_of_runs_are_the_same(
    lay_run: Lay, lay_sweep: Callable[..., Path], plan: Callable[..., Cell]
) -> None:
    lay_run("ada", "cartpole", usage={"requests": 3})
    lay_run("bob", "cartpole", heldout=[9.0, 9.0], valid=False, reasons=["provider"])
    found = find_runs(lay_sweep([plan(n, "cartpole", s) for n in ("ada", "bob") for s in (0, 1)]))

    assert rank_table(load_frames(found)) == rank_table(found)


def test_a_filtered_frame_gives_the_table_of_what_is_left(frames: Frames) -> None:
    from dataclasses import replace

    table = rank_table(replace(frames, runs=frames.runs[frames.runs.valid]))

    assert [row.entry for row in table.entries] == ["ada"]


def test_a_run_under_two_rules_is_two_runs_in_every_frame(records: Any, tmp_path: Path) -> None:
    folder = records.write_run(tmp_path, heldout=(190.0, 210.0))
    records.write_cells(tmp_path, "first", [records.cell_of(tmp_path, folder)])
    records.follow_rule(folder, "another-rule", heldout=(10.0, 30.0))
    records.write_cells(tmp_path, "second", [records.cell_of(tmp_path, folder)])
    first, second = (tmp_path / "sweeps" / name for name in ("first", "second"))
    alone, both = load_frames(find_runs(first)), load_frames(find_runs(first, second))

    assert alone.runs["run"].tolist() == [folder.as_posix()]
    names = both.runs["run"].tolist()
    assert [name.partition("#")[0] for name in names] == [folder.as_posix()] * 2
    assert names[1].endswith("#another-")
    assert len(set(names)) == 2
    one, two = diagnose(alone), diagnose(both)
    for part in ("edits", "phases", "curves", "areas", "spending", "gaps"):
        single, double = getattr(one, part), getattr(two, part)
        columns = [
            c
            for c in single.columns
            if c not in (*(c.name for c in WHOSE), "assessment", "selected")
        ]
        columns = [c for c in columns if not c.endswith("_assessment")]
        for name in names:
            rows = double[double["run"] == name].reset_index(drop=True)
            assert len(rows) == len(single), part
        ours = double[double["run"] == names[0]].reset_index(drop=True)
        pd.testing.assert_frame_equal(ours[columns], single[columns])
    assert both.runs["heldout_mean"].tolist() == [200.0, 20.0]
    assert [score.mean for score in both.scores()] == [200.0, 20.0]
    means = split_means(both, "assessment")
    chosen = dict(zip(names, both.runs["selected_program"], strict=True))
    assert [means[name, chosen[name]] for name in names] == [200.0, 20.0]
    tables = heldout_tables(gather(both, allow=["duplicates", "selection"]))
    assert [
        [float(row.mean()) for row in table] for of in tables.values() for table in of.values()
    ] == [[200.0, 20.0]]


def test_tokens_and_cost_up_to_each_submission_are_what_the_proxy_had_passed_on(
    lay_run: Lay,
) -> None:
    folder = lay_run("ada", "cartpole")
    run = load_run(folder)
    first, last = run.state.submissions[0].time, run.state.submissions[-1].time
    price = {"input": 1e5, "cached": 0, "cache_write": 0, "output": 0}
    listed = {"as_of": "2026-01-01", "source": "a page", "models": {"m": price}}
    run = replace(run, record=replace(run.record, config={**run.record.config, "prices": listed}))
    logs = folder / "agent" / "attempt-1"
    logs.mkdir(parents=True, exist_ok=True)
    lines = [
        {"time": first - 1, "model": "m", "input_tokens": 3, "output_tokens": 2},
        {"time": first - 1, "model": "m", "input_tokens": 900, "refused": "path_refused"},
        {"time": last, "model": "m", "input_tokens": 4, "output_tokens": 1},
        {"time": last + 1, "model": "m", "input_tokens": 100},
    ]
    (logs / "proxy.jsonl").write_text(
        "\n".join(json.dumps(line) for line in lines) + '\n{"time": 1'
    )
    rows = load_frames([run]).submissions
    assert len(rows) > 1
    assert (rows.tokens.iloc[-1], rows.cost_usd.iloc[-1]) == (10.0, pytest.approx(0.7))
    if first < last:
        assert (rows.tokens.iloc[0], rows.cost_usd.iloc[0]) == (5.0, pytest.approx(0.3))
    assert curve_points(load_frames([run])).tokens.iloc[-1] == 10.0


def test_a_run_without_a_proxy_has_no_tokens_by_submission(lay_run: Lay) -> None:
    rows = load_frames(find_runs(lay_run("ada", "cartpole"))).submissions
    assert rows.tokens.isna().all() and rows.cost_usd.isna().all()
