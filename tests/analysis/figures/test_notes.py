"""What is said below a figure: of how many Runs it is, and what a table of the same Runs says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicy.analysis import best_so_far_figure, find_runs, load_frames, note_of, rank_table
from evopolicy.analysis.figures.demand import demand_figure
from evopolicy.analysis.figures.differences import difference_figure
from evopolicy.analysis.figures.scores import profile_figure, rank_figure
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.tables.config import table_config
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.presets import option

Lay = Callable[..., Path]


def laid(lay_run: Lay, output: Path) -> Frames:
    """Two entries on acrobot, one of them on pendulum too, three Runs each."""
    for entry, slug in (("ada", "acrobot"), ("bob", "acrobot"), ("ada", "pendulum")):
        for seed in range(3):
            shift = float(len(entry + slug) + seed) + (entry == "ada")
            lay_run(entry, slug, seed, [-100.0 + shift, -90.0 + shift])
    return load_frames(find_runs(output))


@pytest.mark.parametrize("draw", [rank_figure, profile_figure, demand_figure, difference_figure])
def test_the_runs_that_are_drawn_are_counted_and_no_others(
    draw: Callable[[Frames], object], lay_run: Lay, tmp_path: Path
) -> None:
    drawn = draw(laid(lay_run, tmp_path / "outputs"))
    assert "N = 6 Runs, 3 an entry and Benchmark." in note_of(drawn)  # type: ignore[arg-type]


def test_beside_published_rows_a_figure_says_what_the_table_says_of_the_protocol(
    lay_run: Lay, tmp_path: Path
) -> None:
    frames = laid(lay_run, tmp_path / "outputs")
    config = table_config({**option("table", "paper/rank"), "missing": "exclude"})
    (said,) = (
        note
        for note in paper_table(config, frames).notes
        if note.startswith("The Runs differ from the paper's")
    )
    assert "budget '4 Submissions, 8 units, allow_early, candidates all' in 6 of 6 cells" in said
    assert said in note_of(rank_figure(frames, published=True))
    assert said in note_of(demand_figure(frames))
    assert "differ from the paper's" not in note_of(rank_figure(frames)) + note_of(
        demand_figure(frames, published=False)
    )


def test_what_is_to_be_known_of_a_run_stands_wherever_it_is_shown(
    lay_run: Lay, tmp_path: Path
) -> None:
    for seed in range(3):
        lay_run(
            "ada",
            "acrobot",
            seed,
            [-90.0 + seed, -80.0],
            reasons=["nothing_published"] if seed == 1 else [],
        )
        lay_run(
            "bob",
            "acrobot",
            seed,
            [-95.0 + seed, -80.0],
            valid=seed < 2,
            reasons=["agent_lost"] * (seed == 2),
        )
    frames = load_frames(find_runs(tmp_path / "outputs"))
    (known,) = (
        note
        for note in rank_table(frames).notes
        if note.startswith("To be known: ada on acrobot, seed 1")
    )
    (left,) = (
        note
        for note in rank_table(frames).notes
        if note.startswith("Invalid Runs left out: bob on acrobot")
    )
    for name in ("study/feedback_value", "study/agent_capability", "difference"):
        notes = paper_table(
            table_config({**option("table", name), "missing": "exclude"}), frames
        ).notes
        assert [note for note in notes if note in (known, left)] in (
            [known, left],
            [left, known],
        ), name
    for draw in (profile_figure, difference_figure, best_so_far_figure):
        note = note_of(draw(frames))
        assert known in note and left in note, draw
