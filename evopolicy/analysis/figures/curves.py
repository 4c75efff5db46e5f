"""Best so far against what it cost."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evopolicy.analysis.figures.inputs import FigureInputs, gather
from evopolicy.analysis.figures.labels import labels
from evopolicy.analysis.figures.style import (
    WIDTH,
    Look,
    Theme,
    canvas,
    direct_labels,
    drop_empty,
    fill,
    grid_of,
    looks,
    name_axes,
    short,
    style,
)
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.records.trajectory import Axis, Value, curve_points
from evopolicy.analysis.stats.intervals import FEW, MIN_RUNS, TWO_KINDS, mean_interval
from evopolicy.analysis.stats.statistics import Floats
from evopolicy.analysis.stats.ties import is_above
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.ports.transcript import TOKENS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXES: Mapping[str, str] = {
    "units": "Episode units spent",
    "submissions": "Submissions",
    "seconds": "wall time (s)",
    "tokens": "tokens",
    "cost_usd": "cost (US$)",
}
"""What an axis of curves is called, with its unit."""
_VALUES: Mapping[str, tuple[str, str]] = {
    "validation": ("Best so far by Validation", "best Validation mean"),
    "score": ("Best so far by training score", "best training score"),
}
_POINTS = 240
"""Places at which a band is computed, at most."""

Steps = Sequence[tuple[float, float]]
"""(place on the axis, best so far), ascending."""


def best_so_far_figure(
    frames: Frames,
    *,
    axis: Axis = "units",
    value: Value = "validation",
    usage: pd.DataFrame | None = None,
    entries: Sequence[str] = (),
    allow: Collection[str] = (),
    level: float = 0.95,
    dark: bool = False,
) -> Figure:
    """Best so far, a panel a Benchmark: the mean of an entry's Runs with its interval over Runs, as
    step functions.

    Runs without a value (nothing was measured) are in no line, and the note counts them. Below
    three Runs each Run is a line of its own, marked where it improves, with no interval. A mean
    begins where all its Runs have a value, and each Run holds its best to the right end.

    Args:
        usage: see `trajectory.curve_points`; needed for the axes tokens and cost_usd.
        entries, allow: see `inputs.gather`.
    Raises RecordError where no Run has a value on that axis.
    """
    inputs = gather(frames, entries, allow)
    steps = _steps(inputs, axis, value, usage)
    if not steps:
        raise RecordError(
            f"curves: no Run has a best so far by {value} against {axis}; there is nothing to draw"
        )
    benchmarks = [name for name in inputs.benchmarks if any(slug == name for _, slug in steps)]
    drawn = [entry for entry in inputs.entries if any(name == entry for name, _ in steps)]
    rows, columns = grid_of(len(benchmarks), 3)
    height = 3.3 if len(benchmarks) == 1 else 2.1 * rows
    with style(dark) as theme:
        look = looks(inputs.entries, theme)
        keys = [] if len(benchmarks) == 1 else [(e, _line(look[e], theme)) for e in drawn]
        notes, size, titles = (
            _notes(inputs, steps, level, axis, usage),
            (WIDTH, height),
            labels(benchmarks),
        )
        figure, panels = canvas(
            theme, _VALUES[value][0], notes, size=size, shape=(rows, columns), keys=keys
        )
        for panel, benchmark in zip(panels, benchmarks, strict=False):
            end = _horizon(steps, benchmark, inputs, axis)
            here = {
                entry: steps[entry, benchmark] for entry in drawn if (entry, benchmark) in steps
            }
            places = {
                e: _draw(panel, runs, look[e], theme, e, end, level) for e, runs in here.items()
            }
            _dress(panel, titles[benchmark], theme)
            if len(benchmarks) == 1:
                direct_labels(
                    panel, [(e, y, look[e].colour) for e, y in places.items()], theme, height - 0.5
                )
        drop_empty(figure, panels, len(benchmarks))
        name_axes(panels[: len(benchmarks)], columns, AXES[axis], _VALUES[value][1])
    return figure


def _steps(
    inputs: FigureInputs, axis: Axis, value: Value, usage: pd.DataFrame | None
) -> dict[tuple[str, str], list[Steps]]:
    """By entry and Benchmark, a step function a Run; Runs without a value are left out."""
    found: dict[tuple[str, str], list[Steps]] = {}
    points = curve_points(inputs.frames, usage).dropna(subset=[axis, f"best_{value}"])
    for (entry, benchmark, _), run in points.groupby(["entry", "benchmark", "run"], sort=False):
        best: list[tuple[float, float]] = []
        for at, high in zip(run[axis].astype(float), run[f"best_{value}"], strict=True):
            if not best or is_above(high, best[-1][1]):
                best.append((at, high))
        found.setdefault((str(entry), str(benchmark)), []).append(best)
    return found


def _horizon(
    steps: Mapping[tuple[str, str], Sequence[Steps]],
    benchmark: str,
    inputs: FigureInputs,
    axis: Axis,
) -> float:
    """Right end of the axis: the budget for units, else the last improvement of any Run."""
    last = max(
        at
        for (_, slug), runs in steps.items()
        if slug == benchmark
        for run in runs
        for at, _ in run
    )
    runs = inputs.frames.runs
    budget = runs[runs["benchmark"] == benchmark]["units_budget"].max() if axis == "units" else 0
    if axis == "submissions":
        budget = runs[runs["benchmark"] == benchmark]["submissions"].max()
    return max(last, float(budget))


def _draw(
    panel: Axes,
    runs: Sequence[Steps],
    look: Look,
    theme: Theme,
    entry: str,
    end: float,
    level: float,
) -> float:
    """Draw an entry; where its label belongs."""
    line: dict[str, Any] = {
        "color": look.colour,
        "linestyle": look.dashes,
        "drawstyle": "steps-post",
    }
    if len(runs) < MIN_RUNS:
        for run in runs:
            x, y = [at for at, _ in run], [best for _, best in run]
            panel.plot([*x, end], [*y, y[-1]], **line, lw=1.1, label=entry)
            face = fill(look, theme)
            panel.plot(
                x, y, ls="", marker=look.marker, ms=4, color=look.colour, mfc=face, label=entry
            )
        return float(np.mean([run[-1][1] for run in runs]))
    places = _places(runs, end)
    table = np.array([[_at(run, place) for run in runs] for place in places])
    bounds = _bounds(table, level)
    panel.fill_between(
        places, bounds[:, 0], bounds[:, 1], step="post", color=look.colour, alpha=0.16, lw=0
    )
    panel.plot(places, table.mean(axis=1), **line, label=entry)
    panel.plot(
        end,
        table[-1].mean(),
        marker=look.marker,
        ms=5,
        color=look.colour,
        mfc=fill(look, theme),
        clip_on=False,
    )
    return float(table[-1].mean())


def _places(runs: Sequence[Steps], end: float) -> list[float]:
    """Where any Run improves once all have begun, and the end; thinned out where they are many."""
    begin = max(run[0][0] for run in runs)
    found = sorted({begin, end, *(at for run in runs for at, _ in run if begin < at < end)})
    return [*found[: -1 : math.ceil(len(found) / _POINTS)], found[-1]]


def _at(run: Steps, place: float) -> float:
    return max(best for at, best in run if at <= place)


def _bounds(table: Floats, level: float) -> Floats:
    """(places, 2) of values (places, Runs)."""
    spans = [mean_interval(row[:, np.newaxis], over="runs", level=level) for row in table]
    return np.array([(span.low, span.high) for span in spans])


def _dress(panel: Axes, title: str, theme: Theme) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    panel.set_title(title, color=theme.ink)
    panel.grid(axis="y")
    panel.set_xlim(left=0)
    panel.margins(x=0)
    panel.xaxis.set_major_locator(MaxNLocator(5, integer=False))
    panel.yaxis.set_major_locator(MaxNLocator(5))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(x)))
    panel.spines["left"].set_visible(False)


def _line(look: Look, theme: Theme) -> dict[str, Any]:
    return {
        "color": look.colour,
        "linestyle": look.dashes,
        "marker": look.marker,
        "ms": 4.5,
        "mfc": fill(look, theme),
    }


def _notes(
    inputs: FigureInputs,
    steps: Mapping[tuple[str, str], Sequence[Steps]],
    level: float,
    axis: Axis,
    usage: pd.DataFrame | None,
) -> list[str]:
    sizes = [len(runs) for runs in steps.values()]
    notes = [inputs.count()]
    every = sum(len(runs) for runs in inputs.runs.values())
    if missing := every - sum(sizes):
        notes.append(f"Without a value and in no line: {missing} of {every} Runs.")
    if max(sizes) >= MIN_RUNS:
        notes.append(
            f"Line: mean of the Runs. Band: {100 * level:g} % confidence interval of it over "
            "Runs, on these Episodes, Student's t, at each place by itself."
        )
        notes += [TWO_KINDS] if min(size for size in sizes if size >= MIN_RUNS) < FEW else []
    if min(sizes) < MIN_RUNS:
        notes.append(
            "Fewer than three Runs: each Run is a line of its own, marked where it improves, and "
            "there is no interval over Runs."
        )
    return [*notes, *([] if usage is not None else _estimates(inputs, axis)), *inputs.notes]


def _estimates(inputs: FigureInputs, axis: Axis) -> list[str]:
    """What of the axis nobody reported, where it is read from the log of the Host's proxy."""
    prices = (
        ["Cost: by the prices its Run was made with, of the tokens of each request."]
        if axis == "cost_usd"
        else []
    )
    guessed = inputs.estimated(TOKENS) if axis in ("tokens", "cost_usd") else []
    said = f"Tokens estimated, at least in part, by the length of texts for {', '.join(guessed)}."
    return [*prices, *([said] if guessed else [])]
