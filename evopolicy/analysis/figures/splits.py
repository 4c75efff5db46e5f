"""What scores were worth: training against Validation, and Validation against Assessment."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evopolicy.analysis.figures.inputs import gather
from evopolicy.analysis.figures.labels import labels
from evopolicy.analysis.figures.style import (
    WIDTH,
    Look,
    Theme,
    canvas,
    drop_empty,
    fill,
    looks,
    style,
)
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.records.heldout import heldout_scores
from evopolicy.analysis.records.validity import score_gaps
from evopolicy.analysis.stats.intervals import Interval, mean_interval
from evopolicy.kernel.errors import RecordError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PAIRS = (("training", "validation"), ("validation", "assessment"))
_WORDS = {
    "training": "training score",
    "validation": "Validation mean",
    "assessment": "Assessment mean",
}


def splits_figure(
    frames: Frames,
    *,
    entries: Sequence[str] = (),
    allow: Collection[str] = (),
    level: float = 0.95,
    dark: bool = False,
) -> Figure:
    """Two panels a Benchmark: every published Submission's training score against its Validation
    mean, and Validation against Assessment where a Program was measured on both; the selected one
    is large. Below the line of equal scores, the first promised more than the second held.

    Raises RecordError where no Submission has two of the three.
    """
    inputs = gather(frames, entries, allow)
    gaps = score_gaps(inputs.frames)
    rows = gaps[np.logical_or.reduce([gaps[list(pair)].notna().all(axis=1) for pair in _PAIRS])]
    if rows.empty:
        raise RecordError(
            "splits: no Submission has scores on two splits; there is nothing to draw"
        )
    benchmarks = [name for name in inputs.benchmarks if name in set(rows["benchmark"])]
    across = 1 if len(benchmarks) == 1 else 2
    height = math.ceil(len(benchmarks) / across)
    spans = _spans(inputs.frames, level)
    with style(dark) as theme:
        look, titles = looks(inputs.entries, theme), labels(benchmarks)
        drawn = [entry for entry in inputs.entries if entry in set(rows["entry"])]
        figure, panels = canvas(
            theme,
            "Training, Validation and Assessment",
            _notes(inputs.count(drawn, benchmarks), rows, spans, level, inputs.notes),
            size=(WIDTH, (2.9 if across == 1 else 1.95) * height),
            shape=(height, 2 * across),
            keys=[(entry, _key(look[entry], theme)) for entry in drawn],
        )
        for place, benchmark in enumerate(benchmarks):
            found = rows[rows["benchmark"] == benchmark]
            for panel, pair in zip(panels[2 * place : 2 * place + 2], _PAIRS, strict=True):
                _draw(
                    panel,
                    found.dropna(subset=list(pair)),
                    pair,
                    look,
                    theme,
                    spans,
                    5 if across == 1 else 2,
                )
            panels[2 * place].set_title(titles[benchmark], color=theme.ink)
        drop_empty(figure, panels, 2 * len(benchmarks))
    return figure


def _key(look: Look, theme: Theme) -> dict[str, Any]:
    return {
        "ls": "",
        "marker": look.marker,
        "ms": 5.5,
        "color": look.colour,
        "mfc": fill(look, theme),
    }


def _spans(frames: Frames, level: float) -> dict[str, Interval]:
    """By Run, the interval of its held-out mean over Episodes, where these are on disk."""
    scores = heldout_scores(frames, frames.runs).dropna(how="all")
    return {
        str(run): mean_interval([row.dropna()], over="episodes", level=level)
        for run, row in scores.iterrows()
    }


def _draw(
    panel: Axes,
    rows: pd.DataFrame,
    pair: tuple[str, str],
    look: Mapping[str, Look],
    theme: Theme,
    spans: Mapping[str, Interval],
    ticks: int,
) -> None:
    from matplotlib.ticker import MaxNLocator

    first, second = pair
    for entry in look:
        for selected in (False, True):
            found = rows[(rows["entry"] == entry) & (rows["selected"] == selected)]
            if found.empty:
                continue
            marks = {
                "marker": look[entry].marker,
                "color": look[entry].colour,
                "mfc": fill(look[entry], theme),
                "ls": "",
            }
            size: dict[str, Any] = (
                {"ms": 6.0, "mec": theme.ink, "mew": 0.8, "zorder": 4}
                if selected
                else {"ms": 3.6, "alpha": 0.55}
            )
            panel.plot(found[first], found[second], label=entry, **{**marks, **size})
            if selected and second == "assessment":
                for run, x in zip(found["run"], found[first], strict=True):
                    _whisker(panel, x, spans.get(run), look[entry].colour)
    values = _values(rows, pair, spans)
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = 0.07 * (high - low) or 1.0
    panel.plot(
        [low - room, high + room],
        [low - room, high + room],
        color=theme.line,
        lw=0.8,
        zorder=1,
        label="equal",
    )
    panel.set_xlim(low - room, high + room)
    panel.set_ylim(low - room, high + room)
    panel.set_xlabel(_WORDS[first])
    panel.set_ylabel(_WORDS[second])
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(ticks))
    panel.grid()
    if not values:
        panel.text(
            0.5,
            0.5,
            "not measured",
            transform=panel.transAxes,
            ha="center",
            va="center",
            color=theme.quiet,
        )


def _values(
    rows: pd.DataFrame, pair: tuple[str, str], spans: Mapping[str, Interval]
) -> list[float]:
    """What the two axes have to show."""
    values: list[float] = rows[list(pair)].to_numpy().ravel().tolist()
    if pair[1] == "assessment":
        whole = [spans[run] for run in rows.loc[rows["selected"], "run"] if run in spans]
        values += [
            bound for span in whole if span.over is not None for bound in (span.low, span.high)
        ]
    return values


def _whisker(panel: Axes, x: float, span: Interval | None, colour: str) -> None:
    if span is not None and span.over is not None:
        panel.plot([x, x], [span.low, span.high], color=colour, lw=1.0, alpha=0.8, zorder=3)


def _notes(
    count: str, rows: pd.DataFrame, spans: Mapping[str, Interval], level: float, more: Sequence[str]
) -> list[str]:
    selected = rows["selected"].sum()
    return [
        f"{count} {len(rows)} published Submissions, {selected} of them selected (large, dark "
        "edge).",
        "On the line the two scores are equal; below it the first promised more than the second "
        "held.",
        f"Lines: {100 * level:g} % confidence interval of a selected Program's mean over "
        "Episodes, of this Run."
        if spans
        else "",
        *more,
    ]
