"""What each figure draws, read off its artists."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from evopolicy.analysis.figures.curves import best_so_far_figure
from evopolicy.analysis.figures.demand import demand_figure
from evopolicy.analysis.figures.edits import edit_size_figure
from evopolicy.analysis.figures.inputs import gather, heldout_tables
from evopolicy.analysis.figures.labels import labels
from evopolicy.analysis.figures.scores import profile_figure, rank_figure
from evopolicy.analysis.figures.splits import splits_figure
from evopolicy.analysis.figures.style import (
    DARK,
    LIGHT,
    Theme,
    as_dark,
    note_of,
    save_figure,
    svg_text,
    title_of,
)
from evopolicy.analysis.figures.timeline import timeline_figure
from evopolicy.analysis.figures.usage import usage_figure
from evopolicy.analysis.programs.diagnostics import diagnose
from evopolicy.analysis.records.columns import typed, typed_frame
from evopolicy.analysis.records.frames import COLUMNS, Frames
from evopolicy.analysis.stats.intervals import mean_interval
from evopolicy.kernel.errors import ConfigError, RecordError
from tests.analysis.trajectories import Made, Sent, frames

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIRST = "def make_policy(c):\n    return lambda o: o[0] * 0.5\n"
TUNED = FIRST.replace("0.5", "0.7")
OTHER = FIRST + "\n\ndef helper(x):\n    return x + 1\n"
OTHER_TUNED = OTHER.replace("+ 1", "+ 2")


def made(
    sent: Sequence[Sent],
    entry: str = "ada",
    seed: int = 0,
    benchmark: str = "cartpole",
    **changes: Any,
) -> Made:
    facts = {
        "seed": seed,
        "axes": {},
        "status": "done",
        "benchmark_id": f"family/{benchmark}-v1",
        "isolation": "landlock",
        "parameters": "d",
        "pool": "p",
        "budget": "b",
        "agent_name": entry,
        "wall_seconds": 1.0,
        **changes.pop("facts", {}),
    }
    name = f"runs/{benchmark}/{entry}/s{seed}"
    best = max(range(len(sent)), key=lambda i: sent[i].validation or -math.inf) + 1
    return Made(
        sent, name=name, entry=entry, benchmark=benchmark, selected=best, facts=facts, **changes
    )


def simple(
    entry: str, seed: int, *means: float, benchmark: str = "cartpole", **changes: Any
) -> Made:
    """A Run whose n-th Submission has the n-th of `means` on every split."""
    sent = [
        Sent(FIRST.replace("0.5", f"0.{i + 1}"), mean, mean, assessment=mean)
        for i, mean in enumerate(means)
    ]
    return made(sent, entry, seed, benchmark, **changes)


def lines(panel: Axes, name: str) -> list[Any]:
    return [line for line in panel.lines if line.get_label() == name]


def bars(panel: Axes) -> list[Rectangle]:
    return [patch for patch in panel.patches if isinstance(patch, Rectangle)]


def points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def texts(panel: Axes) -> list[str]:
    return [text.get_text() for text in panel.texts if text.get_text()]


# --- best so far ----------------------------------------------------------------------------------


def test_two_runs_are_two_marked_lines_without_an_interval() -> None:
    figure = best_so_far_figure(
        frames(simple("ada", 0, 1.0, 0.5, 3.0), simple("ada", 1, 2.0, 4.0, 3.0))
    )

    (panel,) = figure.axes
    drawn = [points(line) for line in lines(panel, "ada")]
    assert drawn == [
        [(2, 1), (6, 3), (20, 3)],
        [(2, 1), (6, 3)],
        [(2, 2), (4, 4), (20, 4)],
        [(2, 2), (4, 4)],
    ]
    assert not panel.collections
    assert "Fewer than three Runs" in note_of(figure)
    assert "N = 2 Runs" in note_of(figure)


def test_three_runs_are_their_mean_with_students_interval_over_runs() -> None:
    figure = best_so_far_figure(
        frames(*(simple("ada", seed, float(seed), 4.0 + seed) for seed in range(3)))
    )

    (panel,) = figure.axes
    (line,) = lines(panel, "ada")
    assert points(line) == [(2, 1), (4, 5), (20, 5)]
    (band,) = panel.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    span = mean_interval(np.array([[4.0], [5.0], [6.0]]), over="runs")
    assert heights.max() == pytest.approx(span.high)
    assert heights.min() == pytest.approx(
        mean_interval(np.array([[0.0], [1.0], [2.0]]), over="runs").low
    )
    assert "95 % confidence interval of it over Runs" in note_of(figure)
    assert texts(panel) == ["ada"]
    assert (panel.get_xlabel(), panel.get_ylabel()) == (
        "Episode units spent",
        "best Validation mean",
    )


def test_a_mean_begins_where_all_its_runs_have_a_value() -> None:
    late = made(
        [Sent(FIRST, None, None, status="failed"), Sent(TUNED, 5.0, 5.0, assessment=5.0)], seed=2
    )
    figure = best_so_far_figure(
        frames(simple("ada", 0, 1.0), simple("ada", 1, 1.0), late), axis="submissions"
    )

    assert points(lines(figure.axes[0], "ada")[0])[0] == (2, pytest.approx(7 / 3))


def test_runs_without_a_value_are_counted_in_the_note_of_curves() -> None:
    lost = made([Sent(FIRST, None, None, status="failed")], seed=3)
    found = frames(*(simple("ada", seed, 1.0) for seed in range(3)), lost)
    found.runs["heldout_mean"] = 1.0

    note = note_of(best_so_far_figure(found))

    assert "N = 4 Runs" in note
    assert "Without a value and in no line: 1 of 4 Runs." in note


def test_each_benchmark_has_a_panel_and_the_key_names_the_entries() -> None:
    runs = [
        simple(e, s, 1.0, benchmark=b)
        for e in ("ada", "bob")
        for s in (0, 1)
        for b in ("one", "two", "three")
    ]
    figure = best_so_far_figure(frames(*runs))

    assert [panel.get_title(loc="left") for panel in figure.axes] == ["one", "two", "three"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ada", "bob"]


def test_an_axis_nobody_counted_is_refused() -> None:
    with pytest.raises(
        RecordError, match="curves: no Run has a best so far by validation against tokens"
    ):
        best_so_far_figure(frames(simple("ada", 0, 1.0)), axis="tokens")


# --- timeline -------------------------------------------------------------------------------------

STORY = [
    Sent(FIRST, 10.0),
    Sent(TUNED, 8.0),
    Sent(OTHER, 20.0),
    Sent(OTHER, 20.0),
    Sent(FIRST, 10.0),
    Sent(OTHER_TUNED, None, None, status="failed"),
]


def test_a_timeline_marks_each_submission_over_the_bands_of_its_phases() -> None:
    figure = timeline_figure(frames(made(STORY)))

    (panel,) = figure.axes
    marked = {line.get_label(): points(line) for line in panel.lines}
    assert marked["new best"] == [(1, 10), (5, 20)]
    assert marked["no improvement"] == [(3, 8)]
    assert marked["retest"] == [(7, 20)]
    assert marked["rollback"] == [(9, 10)]
    assert [x for x, _ in marked["failed"]] == [11]
    assert marked["failed"][0][1] < 8
    assert marked["best so far"] == [(1, 10), (5, 20), (20, 20)]
    bands = [
        (band.get_label(), band.get_x(), band.get_x() + band.get_width()) for band in bars(panel)
    ]
    assert bands == [("parametric", 2, 4), ("synthesis", 4, 12)]
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    others = {"training score"}
    assert set(shown) == {
        "new best",
        "no improvement",
        "rollback",
        "retest",
        "failed",
        "best so far",
        *others,
    }
    assert len(marked["training score"]) == len(STORY) - 1, "all but the one that failed"


def test_a_dark_figure_is_the_light_one_in_other_colours() -> None:
    """A report draws each once."""
    found = frames(made(STORY))

    def drawn(dark: bool) -> str:
        """Without ids, which are digests of what they are of."""
        return re.sub(
            r"figure-\w+|\bm[0-9a-f]{10}", "", svg_text(timeline_figure(found, dark=dark))
        )

    assert as_dark(drawn(dark=False)) == drawn(dark=True) != drawn(dark=False)


def test_the_best_so_far_of_a_timeline_is_that_of_its_new_bests_and_of_the_curves() -> None:
    found = frames(made([Sent(FIRST, 10.0, failed=2), Sent(TUNED, 8.0), Sent(OTHER, 20.0)]))

    (panel,) = timeline_figure(found).axes
    (curve,) = best_so_far_figure(found).axes
    marked = {line.get_label(): points(line) for line in panel.lines}
    assert [y for _, y in marked["best so far"]] == [10, 20, 20]
    assert marked["new best"] == [(5, 20)]
    assert marked["no improvement"] == [(3, 8)]
    assert [y for _, y in points(lines(curve, "ada")[0])] == [10, 20, 20]


def test_a_timeline_without_validation_is_of_the_training_score() -> None:
    figure = timeline_figure(
        frames(made([Sent(FIRST, None, 1.0), Sent(TUNED, None, 2.0)]), splits=False)
    )

    assert figure.axes[0].get_ylabel() == "training score"
    assert points(lines(figure.axes[0], "new best")[0]) == [(1, 1), (3, 2)]


def test_a_timeline_needs_one_run_by_name() -> None:
    two = frames(made(STORY), made(STORY, seed=1))

    with pytest.raises(RecordError, match="2 valid ones are here"):
        timeline_figure(two)
    with pytest.raises(RecordError, match="no Run 'runs/cartpole/ada/s7'"):
        timeline_figure(two, "runs/cartpole/ada/s7")
    assert "seed 1" in title_of(timeline_figure(two, "ada/s1"))


def test_a_timeline_takes_the_valid_run_and_says_of_another_that_tables_leave_it_out() -> None:
    lost = {"valid": False, "status": "invalid", "reason": "provider"}
    two = frames(made(STORY), made(STORY, seed=1, facts=lost))

    assert "seed 0" in title_of(timeline_figure(two))
    assert "no valid result" not in note_of(timeline_figure(two))
    assert "The Run has no valid result (provider): tables leave it out." in note_of(
        timeline_figure(two, "ada/s1")
    )


# --- scores ---------------------------------------------------------------------------------------


def three_entries() -> Frames:
    means = {"ada": (9.0, 9.5, 10.0), "bob": (5.0, 5.5, 6.0), "cy": (1.0, 1.5, 2.0)}
    return frames(
        *(
            simple(e, s, m, benchmark=b)
            for e, of in means.items()
            for s, m in enumerate(of)
            for b in ("one", "two")
        )
    )


def test_rank_bars_have_their_scores_dots_and_intervals() -> None:
    figure = rank_figure(three_entries())

    (panel,) = figure.axes
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["ada", "bob", "cy"]
    assert [bar.get_width() for bar in bars(panel)] == [1.0, 0.5, 0.0]
    assert texts(panel) == ["1.000", "0.500", "0.000"]
    assert [points(line)[0][0] for line in lines(panel, "Benchmarks")] == [1.0, 0.5, 0.0]
    assert len(panel.containers) == 6  # a bar and an interval each
    assert "95 % confidence interval over Runs and Episodes, crossed bootstrap" in note_of(figure)


def test_few_runs_have_no_rank_interval_and_the_note_names_them() -> None:
    figure = rank_figure(frames(simple("ada", 0, 5.0), simple("bob", 0, 4.0)))
    assert (
        "all 2 cells (ada on cartpole: 1, bob on cartpole: 1): no rank score has an interval"
        in note_of(figure)
    )

    runs = [simple("ada", seed, 5.0 + seed, 6.0) for seed in range(3)]
    figure = rank_figure(frames(*runs, simple("bob", 0, 4.0, 5.0)))
    assert (
        "1 of 2 cells (bob on cartpole: 1): no interval for the rank scores of their entries"
        in note_of(figure)
    )
    assert len(figure.axes[0].containers) == 3  # two bars and one interval


def test_published_entries_are_ranked_beside_runs_without_intervals() -> None:
    runs = [
        simple("ada", s, 0.95, facts={"benchmark_id": "minigrid/MiniGrid-FourRooms-v0"})
        for s in range(3)
    ]
    figure = rank_figure(frames(*runs), published=True)

    (panel,) = figure.axes
    names = [tick.get_text() for tick in panel.get_yticklabels()]
    assert names == [
        "ada",
        "Claude Opus 4.7",
        "GPT-5.5",
        "MiniMax-M3",
        "DeepSeek-V4-Pro",
        "uniform random",
    ]
    assert len(panel.containers) == 7
    assert "arXiv 2607.02440" in note_of(figure)


def test_a_profile_is_the_share_of_runs_above_each_threshold() -> None:
    anchors = {"one": (0.0, 10.0), "two": (0.0, 10.0)}
    figure = profile_figure(three_entries(), anchors=anchors)

    (panel,) = figure.axes
    (line,) = lines(panel, "bob")
    shares = dict(points(line))
    assert (shares[0.4], shares[0.52], shares[0.61]) == (1.0, pytest.approx(2 / 3), 0.0)
    assert len(panel.collections) == 3
    assert texts(panel) == ["ada", "bob", "cy"]


def test_a_profile_by_its_own_scale_says_what_is_0_and_1() -> None:
    runs = [simple(e, s, m + s) for e, m in (("ada", 4.0), ("guess", 0.0)) for s in range(3)]
    found = frames(*runs)
    found.runs.loc[found.runs["entry"] == "guess", "agent_name"] = "random"

    note = note_of(profile_figure(found))

    assert "0 is guess" in note
    assert "1 the best entry's mean" in note


def test_the_papers_own_demand_figure_has_the_published_means() -> None:
    figure = demand_figure()

    synthesis, tuning = figure.axes
    assert [bar.get_width() for bar in bars(synthesis)] == pytest.approx(
        [0.985, 0.999, 0.193, 0.029], abs=1e-3
    )
    assert [bar.get_width() for bar in bars(tuning)] == pytest.approx(
        [0.985, 0.835, 0.829, 0.668], abs=1e-3
    )
    assert synthesis.get_title(loc="left") == "synthesis-dominant, 5 Benchmarks"
    assert tuning.get_title(loc="left") == "tuning-dominant, 11 Benchmarks"
    assert not [one for one in synthesis.containers if type(one).__name__ == "ErrorbarContainer"]


def test_a_demand_figure_is_of_the_benchmarks_that_every_entry_has() -> None:
    runs = [
        simple("ada", s, -90.0 - s, facts={"benchmark_id": "classic/Acrobot-v1"}) for s in range(3)
    ]
    figure = demand_figure(frames(*runs))
    (tuning,) = figure.axes

    names = [tick.get_text() for tick in tuning.get_yticklabels()]
    assert tuning.get_title(loc="left") == "tuning-dominant, 1 Benchmark"
    assert texts(tuning)[names.index("ada")] == f"{(499.15625 - 91) / (499.15625 - 84.6875):.3f}"
    assert len([one for one in tuning.containers if type(one).__name__ == "ErrorbarContainer"]) == 1
    assert len(tuning.patches) == 5
    assert "Over 1 of 16 Benchmarks" in note_of(figure)
    other = simple(
        "bob", 0, 0.9, benchmark="rooms", facts={"benchmark_id": "minigrid/MiniGrid-FourRooms-v0"}
    )
    with pytest.raises(RecordError, match="no Benchmark has a score of every entry"):
        demand_figure(frames(*runs, other), published=False)


def test_a_demand_figure_of_other_benchmarks_is_refused() -> None:
    with pytest.raises(RecordError, match="no Run is on a Benchmark of Core16"):
        demand_figure(frames(simple("ada", 0, 1.0)))
    with pytest.raises(ConfigError, match="no entry 'rndom'"):
        demand_figure(zero="rndom")


def test_what_is_no_run_is_counted_in_the_note() -> None:
    gaps: list[dict[str, Any]] = [
        {
            "entry": "ada",
            "benchmark": "cartpole",
            "seed": 1,
            "status": "pending",
            "reason": "not begun",
        },
        {"entry": "bob", "benchmark": "cartpole", "seed": 1, "status": "failed", "reason": "no"},
        {
            "entry": "bob",
            "benchmark": "cartpole",
            "seed": 2,
            "status": "unreadable",
            "reason": "no JSON",
        },
        {"status": "unreadable", "reason": "no JSON", "run": "runs/other"},
        {
            "status": "unreadable",
            "reason": "Episodes",
            "run": "runs/cartpole/ada/s0",
            "entry": "ada",
        },
    ]
    found = frames(simple("ada", 0, 5.0), simple("bob", 0, 4.0))
    found = replace(
        found,
        gaps=typed_frame(COLUMNS["gaps"], [{"finished": False, "valid": False, **g} for g in gaps]),
    )

    for figure in (best_so_far_figure(found), profile_figure(found), splits_figure(found)):
        assert (
            "Left out: 2 planned cells without a Run and 2 records that cannot be read."
            in note_of(figure)
        )
    alone = note_of(best_so_far_figure(found, entries=["ada"]))
    assert "Left out: 1 planned cell without a Run and 1 record that cannot be read." in alone


@pytest.mark.parametrize("draw", [rank_figure, profile_figure, demand_figure])
def test_episodes_that_are_not_on_disk_are_named_in_the_note(draw: Callable[..., Figure]) -> None:
    facts = {"benchmark_id": "classic/Acrobot-v1"}
    found = frames(
        *(
            simple(e, s, m + s, facts=facts)
            for e, m in (("ada", -100.0), ("bob", -200.0))
            for s in range(3)
        )
    )
    gone = found.episodes["run"].str.endswith("bob/s1") & (found.episodes["split"] == "assessment")
    cut = replace(found, episodes=found.episodes[~gone])

    said = (
        "Episodes of bob on cartpole are not on disk, so a Run counts as one Episode, its "
        "mean: cartpole."
    )
    assert said in note_of(draw(cut))
    assert "not on disk" not in note_of(draw(found))
    assert {t.shape for of in heldout_tables(gather(cut)).values() for t in of.values()} == {(3, 1)}
    assert {t.shape for of in heldout_tables(gather(found)).values() for t in of.values()} == {
        (3, 2)
    }


# --- splits, edits, usage -------------------------------------------------------------------------


def test_splits_are_every_submission_and_the_selected_one_large() -> None:
    sent = [Sent(FIRST, 3.0, 4.0), Sent(TUNED, 5.0, 7.0, assessment=4.5)]
    figure = splits_figure(frames(made(sent)))

    fitted, chosen = figure.axes
    small, large = lines(fitted, "ada")
    assert (points(small), points(large)) == ([(4, 3)], [(7, 5)])
    assert large.get_markersize() > small.get_markersize()
    assert [points(line) for line in lines(chosen, "ada")] == [[(5, 4.5)]]
    assert (chosen.get_xlabel(), chosen.get_ylabel()) == ("Validation mean", "Assessment mean")
    assert fitted.get_xlim() == fitted.get_ylim()


def test_edit_sizes_are_circles_by_count_with_wilson_intervals() -> None:
    sent = [
        Sent(FIRST, 1.0),
        Sent(FIRST, 1.0),
        Sent(FIRST, 1.0),
        Sent(TUNED, 2.0),
        Sent(TUNED.replace("7", "8"), 1.5),
    ]
    figure = edit_size_figure(diagnose(frames(made(sent))).edits)

    (panel,) = figure.axes
    circles = {one.get_label(): one for one in panel.collections if isinstance(one, PathCollection)}
    assert set(circles) == {"same", "medium"}
    assert np.asarray(circles["same"].get_offsets())[0].tolist() == [0, 0]
    assert np.asarray(circles["medium"].get_offsets())[0].tolist() == [2, 50]
    assert circles["same"].get_sizes()[0] == circles["medium"].get_sizes()[0]
    low, high = np.asarray(panel.lines[1].get_ydata())
    assert (low, high) == pytest.approx((9.453, 90.547), abs=1e-3)
    assert texts(panel) == ["2", "2"]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == [
        "same",
        "small",
        "medium",
        "large",
        "rewrite",
    ]


def used(found: Frames, **by_entry: tuple[int, float | None]) -> Frames:
    runs = found.runs[found.runs["entry"].isin(list(by_entry))]
    tokens, costs = zip(*(by_entry[entry] for entry in runs["entry"]), strict=True)
    return replace(
        found, usage=typed(COLUMNS["usage"], runs.assign(input_tokens=tokens, cost_usd=costs))
    )


def test_usage_on_one_benchmark_is_against_the_held_out_mean() -> None:
    runs = [
        simple(e, s, m + s) for e, m in (("ada", 4.0), ("bob", 1.0), ("cy", 0.0)) for s in range(3)
    ]
    figure = usage_figure(used(frames(*runs), ada=(5000, 0.5), bob=(200, None)))

    tokens, cost = figure.axes
    assert points(lines(tokens, "ada")[0]) == [(5000, 5.0)]
    assert points(lines(tokens, "bob")[0]) == [(200, 2.0)]
    assert points(lines(cost, "ada")[0]) == [(0.5, 5.0)]
    assert not lines(cost, "bob")
    assert (tokens.get_xlabel(), cost.get_xlabel()) == ("tokens a Run", "cost a Run (US$)")
    assert "not drawn: cy" in note_of(figure)


def test_what_nobody_reported_is_marked_at_its_axis_and_named() -> None:
    found = used(
        frames(*(simple(e, s, 1.0 + s) for e in ("ada", "bob") for s in range(3))),
        ada=(50, 0.5),
        bob=(20, 1),
    )
    found = replace(
        found, usage=found.usage.assign(tokens_are_estimate=found.usage["entry"] == "bob")
    )
    figure = usage_figure(found)
    assert [panel.get_xlabel() for panel in figure.axes] == ["≈ tokens a Run", "cost a Run (US$)"]
    assert "≈ Tokens estimated, at least in part, by the length of texts for bob." in note_of(
        figure
    )
    found = replace(found, submissions=found.submissions.assign(tokens=9.0, cost_usd=1.0))
    said = [
        note_of(best_so_far_figure(found, axis=axis)) for axis in ("units", "tokens", "cost_usd")
    ]
    assert ["by the length of texts for bob" in one for one in said] == [False, True, True]
    assert ["by the prices" in one for one in said] == [False, False, True]


def test_usage_on_several_benchmarks_is_against_the_rank_score() -> None:
    figure = usage_figure(used(three_entries(), ada=(100, None), bob=(10, None), cy=(1, None)))

    (panel,) = figure.axes
    assert panel.get_ylabel() == "rank score, 2 Benchmarks"
    assert [points(lines(panel, e)[0]) for e in ("ada", "bob", "cy")] == [
        [(100, 1.0)],
        [(10, 0.5)],
        [(1, 0.0)],
    ]


# --- all of them ----------------------------------------------------------------------------------

FIGURES: dict[str, Callable[[Frames, bool], Figure]] = {
    "curves": lambda found, dark: best_so_far_figure(found, dark=dark),
    "timeline": lambda found, dark: timeline_figure(found, str(found.runs["run"].max()), dark=dark),
    "rank": lambda found, dark: rank_figure(found, dark=dark),
    "profile": lambda found, dark: profile_figure(found, dark=dark),
    "splits": lambda found, dark: splits_figure(found, dark=dark),
    "edits": lambda found, dark: edit_size_figure(diagnose(found).edits, dark=dark),
    "demand": lambda found, dark: demand_figure(found, dark=dark),
    "usage": lambda found, dark: usage_figure(found, dark=dark),
}


def many(entries: int) -> Frames:
    names = [f"agent_{i:02d}" for i in range(entries)]
    runs = [
        simple(e, s, float(i), i + 1.0 + s, facts={"benchmark_id": "classic/Acrobot-v1"})
        for i, e in enumerate(names)
        for s in range(3)
    ]
    return used(frames(*runs), **{e: (1000 * (i + 1), 0.1 * (i + 1)) for i, e in enumerate(names)})


def drawn(figure: Figure) -> Any:
    """The renderer after one drawing, by which boxes are measured."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


