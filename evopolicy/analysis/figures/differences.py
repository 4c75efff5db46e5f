"""Is one entry better than another, and by how much? Differences with intervals, a panel a
Benchmark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from evopolicy.analysis.figures.inputs import FigureInputs, gather, heldout_tables
from evopolicy.analysis.figures.labels import labels
from evopolicy.analysis.figures.scores import entries_axis
from evopolicy.analysis.figures.style import (
    WIDTH,
    Look,
    Theme,
    canvas,
    drop_empty,
    grid_of,
    looks,
    style,
)
from evopolicy.analysis.stats.differences import (
    EntryDifference,
    entry_differences,
    name_partners,
    partners,
    run_keys,
)
from evopolicy.analysis.stats.intervals import interval_notes
from evopolicy.kernel.errors import RecordError
from evopolicy.present.numbers import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evopolicy.analysis.records.frames import Frames


def difference_figure(
    frames: Frames,
    against: str = "",
    *,
    entries: Sequence[str] = (),
    allow: Collection[str] = (),
    level: float = 0.95,
    seed: int = 0,
    dark: bool = False,
) -> Figure:
    """Held-out means less those of another entry, paired by Episode, a panel a Benchmark; `against`
    as in `partners`.

    A filled mark is a difference that Holm's adjusted p-value finds, over all that are drawn.

    Raises ConfigError for an entry there is not, RecordError where there is nothing to compare.
    """
    inputs = gather(frames, entries, allow)
    pairs = partners(inputs.entries, against)
    keys = run_keys(inputs.frames.runs)
    found = entry_differences(heldout_tables(inputs), keys, pairs, seed=seed, level=level)
    if not found:
        raise RecordError(
            "difference: no two entries that are compared have a Benchmark in common; choose "
            "another against="
        )
    names = list(pairs)
    benchmarks = [name for name in inputs.benchmarks if any(one.benchmark == name for one in found)]
    rows, columns = grid_of(len(benchmarks), 3)
    with style(dark) as theme:
        look, titles = looks(inputs.entries, theme), labels(benchmarks)
        size = WIDTH, rows * (0.75 + 0.3 * len(names)) + 0.4
        title, notes = (
            f"Held-out score less that of {name_partners(pairs)}",
            _notes(inputs, found, level),
        )
        figure, panels = canvas(theme, title, notes, size=size, shape=(rows, columns), sharey=True)
        for panel, name in zip(panels, benchmarks, strict=False):
            panel.set_title(titles[name], color=theme.ink)
            panel.axvline(0, color=theme.quiet, lw=0.8, zorder=1)
            entries_axis(panel, names, theme)
            for one in found:
                if one.benchmark == name:
                    _draw(panel, names.index(one.entry), one, look[one.entry], theme, level)
        drop_empty(figure, panels, len(benchmarks))
    return figure


def _notes(inputs: FigureInputs, found: Sequence[EntryDifference], level: float) -> list[str]:
    paired = sum(one.paired for one in found)
    return [
        inputs.count(
            {name for one in found for name in (one.entry, one.against)},
            {one.benchmark for one in found},
        ),
        *interval_notes([one.difference.interval for one in found], level, "Line"),
        f"Filled: p at most {1 - level:.2g}, adjusted for the {plural(len(found), 'difference')} "
        "drawn (Holm).",
        f"Read from the same Runs and paired by them: {paired} of {len(found)}." if paired else "",
        *inputs.heldout[1],
        *inputs.notes,
    ]


def _draw(
    panel: Axes, place: int, one: EntryDifference, look: Look, theme: Theme, level: float
) -> None:
    span = one.difference.interval
    if span.over is not None:
        panel.plot([span.low, span.high], [place, place], color=look.colour, lw=1.4, zorder=2)
    inside = look.colour if one.decided(level) else theme.ground
    panel.plot(
        [one.estimate],
        [place],
        marker="o",
        ms=5,
        mfc=inside,
        mec=look.colour,
        mew=1.2,
        ls="",
        zorder=3,
    )
