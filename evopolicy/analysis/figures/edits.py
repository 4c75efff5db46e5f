"""Does a larger edit give a new best more often?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from evopolicy.analysis.figures.labels import labels
from evopolicy.analysis.figures.style import (
    WIDTH,
    Look,
    Theme,
    canvas,
    drop_empty,
    grid_of,
    looks,
    name_axes,
    style,
)
from evopolicy.analysis.programs.edits import SIZES, size_counts
from evopolicy.analysis.stats.statistics import wilson
from evopolicy.kernel.errors import ConfigError, RecordError, did_you_mean
from evopolicy.present.numbers import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LARGEST = 420.0
"""Area of the largest circle, square points."""
_BINS = tuple(SIZES)


def edit_size_figure(
    edits: pd.DataFrame,
    *,
    best: str = "new_best",
    entries: Sequence[str] = (),
    notes: Sequence[str] = (),
    level: float = 0.95,
    dark: bool = False,
) -> Figure:
    """Size of an edit against the chance that it gives a new best, a panel an entry; a circle's
    area is the count.

    Args:
        edits: `diagnose(frames).edits`.
        best: 'new_best' (by Validation) or 'new_best_training'.
        entries: those to draw, in the order of their colours; all in alphabetical order by default.
        notes: what else has to be known, as what is left out.

    Raises RecordError where no two adjacent Submissions can be compared.
    """
    there = sorted({str(entry) for entry in edits["entry"]})
    for entry in entries:
        if entry not in there:
            raise ConfigError(
                f"entries: there is no entry '{entry}' here.{did_you_mean(entry, there)}"
            )
    names = list(entries) or there
    counts = size_counts(edits, ("entry",), best)
    counts = counts[counts["entry"].isin(names) & (counts["known"] > 0)]
    if counts.empty:
        raise RecordError(
            "edits: no two adjacent Submissions with their sources and results; there is nothing "
            "to draw"
        )
    drawn = [name for name in names if name in set(counts["entry"])]
    most = int(counts["known"].max())
    rows, columns = grid_of(len(drawn), 2)
    height = 3.0 if columns == 1 else 2.0 * rows
    with style(dark) as theme:
        look, titles = looks(names, theme), labels(drawn)
        said, size = (
            [*_notes(edits, counts, best, level), *notes],
            (WIDTH if columns > 1 else 5.2, height + 0.2),
        )
        title, shape = "Edit size and improvement", (rows, columns)
        figure, panels = canvas(theme, title, said, size=size, shape=shape, sharey=True)
        for panel, name in zip(panels, drawn, strict=False):
            _draw(panel, counts[counts["entry"] == name], look[name], theme, most, level)
            panel.set_title(titles[name], color=theme.ink)
        drop_empty(figure, panels, len(drawn))
        name_axes(
            panels[: len(drawn)], columns, "change since the one before", "chance of a new best (%)"
        )
    return figure


def _draw(
    panel: Axes, counts: pd.DataFrame, look: Look, theme: Theme, most: int, level: float
) -> None:
    for size, known, bests in zip(
        counts["size"], counts["known"], counts["new_bests"], strict=True
    ):
        x, rate = _BINS.index(size), bests / known
        low, high = wilson(bests, known, level)
        panel.plot([x, x], [100 * low, 100 * high], color=look.colour, lw=1.1, alpha=0.75, zorder=2)
        area = _LARGEST * known / most
        circle = panel.scatter(
            [x],
            [100 * rate],
            s=area,
            color=look.colour,
            ec=theme.ground,
            lw=0.8,
            zorder=3,
            clip_on=False,
        )
        circle.set_label(size)
        radius = (area / 3.1416) ** 0.5
        inside = radius > 7
        panel.annotate(
            str(known),
            (x, 100 * rate),
            xytext=(0, 0) if inside else (radius + 2.5, 0),
            textcoords="offset points",
            ha="center" if inside else "left",
            va="center",
            size="small",
            color=theme.ground if inside else theme.quiet,
            zorder=4,
        )
    panel.set_xlim(-0.55, len(_BINS) - 0.45)
    panel.set_xticks(range(len(_BINS)), _BINS)
    panel.set_ylim(-13, 113)
    panel.set_yticks([0, 25, 50, 75, 100])
    panel.grid(axis="y")
    panel.spines["left"].set_visible(False)


def _notes(edits: pd.DataFrame, counts: pd.DataFrame, best: str, level: float) -> list[str]:
    known, every = counts["known"].sum(), edits["run"].nunique()
    judged = "Validation" if best == "new_best" else "training score"
    bins = ", ".join(
        f"{name} to {100 * share:g} %" for name, share in SIZES.items() if 0 < share < 1
    )
    return [
        f"N = {known} Submissions of {plural(every, 'Run')}; a circle's area, "
        f"and the number at it, is how many. New best by {judged}.",
        f"Lines: {100 * level:g} % Wilson interval, as if Submissions were independent; those of "
        "one Run are not.",
        f"Share of tokens changed: same 0 (retests too), {bins}, rewrite above.",
    ]