@pytest.mark.parametrize("name", FIGURES)
def test_without_runs_one_sentence_says_so(name: str) -> None:
    with pytest.raises(
        RecordError, match=r"^(figure|timeline|edits): .*(nothing to draw|none\)|name one)"
    ):
        FIGURES[name](frames(), False) if name != "timeline" else timeline_figure(frames())


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_how_many_it_is_of_and_draws_twelve_entries(name: str) -> None:
    figure = FIGURES[name](many(12), True)

    assert title_of(figure)
    assert re.search(r"N = \d+", note_of(figure))
    size = figure.get_size_inches()
    renderer = drawn(figure)
    for panel in figure.axes:
        box = panel.get_tightbbox(renderer)
        assert box is not None
        assert box.x0 >= -1
        assert box.x1 <= size[0] * figure.dpi + 1
        note = next(text for text in figure.texts if text.get_gid() == "note").get_window_extent(
            renderer
        )
        assert box.y0 >= note.y1 - 1


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    found = many(2)
    for ending in ("svg", "png", "pdf"):
        first, second = (
            save_figure(best_so_far_figure(found), tmp_path / f"{i}.{ending}").read_bytes()
            for i in range(2)
        )
        assert first == second
        assert b"20" + b"26-" not in first


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'a\.gif' ends in no format"):
        save_figure(demand_figure(), tmp_path / "a.gif")


