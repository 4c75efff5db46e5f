"""The scores that are 0 and 1: the same in a table and in a figure, whatever a person's entries are
called."""

from __future__ import annotations

from typing import Any

import pytest

from evopolicy.analysis.figures.demand import demand_figure
from evopolicy.analysis.figures.scores import rank_figure
from evopolicy.analysis.figures.style import note_of
from evopolicy.analysis.paper.anchors import find_scale, scaled
from evopolicy.analysis.paper.published import published_scores, slugs_of
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.tables.config import table_config
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.analysis.tables.ranks import rank_table
from evopolicy.kernel.errors import ConfigError
from evopolicy.present.table import Table
from tests.analysis.figures.test_figures import simple, texts
from tests.analysis.trajectories import frames

SUITE, OTHER = "evopolicy/Acrobot-v1", "gymnasium/Acrobot-v1"


def acrobots() -> Frames:
    """Runs of the suite's Acrobot and of a profile of the same Gymnasium id, which scores
    otherwise."""
    found = (("acrobot", SUITE, -80.0), ("gymnasium-Acrobot-v1", OTHER, -400.0))
    return frames(
        *(simple("ada", 0, mean, benchmark=b, facts={"benchmark_id": i}) for b, i, mean in found)
    )


def normalized(found: Frames, **changes: Any) -> Table:
    values = {
        "title": "x",
        "kind": "normalized",
        "columns": ["normalized", "benchmarks"],
        "published": True,
        "benchmarks": ["acrobot"],
    }
    return paper_table(table_config({**values, **changes}), found)


def score(sheet: Table, entry: str, key: str = "normalized") -> Any:
    (place,) = [i for i, head in enumerate(sheet.columns) if head.key.startswith(key)]
    return next(row[place].value for row in sheet.rows if row[0].value == entry)


def drawn(found: Frames, **changes: Any) -> dict[str, float]:
    (panel,) = demand_figure(found, **changes).axes
    names = [tick.get_text() for tick in panel.get_yticklabels()]
    return dict(zip(names, [float(text) for text in texts(panel)], strict=True))


def test_a_scaled_score_is_cut_at_its_anchors() -> None:
    assert [scaled(value, -10.0, 10.0) for value in (-20.0, 0.0, 20.0)] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("turn", [1, -1])
def test_of_two_benchmarks_of_one_gymnasium_id_published_scores_stand_beside_the_suites(
    turn: int,
) -> None:
    pairs = [("acrobot", SUITE), ("gymnasium-Acrobot-v1", OTHER)][::turn]

    assert slugs_of(pairs) == {"Acrobot-v1": "acrobot"}
    assert slugs_of([("acrobot", ""), pairs[-turn]]) == {"Acrobot-v1": "acrobot"}
    assert slugs_of([("gymnasium-Acrobot-v1", OTHER), ("mine", "me/Acrobot-v1")]) == {
        "Acrobot-v1": "gymnasium-Acrobot-v1"
    }


def test_two_benchmarks_of_one_gymnasium_id_are_told_apart_in_figures_and_tables() -> None:
    found = acrobots()
    expected = scaled(-80.0, -499.15625, -80.0)

    assert drawn(found)["ada"] == expected == 1.0
    assert (
        "Of the Gymnasium id of another Benchmark here, and left out: gymnasium-Acrobot-v1."
        in note_of(demand_figure(found))
    )
    sheet = normalized(found, entries=["ada"], benchmarks=["acrobot", "gymnasium-Acrobot-v1"])
    assert (score(sheet, "ada"), score(sheet, "ada", "benchmarks")) == (1.0, 1)
    assert any(
        "without a score that is 0 or one above it: gymnasium-Acrobot-v1" in note
        for note in sheet.notes
    )
    (named,) = [
        row for row in normalized(found, benchmarks=["Acrobot-v1"]).rows if row[0].value == "ada"
    ]
    assert named[1].value == 1.0
    assert "Not complete for every entry and left out: gymnasium-Acrobot-v1" in note_of(
        rank_figure(found, published=True)
    )
    table = rank_table(found, extra=published_scores(["GPT-5.5"]))
    assert table.ranked == ("acrobot",)


def test_uniform_random_is_the_published_row_also_beside_an_entry_of_that_name() -> None:
    facts = {"benchmark_id": SUITE}
    pairs = (("ada", -100.0), ("uniform random", -300.0))
    found = frames(*(simple(e, 0, mean, benchmark="acrobot", facts=facts) for e, mean in pairs))
    expected = (499.15625 - 300.0) / (499.15625 - 84.6875)

    sheet, figure = normalized(found), drawn(found)

    assert score(sheet, "uniform random") == pytest.approx(expected)
    assert figure["uniform random"] == pytest.approx(expected, abs=5e-4)
    said = "0 is uniform random as published (not your entry of that name)"
    assert said in " ".join(sheet.notes)
    assert said in note_of(demand_figure(found))


def test_the_published_random_row_is_never_the_score_that_is_1() -> None:
    values = {("mine", "Acrobot-v1"): -600.0, ("uniform random", "Acrobot-v1"): -499.0}
    scale = find_scale(
        values, ["Acrobot-v1"], {"Acrobot-v1": "Acrobot-v1"}, own=["mine"], zero="mine"
    )

    assert scale.anchors == {}
    assert scale.without == ("Acrobot-v1",)
    with pytest.raises(ConfigError, match=r"zero: there is no entry 'mien' here.*'mine'"):
        find_scale(values, ["Acrobot-v1"], {}, own=["mine"], zero="mien")
