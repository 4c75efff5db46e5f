"""Saved views and the links to them, without a server."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from evopolicy.kernel.run.sweep import Sweep
from evopolicy.tracking.store import Store
from evopolicy.tracking.views import (
    agents_view,
    cells_view,
    pack,
    plain_link,
    save_views,
    unpack,
    view_key,
    view_link,
)


def charts(view: dict[str, object]) -> list[str]:
    return [chart["metricKey"] for chart in view["compareRunCharts"]]  # type: ignore[attr-defined]


def test_agents_are_compared_by_rank_score_and_every_benchmark(
    make_sweep: Callable[..., Sweep],
) -> None:
    view = agents_view(make_sweep(seeds=1))
    assert charts(view) == ["rank_score", "cartpole/heldout", "pendulum/heldout"]
    assert view["searchFilter"] == "tags.kind = 'agent' and tags.`sweep.quick` = 'true'"
    assert (view["orderByKey"], view["orderByAsc"]) == ("metrics.`rank_score`", False)


def test_cells_have_one_chart_for_each_benchmark(make_sweep: Callable[..., Sweep]) -> None:
    view = cells_view(make_sweep(seeds=1))
    assert charts(view) == ["cartpole/heldout", "pendulum/heldout"]
    assert view["searchFilter"] == "tags.kind = 'cell' and tags.`sweep.quick` = 'true'"
    assert view["runsHiddenMode"] == "SHOW_ALL"


def test_every_chart_lies_in_an_open_section(make_sweep: Callable[..., Sweep]) -> None:
    sweep = make_sweep(seeds=1)
    for view in (agents_view(sweep), cells_view(sweep)):
        shown = {section["uuid"] for section in view["compareRunSections"] if section["display"]}
        assert {chart["metricSectionId"] for chart in view["compareRunCharts"]} == shown


@pytest.mark.parametrize(
    ("benchmarks", "columns"),
    [
        (["cartpole", "pendulum", "half_cheetah"], 4),
        (["cartpole", "minigrid_empty", "minigrid_four_rooms"], 3),
        (["cartpole", "pendulum", "half_cheetah", "acrobot"], 3),
        (["cartpole"], 2),
    ],
)
def test_charts_are_as_wide_as_it_takes_to_tell_their_titles_apart(
    benchmarks: list[str], columns: int, make_sweep: Callable[..., Sweep]
) -> None:
    (answer, *_) = agents_view(make_sweep(agents=["a"], benchmarks=benchmarks, seeds=1))[
        "compareRunSections"
    ]
    assert answer["columns"] == columns


def test_a_large_sweeps_view_fits_a_tag(make_sweep: Callable[..., Sweep]) -> None:
    sweep = make_sweep(
        agents=["a"], benchmarks=[f"benchmark_number_{n}" for n in range(20)], seeds=1
    )
    assert len(pack(agents_view(sweep))) < 5_000


def test_a_packed_view_can_be_read_again() -> None:
    assert unpack(pack({"a": ["ü", 1]})) == {"a": ["ü", 1]}


def test_views_are_saved_in_the_experiment(store: Store, make_sweep: Callable[..., Sweep]) -> None:
    sweep = make_sweep(seeds=1)
    save_views(store, sweep)
    tags = store.client.get_experiment(store.experiment_id).tags
    assert unpack(tags["mlflow.sharedViewState.quick-agents"]) == agents_view(sweep)
    assert unpack(tags["mlflow.sharedViewState.quick-cells"]) == cells_view(sweep)


def test_links_open_in_chart_mode_outside_the_genai_pages() -> None:
    link = view_link("http://h:1", "7", view_key("my sweep", "agents"))
    path, _, query = urlsplit(link).fragment.partition("?")
    assert path == "/experiments/7/runs"
    assert parse_qs(query) == {
        "viewStateShareKey": ["my-sweep-agents"],
        "compareRunsMode": ["CHART"],
        "workflowType": ["machine_learning"],
    }
    plain = plain_link("http://h:1", "7", "tags.kind = 'cell'", "metrics.`x`")
    assert parse_qs(urlsplit(plain).fragment.partition("?")[2])["searchFilter"] == [
        "tags.kind = 'cell'"
    ]