def test_an_svg_stands_in_a_page_beside_others() -> None:
    ours, other = svg_text(demand_figure()), svg_text(demand_figure(dark=True))

    for text in (ours, other):
        root = ElementTree.fromstring(text)
        ids = [one.get("id") for one in root.iter() if one.get("id")]
        assert len(ids) == len(set(ids))
        assert "synthesis-dominant, 5 Benchmarks" in "".join(root.itertext())
        assert "N = 4 agents" in (root.get("aria-label") or "")
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)
        assert not re.search(r"<style[^>]*>\s*\*", text)
        assert "<metadata" not in text
    assert not set(re.findall(r'\bid="([^"]+)"', ours)) & set(re.findall(r'\bid="([^"]+)"', other))


def test_a_label_is_text_whatever_it_holds() -> None:
    name = "$x_{</svg><script>$\x1b[31m" + "y" * 80
    text = svg_text(rank_figure(frames(simple(name, 0, 1.0), simple("_quiet", 0, 2.0))))

    ElementTree.fromstring(text)
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "$x_{" in text
    assert "_quiet" in text
    assert len(labels([name])[name]) <= 34


@pytest.mark.parametrize(
    ("names", "drawn"),
    [
        (["ada", "bob"], ["ada", "bob"]),
        (
            [f"cma_es budget.submissions=32 pool.training={size}" for size in (4, 128)],
            ["… pool.training=4", "… pool.training=128"],
        ),
        (
            ["ada", *(f"cma_es budget.submissions={n} budget.episodes=64" for n in (8, 16))],
            ["ada", "…submissions=8 budget.episodes=64", "…ubmissions=16 budget.episodes=64"],
        ),
        (["claude_code", f"claude_code {'x' * 40}"], ["claude_code", f"… {'x' * 31}…"]),
        ([f"model-{'x' * 40}-{end}" for end in "ab"], [f"…{'x' * 30}-{end}" for end in "ab"]),
        # The nearest is told apart, and another would read the same: then nothing is cut.
        (
            [f"{a}{'x' * 60}{b}" for a in "ab" for b in "cd"],
            [f"{a}{'x' * 60}{b}" for a in "ab" for b in "cd"],
        ),
    ],
)
def test_a_long_label_loses_what_is_common_and_keeps_what_differs(
    names: list[str], drawn: list[str]
) -> None:
    assert list(labels(names).values()) == drawn


