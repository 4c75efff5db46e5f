"""What entries used against what they scored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evopolicy.analysis.figures.inputs import FigureInputs, gather, heldout_tables
from evopolicy.analysis.figures.labels import labels
from evopolicy.analysis.figures.style import WIDTH, Look, Theme, canvas, fill, looks, short, style
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.stats.intervals import Interval, interval_notes, mean_interval
from evopolicy.analysis.stats.resampling import rank_score_intervals
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.ports.transcript import TOKENS
from evopolicy.present.numbers import plural
from evopolicy.present.table import ESTIMATE_MARK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES = {"tokens": "tokens a Run", "cost_usd": "cost a Run (US$)"}
_COLUMNS = {"tokens": TOKENS, "cost_usd": ("cost_usd",)}
"""Of the frame `usage`, that are added up."""


@dataclass(frozen=True)
class _Score:
    """What the y axis is, and each entry's value there."""

    name: str
    spans: Mapping[str, Interval]


def usage_figure(
    frames: Frames,
    *,
    entries: Sequence[str] = (),
    allow: Collection[str] = (),
    level: float = 0.95,
    seed: int = 0,
    dark: bool = False,
) -> Figure:
    """Tokens and cost of a Run against the score, an entry a mark; a panel for each of the two that
    was reported.

    The score is the held-out mean where there is one Benchmark, else the rank score among all
    entries over the Benchmarks all have. Small marks are the Runs of one Benchmark; with several, a
    line spans the Runs' usage. Tokens are all: not cached, cached, written to a cache, and output.

    Raises RecordError where no Run reports usage.
    """
    inputs = gather(frames, entries, allow)
    used = {axis: found for axis in _AXES if (found := _used(inputs, axis))}
    if not used:
        raise RecordError(
            "usage: no Run reports tokens or cost (offline agents use none); there is nothing to "
            "draw"
        )
    score = _score(inputs, level, seed)
    with style(dark) as theme:
        look = looks(inputs.entries, theme)
        drawn = [
            entry for entry in inputs.entries if any(entry in found for found in used.values())
        ]
        figure, panels = canvas(
            theme,
            "Usage against score",
            _notes(inputs, used, drawn, score, level),
            size=(WIDTH, 2.9),
            shape=(1, len(used)),
            keys=[(entry, _key(look[entry], theme)) for entry in drawn],
            sharey=True,
        )
        for panel, (axis, found) in zip(panels, used.items(), strict=True):
            for entry in drawn:
                if entry in found and entry in score.spans:
                    runs = _run_points(inputs, entry, found[entry])
                    _draw(
                        panel,
                        list(found[entry].values()),
                        runs,
                        score.spans[entry],
                        look[entry],
                        theme,
                        entry,
                    )
            _dress(panel, axis, estimated=bool(inputs.estimated(_COLUMNS[axis])))
        panels[0].set_ylabel(score.name)
    return figure


def _key(look: Look, theme: Theme) -> dict[str, Any]:
    return {"ls": "", "marker": look.marker, "color": look.colour, "mfc": fill(look, theme)}


def _used(inputs: FigureInputs, axis: str) -> dict[str, dict[str, float]]:
    """By entry and Run, the Runs that report it."""
    usage = inputs.frames.usage
    total = usage[list(_COLUMNS[axis])].sum(axis=1).astype(float)
    found: dict[str, dict[str, float]] = {}
    for entry, run, used in zip(usage["entry"], usage["run"], total, strict=True):
        if used > 0:
            found.setdefault(entry, {})[run] = used
    return found


def _score(inputs: FigureInputs, level: float, seed: int) -> _Score:
    tables = heldout_tables(inputs)
    shared = [b for b in inputs.benchmarks if all(b in of for of in tables.values())]
    if len(inputs.benchmarks) == 1:
        name = inputs.benchmarks[0]
        spans = {entry: mean_interval(of[name], level=level) for entry, of in tables.items()}
        return _Score(f"held-out mean on {labels([name])[name]}", spans)
    if not shared:
        raise RecordError(
            "usage: no Benchmark has Runs of every entry, so they cannot be ranked; name fewer "
            "entries"
        )
    chosen = {entry: {b: of[b] for b in shared} for entry, of in tables.items()}
    spans = rank_score_intervals(chosen, rng=np.random.default_rng(seed), level=level)
    return _Score(f"rank score, {plural(len(shared), 'Benchmark')}", spans)


def _run_points(
    inputs: FigureInputs, entry: str, used: Mapping[str, float]
) -> list[tuple[float, float]]:
    """(usage, held-out mean) of an entry's Runs where there is one Benchmark."""
    if len(inputs.benchmarks) != 1:
        return []
    runs = inputs.frames.runs
    runs = runs[(runs["entry"] == entry) & runs["run"].isin(list(used))]
    return list(zip(runs["run"].map(dict(used)), runs["heldout_mean"], strict=True))


def _draw(
    panel: Axes,
    used: Sequence[float],
    runs: Sequence[tuple[float, float]],
    span: Interval,
    look: Look,
    theme: Theme,
    entry: str,
) -> None:
    x = float(np.mean(used))
    if runs:
        panel.plot(
            *zip(*runs, strict=True),
            ls="",
            marker=look.marker,
            ms=3.4,
            color=look.colour,
            alpha=0.5,
            label="Runs",
        )
    else:
        panel.plot(
            [min(used), max(used)], [span.estimate] * 2, color=look.colour, lw=1.0, alpha=0.8
        )
    if span.over is not None:
        panel.plot([x, x], [span.low, span.high], color=look.colour, lw=1.0, alpha=0.8)
    mark: dict[str, Any] = {
        "marker": look.marker,
        "ms": 7,
        "color": look.colour,
        "mfc": fill(look, theme),
    }
    panel.plot([x], [span.estimate], ls="", label=entry, zorder=4, **mark)


def _dress(panel: Axes, axis: str, *, estimated: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.set_xscale("log")
    low, high = panel.get_xlim()
    places = (1.0, 2.0, 5.0) if high / low < 200 else (1.0,)
    panel.xaxis.set_major_locator(LogLocator(subs=places))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.minorticks_off()
    panel.set_xlabel(f"{ESTIMATE_MARK} {_AXES[axis]}" if estimated else _AXES[axis])
    panel.grid()
    panel.spines["left"].set_visible(False)


def _notes(
    inputs: FigureInputs,
    used: Mapping[str, Mapping[str, Mapping[str, float]]],
    drawn: Sequence[str],
    score: _Score,
    level: float,
) -> list[str]:
    silent = [entry for entry in inputs.entries if entry not in drawn]
    tokens, cost = (
        ", ".join(inputs.estimated(_COLUMNS[axis] if axis in used else ())) for axis in _AXES
    )
    spans = [score.spans[entry] for entry in drawn if entry in score.spans]
    several = len(inputs.benchmarks) > 1
    return [
        inputs.count(),
        "Marks: mean usage of a Run, on a logarithmic axis"
        + (", between the least and the most." if several else "; small: the Runs."),
        *interval_notes(spans, level, "Upright lines"),
        f"No usage reported, ranked but not drawn: {', '.join(silent)}." if silent else "",
        f"{ESTIMATE_MARK} Tokens estimated, at least in part, by the length of texts for {tokens}."
        if tokens
        else "",
        f"{ESTIMATE_MARK} Cost estimated, at least in part, from list prices for {cost}."
        if cost
        else "",
        *inputs.heldout[1],
        *inputs.notes,
    ]
