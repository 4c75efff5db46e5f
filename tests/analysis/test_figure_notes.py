"""What is said below a figure: of how many Runs it is, and what a table of the same Runs says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicy.analysis import find_runs, load_frames, note_of
from evopolicy.analysis.figures.demand import demand_figure
from evopolicy.analysis.figures.differences import difference_figure
from evopolicy.analysis.figures.scores import profile_figure, rank_figure
from evopolicy.analysis.frames import Frames
from evopolicy.analysis.paper_tables import paper_table
from evopolicy.analysis.table_config import table_config
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
    assert "N = 6 Runs, 3 an entry and Benchmark." in note_of(draw(laid(lay_run, tmp_path / "outputs")))  # type: ignore[arg-type]


def test_beside_published_rows_a_figure_says_what_the_table_says_of_the_protocol(lay_run: Lay, tmp_path: Path) -> None:
    frames = laid(lay_run, tmp_path / "outputs")
    config = table_config({**option("table", "paper/rank"), "missing": "exclude"})
    (said,) = (
        note for note in paper_table(config, frames).notes if note.startswith("The Runs differ from the paper's")
    )
    assert "budget '4 Submissions, 8 units, allow_early, candidates all' in 6 of 6 cells" in said
    assert said in note_of(rank_figure(frames, published=True))
    assert said in note_of(demand_figure(frames))
    assert "differ from the paper's" not in note_of(rank_figure(frames)) + note_of(
        demand_figure(frames, published=False)
    )