def test_two_entries_are_drawn_under_two_names_wherever_they_are_named() -> None:
    names = [f"claude_code agent.effort=high pool.training={size}" for size in (16, 128)]
    made_of = frames(*(simple(name, seed, 1.0 + seed) for name in names for seed in range(3)))
    assert [tick.get_text() for tick in rank_figure(made_of).axes[0].get_yticklabels()] == [
        "… pool.training=128",
        "… pool.training=16",
    ]
    (legend,) = splits_figure(made_of).legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "… pool.training=128",
        "… pool.training=16",
    ]


def test_the_smallest_text_is_read_on_a_phone() -> None:
    """A report draws figures no narrower than 34rem, 544 CSS pixels: 9 of them at the least."""
    figure = rank_figure(three_entries())
    figure.draw_without_rendering()
    shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert (
        min(float(text.get_fontsize()) for text in shown) / (figure.get_figwidth() * 72) * 544
        >= 8.5
    )


def test_an_entry_keeps_its_look_in_every_figure() -> None:
    found = three_entries()
    bar = rank_figure(found).axes[0].patches[1].get_edgecolor()
    line = lines(profile_figure(found).axes[0], "bob")[0].get_color()

    from matplotlib.colors import to_rgba

    assert bar[:3] == to_rgba(line)[:3]
    assert (
        lines(profile_figure(found, entries=["bob", "ada"]).axes[0], "bob")[0].get_color()
        == LIGHT.colours[0]
    )


