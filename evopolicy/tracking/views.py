"""Links into the MLflow UI that open on the answer: agents compared and cells compared.

A link names a view that is saved in the experiment (filter, order, columns, one bar chart per
Benchmark), because the UI by itself shows a sweep as one collapsed row."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from evopolicy.kernel.run.sweep import Sweep
from evopolicy.tracking.compare import sweep_tag
from evopolicy.tracking.log import clean_metric
from evopolicy.tracking.metrics import heldout_metric
from evopolicy.tracking.store import Store, guarded, slug

_VIEW_TAG = "mlflow.sharedViewState."
_LONGEST_TAG = 20_000
_ANSWER = "evopolicy-answer"
_CHARTED = 64
"""Benchmarks that get a chart of their own in a saved view."""
_SEEN_OF_FOUR = 4
"""Characters of a title that are seen where four stand in a row on a page of 1,280 pixels; of
three, eleven."""


def save_views(store: Store, sweep: Sweep) -> None:
    """Lay the sweep's two views in its experiment. Raises TrackingError."""
    for kind, state in (("agents", agents_view(sweep)), ("cells", cells_view(sweep))):
        key = f"{_VIEW_TAG}{view_key(sweep.name, kind)}"
        value = pack(state)
        if len(value) <= _LONGEST_TAG:
            guarded(
                store.uri,
                "saving a view",
                store.client.set_experiment_tag,
                store.experiment_id,
                key,
                value,
            )


def view_key(sweep: str, kind: str) -> str:
    """The name of a saved view; `kind` is 'agents' or 'cells'."""
    return f"{slug(sweep)}-{kind}"


def view_link(base: str, experiment_id: str, key: str) -> str:
    """The address of a saved view on the server at `base`."""
    query = urlencode(
        {"viewStateShareKey": key, "compareRunsMode": "CHART", "workflowType": "machine_learning"}
    )
    return f"{base}/#/experiments/{experiment_id}/runs?{query}"


def run_link(base: str, experiment_id: str, run_id: str) -> str:
    """The address of one run."""
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}"


def plain_link(base: str, experiment_id: str, search: str, order: str) -> str:
    """The address of filtered and sorted charts without a saved view."""
    query = {
        "searchFilter": search,
        "orderByKey": order,
        "orderByAsc": "false",
        "compareRunsMode": "CHART",
        "workflowType": "machine_learning",
    }
    return f"{base}/#/experiments/{experiment_id}/runs?{urlencode(query)}"


def agents_view(sweep: Sweep) -> dict[str, Any]:
    """Every entry of the sweep, best first: its rank score, then its held-out mean on each
    Benchmark."""
    columns = ["metrics.`rank_score`", "metrics.`wins`", "metrics.`top2`", "tags.`cells`"]
    first = [_bar("rank_score")]
    bars = len({cell.entry for cell in sweep.cells})
    title = "Rank score, then held-out score by Benchmark"
    charts = _charts(sweep, first, title, bars, ("cells", "time", "usage", "Model metrics"))
    return _view(sweep, "agent", "metrics.`rank_score`", charts, columns)


def cells_view(sweep: Sweep) -> dict[str, Any]:
    """Every cell of the sweep: its held-out score, among the cells of its Benchmark."""
    columns = [
        "tags.`agent`",
        "tags.`benchmark`",
        "tags.`seed`",
        "metrics.`heldout/score`",
        "tags.`terminal_reason`",
    ]
    bars = max(Counter(cell.benchmark for cell in sweep.cells).values(), default=0)
    rest = ("heldout", "submission", "validation", "time", "usage", "session")
    charts = _charts(sweep, [], "Held-out score by Benchmark", bars, rest)
    return _view(sweep, "cell", "tags.`mlflow.runName`", charts, columns)


def _view(
    sweep: Sweep, kind: str, order: str, charts: dict[str, Any], columns: list[str]
) -> dict[str, Any]:
    return {
        "searchFilter": f"tags.kind = '{kind}' and tags.`{sweep_tag(sweep.name)}` = 'true'",
        "orderByKey": order,
        "orderByAsc": kind == "cell",
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
        "runsHiddenMode": "SHOW_ALL",
        "hideEmptyCharts": True,
        "isAccordionReordered": True,
        **charts,
    }


def _charts(
    sweep: Sweep, first: list[dict[str, Any]], title: str, bars: int, rest: Sequence[str]
) -> dict[str, Any]:
    """One open section with `first` and a chart for each Benchmark; below it closed ones for the
    `rest` of the metrics.

    `bars` is how many the fullest chart has: it is made high enough for them.
    """
    benchmarks = list(dict.fromkeys(cell.benchmark for cell in sweep.cells))[:_CHARTED]
    charts = [*first, *(_bar(clean_metric(heldout_metric(benchmark))) for benchmark in benchmarks)]
    columns = _in_a_row([chart["metricKey"] for chart in charts])
    answer = {
        **_section(_ANSWER, title, display=True),
        "columns": columns,
        "cardHeight": min(360 + 12 * bars, 640),
    }
    closed = [_section(f"evopolicy-rest-{i}", name, display=False) for i, name in enumerate(rest)]
    return {"compareRunCharts": charts, "compareRunSections": [answer, *closed]}


def _in_a_row(titles: Sequence[str]) -> int:
    """How many charts stand side by side: MLflow cuts a title to its card, and knows none but the
    metric's name."""
    alike = len({title[:_SEEN_OF_FOUR] for title in titles}) < len(titles)
    return min(len(titles), 3 if alike or len(titles) in (5, 6) else 4)


def _bar(metric: str) -> dict[str, Any]:
    return {
        "uuid": f"evopolicy-{metric}",
        "type": "BAR",
        "runsCountToCompare": 100,
        "metricSectionId": _ANSWER,
        "deleted": False,
        "isGenerated": False,
        "metricKey": metric,
    }


def _section(uuid: str, name: str, *, display: bool) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": name,
        "display": display,
        "isReordered": True,
        "deleted": False,
        "isGenerated": False,
    }


def pack(state: dict[str, Any]) -> str:
    """A view's state as the UI stores it: deflated JSON in base64."""
    return "deflate;" + base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()


def unpack(value: str) -> dict[str, Any]:
    """What `pack` made."""
    state: dict[str, Any] = json.loads(
        zlib.decompress(base64.b64decode(value.removeprefix("deflate;")))
    )
    return state
