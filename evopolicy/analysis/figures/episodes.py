"""The held-out Episodes of one Run: a point an Episode, with their mean and its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evopolicy.analysis.figures.style import WIDTH, canvas, style
from evopolicy.present.numbers import mean_and_error, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 90
"""Points that may stand beside each other; those that would meet are stacked."""


def episodes_figure(
    scores: Sequence[float],
    failed: Sequence[bool],
    mean: float,
    error: float | None,
    *,
    dark: bool = False,
) -> Figure:
    """`scores` of the Episodes, at least one, and whether the Policy failed in each; `error` of
    their mean."""
    low, high = min(scores), max(scores)
    width = (high - low) / _COLUMNS or 1.0
    levels: dict[int, int] = {}
    places = []
    for score in scores:
        column = round((score - low) / width)
        levels[column] = levels.get(column, 0) + 1
        places.append((score, levels[column]))
    shown, spread = mean_and_error(mean, error)
    note = (
        f"N = {plural(len(scores), 'Episode')}, from {low:.4g} to {high:.4g}. Line: their "
        f"mean, {shown}."
    )
    note += f" Band: its standard error, {spread}." if error else ""
    note += f" In {sum(failed)} the Policy failed." if any(failed) else ""
    with style(dark) as theme:
        tallest = max(levels.values())
        size = (WIDTH, 0.55 + min(1.6, 0.09 * tallest))
        figure, (panel,) = canvas(theme, "Held-out Episodes", [note], size=size)
        if error:
            panel.axvspan(
                mean - error, mean + error, color=theme.bands["parametric"], lw=0, zorder=0
            )
        panel.axvline(mean, color=theme.ink, lw=1.2)
        for lost, marker, colour in ((False, "o", theme.colours[0]), (True, "x", theme.colours[1])):
            points = [place for place, its in zip(places, failed, strict=True) if its == lost]
            if points:
                x, y = zip(*points, strict=True)
                panel.plot(
                    x,
                    y,
                    ls="",
                    marker=marker,
                    ms=4.5,
                    color=colour,
                    alpha=0.8,
                    label="failed" if lost else "",
                )
        panel.set_ylim(0, tallest + 1)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
        panel.set_xlabel("score of a held-out Episode")
    return figure