def test_settings_are_as_they_were_after_a_figure() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    svg_text(demand_figure())

    assert dict(mpl.rcParams) == before


def test_drawing_loads_no_pyplot_and_importing_no_matplotlib() -> None:
    names = (
        "best_so_far_figure, demand_figure, rank_figure, save_figure, svg_text, "
        "timeline_figure, usage_figure"
    )
    script = (
        f"import sys\nfrom evopolicy.analysis import {names}\nprint('matplotlib' in sys.modules)\n"
        "svg_text(demand_figure())\nprint('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["False", "False"]


# Machado, Oliveira and Fernandes 2009, severity 1: what red-, green- and blue-blind people see of
# linear RGB.
BLIND = (
    np.eye(3),
    np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> Any:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: Any) -> Any:
    found = TO_XYZ @ rgb / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(found > 0.008856, np.cbrt(found), 7.787 * found + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    low, high = sorted(float((TO_XYZ @ linear(colour))[1]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_are_told_apart_by_the_colour_blind_and_seen_on_their_ground(theme: Theme) -> None:
    for view in BLIND:
        seen = [lab(np.clip(view @ linear(colour), 0, 1)) for colour in theme.colours]
        assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) > 15
    assert min(contrast(colour, theme.ground) for colour in theme.colours) >= 3
    assert min(contrast(colour, theme.ground) for colour in (theme.ink, theme.quiet)) >= 4.5
