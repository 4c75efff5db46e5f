"""Held-out scores of entries: rank scores, performance profiles, and scores between anchors by
demand."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evopolicy.analysis.figures.inputs import FigureInputs, Tables, few_runs, gather, heldout_tables
from evopolicy.analysis.figures.labels import labels
from evopolicy.analysis.figures.style import (
    WIDTH,
    Look,
    Theme,
    canvas,
    direct_labels,
    looks,
    style,
)
from evopolicy.analysis.paper.anchors import Anchors, own_anchors
from evopolicy.analysis.paper.protocol import protocol_note
from evopolicy.analysis.paper.published import NOTE, as_published, published_scores, slugs_of
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.stats.intervals import MIN_RUNS, Interval, interval_notes, told_once
from evopolicy.analysis.stats.resampling import ProfileBand, profile_band, rank_score_intervals
from evopolicy.analysis.tables.ranks import EntryRank, RankTable, rank_table
from evopolicy.kernel.errors import RecordError
from evopolicy.present.numbers import plural, rank_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR = 0.62
_ROW = 0.27
"""Inches an entry takes."""


# --- ranks ----------------------------------------------------------------------------------------


def rank_figure(
    frames: Frames,
    *,
    published: bool = False,
    entries: Sequence[str] = (),
    allow: Collection[str] = (),
    level: float = 0.95,
    seed: int = 0,
    dark: bool = False,
) -> Figure:
    """Rank scores, a bar an entry, best above; a dot is the rank score on one Benchmark.

    Over the Benchmarks that are complete for all entries, as `tables.rank_table` has it with
    missing='exclude'. Intervals re-rank all entries in each replicate
    (`resampling.rank_score_intervals`).

    Args:
        published: whether the paper's entries are ranked among them, held at their means; they have
        no intervals. seed: of the intervals' random numbers.

    Raises RecordError where nothing can be ranked.
    """
    inputs = gather(frames, entries, allow)
    table = rank_table(
        [], allow=allow, extra=[*_scores(frames, inputs), *_extra(inputs, published)]
    )
    rows = [row for row in table.entries if row.rank_score is not None]
    if not rows:
        raise RecordError(
            "rank: no Benchmark is complete for every entry; there is nothing to draw"
        )
    spans = _rank_spans(inputs, table, rows, level, seed)
    with style(dark) as theme:
        look = looks(
            [*inputs.entries, *(row.entry for row in rows if row.entry not in inputs.entries)],
            theme,
        )
        notes = _rank_notes(inputs, table, spans, published, level)
        figure, (panel,) = canvas(
            theme, "Rank score", notes, size=(WIDTH, 0.62 + _ROW * 1.15 * len(rows))
        )
        for place, row in enumerate(rows):
            draw_bar(
                panel, place, row.rank_score or 0.0, spans.get(row.entry), look[row.entry], theme
            )
            _draw_dots(
                panel,
                place,
                [table.cells[row.entry, b].rank_score or 0.0 for b in table.ranked],
                theme,
            )
            panel.text(1.06, place, rank_score(row.rank_score), va="center", ha="left")
        entries_axis(panel, [row.entry for row in rows], theme)
        panel.set_xlim(-0.012, 1.13)
        panel.set_xticks(
            [0, 0.25, 0.5, 0.75, 1.0], ["0 (last)", "0.25", "0.5", "0.75", "1 (first)"]
        )
        panel.set_xlabel(f"mean rank score over {plural(len(table.ranked), 'Benchmark')}")
    return figure


def _scores(frames: Frames, inputs: FigureInputs) -> list[CellScore]:
    chosen = set(inputs.entries)
    return [score for score in frames.scores() if score.entry in chosen]


def _extra(inputs: FigureInputs, published: bool) -> list[CellScore]:
    if not published:
        return []
    runs = inputs.frames.runs
    slugs = slugs_of(
        (str(b), str(i)) for b, i in zip(runs["benchmark"], runs["benchmark_id"], strict=True)
    )
    taken = set(inputs.entries)
    found = [
        replace(
            score,
            entry=as_published(score.entry) if score.entry in taken else score.entry,
            benchmark=slugs[score.benchmark_id],
        )
        for score in published_scores()
        if score.benchmark_id in slugs
    ]
    if not found:
        raise RecordError(
            "rank: none of the Runs' Benchmarks is one that the paper published; leave published "
            "out"
        )
    return found


def _rank_spans(
    inputs: FigureInputs, table: RankTable, rows: Sequence[EntryRank], level: float, seed: int
) -> dict[str, Interval]:
    """Intervals of the entries that have Runs; the others are held at their means."""
    tables = heldout_tables(inputs)
    widths = {name: part.shape[1] for of in tables.values() for name, part in of.items()}
    chosen = {}
    for row in rows:
        own = tables.get(row.entry, {})
        held = {
            b: np.full((MIN_RUNS, widths[b]), row.heldout[b]) for b in table.ranked if b not in own
        }
        chosen[row.entry] = {b: own[b] if b in own else held[b] for b in table.ranked}
    if len(rows) < 2:
        return {}
    found = rank_score_intervals(
        chosen, rng=np.random.default_rng(seed), missing="exclude", level=level
    )
    return {entry: span for entry, span in found.items() if entry in tables}


def _rank_notes(
    inputs: FigureInputs,
    table: RankTable,
    spans: Mapping[str, Interval],
    published: bool,
    level: float,
) -> list[str]:
    rows = [row for row in table.entries if row.rank_score is not None]
    drawn = [score for score in _scores(inputs.frames, inputs) if score.benchmark in table.ranked]
    left = [name for name in table.benchmarks if name not in table.ranked]
    gone = [row.entry for row in table.entries if row.rank_score is None]
    return [
        inputs.count([row.entry for row in rows], table.ranked),
        "Dot: the rank score on one Benchmark." if len(table.ranked) > 1 else "",
        *interval_notes(list(spans.values()), level, "Line"),
        f"Without a result and left out: {', '.join(gone)}." if gone else "",
        f"Not complete for every entry and left out: {', '.join(left)}." if left else "",
        *([NOTE, *protocol_note(drawn)] if published else []),
        *inputs.heldout[1],
        *inputs.notes,
    ]


def draw_bar(
    panel: Axes, place: int, value: float, span: Interval | None, look: Look, theme: Theme
) -> None:
    """A lying bar in row `place`, with its interval where there is one."""
    panel.barh(
        place,
        value,
        _BAR,
        color=look.colour if look.filled else "none",
        ec=look.colour,
        lw=1.1,
        alpha=0.78,
    )
    if span is not None and not math.isnan(span.low):
        ends = [[max(value - span.low, 0)], [max(span.high - value, 0)]]
        panel.errorbar(
            value,
            place,
            xerr=ends,
            fmt="none",
            ecolor=theme.ink,
            elinewidth=1.1,
            capsize=2.5,
            capthick=1.1,
        )


def _draw_dots(panel: Axes, place: int, scores: Sequence[float], theme: Theme) -> None:
    """The rank scores on single Benchmarks; none where there is one Benchmark, which is the bar."""
    if len(scores) > 1:
        dots = sorted(scores)
        marks: dict[str, Any] = {
            "marker": "o",
            "ms": 2.6,
            "mfc": theme.ink,
            "mec": theme.ground,
            "mew": 0.4,
        }
        panel.plot(dots, _stacked(dots, place), ls="", label="Benchmarks", zorder=4, **marks)


def _stacked(values: Sequence[float], place: int) -> list[float]:
    """Heights of ascending dots: those at one value side by side."""
    found = []
    for i, value in enumerate(values):
        alike = [j for j, other in enumerate(values) if other == value]
        step = min(0.13, 0.5 / len(alike))
        found.append(place + (alike.index(i) - (len(alike) - 1) / 2) * step)
    return found


def entries_axis(panel: Axes, names: Sequence[str], theme: Theme) -> None:
    """Names down the side, the first above."""
    panel.set_yticks(range(len(names)), list(labels(names).values()))
    panel.tick_params(axis="y", labelcolor=theme.ink, pad=4)
    panel.set_ylim(len(names) - 0.45, -0.55)
    panel.grid(axis="x")
    panel.spines["left"].set_visible(False)


# --- performance profile --------------------------------------------------------------------------


def profile_figure(
    frames: Frames,
    *,
    anchors: Anchors | None = None,
    entries: Sequence[str] = (),
    allow: Collection[str] = (),
    level: float = 0.95,
    seed: int = 0,
    dark: bool = False,
) -> Figure:
    """Performance profile: the share of an entry's Runs whose normalized score lies above each
    threshold.

    Over the Benchmarks on which every entry has Runs.

    Args:
        anchors: by Benchmark, the scores that count as 0 and 1; by default `anchors.own_anchors`.

    Raises RecordError where no Benchmark has Runs of every entry and a scale.
    """
    inputs = gather(frames, entries, allow)
    tables = heldout_tables(inputs)
    runs = inputs.frames.runs
    random = {str(entry) for entry in runs[runs["agent_name"] == "random"]["entry"]}
    scale, said = (
        (anchors, "0 and 1 are the anchors given.")
        if anchors is not None
        else own_anchors(tables, random)
    )
    shared = [b for b in inputs.benchmarks if b in scale and all(b in of for of in tables.values())]
    if not shared:
        raise RecordError(
            "profile: no Benchmark has Runs of every entry and two scores that are 0 and 1"
        )
    bands = _bands(inputs, tables, {name: scale[name] for name in shared}, level, seed)
    with style(dark) as theme:
        look = looks(inputs.entries, theme)
        notes = _profile_notes(inputs, shared, list(bands.values()), said, level)
        figure, (panel,) = canvas(theme, "Performance profile", notes, size=(WIDTH, 3.2))
        for entry, band in bands.items():
            _draw_band(panel, band, look[entry], entry)
        panel.set_xlim(0, 1)
        panel.set_ylim(-0.02, 1.02)
        panel.grid(axis="y")
        panel.spines["left"].set_visible(False)
        panel.set_xlabel("normalized held-out score τ")
        panel.set_ylabel("share of Runs above τ")
        direct_labels(
            panel,
            [(e, float(b.fractions[-1]), look[e].colour) for e, b in bands.items()],
            theme,
            2.7,
        )
    return figure


def _bands(
    inputs: FigureInputs, tables: Tables, scale: Anchors, level: float, seed: int
) -> dict[str, ProfileBand]:
    """Profiles by entry, over the Benchmarks of `scale`."""
    thresholds = np.linspace(0.0, 1.0, 101)
    return {
        entry: profile_band(
            {name: tables[entry][name] for name in scale},
            thresholds,
            rng=np.random.default_rng(seed),
            level=level,
            anchors=scale,
        )
        for entry in inputs.entries
        if entry in tables
    }


def _draw_band(panel: Axes, band: ProfileBand, look: Look, entry: str) -> None:
    line: dict[str, Any] = {
        "color": look.colour,
        "linestyle": look.dashes,
        "drawstyle": "steps-post",
    }
    if band.over is not None:
        panel.fill_between(
            band.thresholds, band.low, band.high, step="post", color=look.colour, alpha=0.13, lw=0
        )
    panel.plot(band.thresholds, band.fractions, label=entry, **line)


def _profile_notes(
    inputs: FigureInputs,
    shared: Sequence[str],
    bands: Sequence[ProfileBand],
    said: str,
    level: float,
) -> list[str]:
    words = {
        "runs_and_episodes": "over Runs and Episodes",
        "runs": "over Runs",
        "episodes": "over Episodes, of these Runs",
    }
    kinds = dict.fromkeys(words[band.over] for band in bands if band.over is not None)
    left = [name for name in inputs.benchmarks if name not in shared]
    return [
        inputs.count(benchmarks=shared),
        said,
        *(
            f"Bands: {100 * level:g} % confidence interval {kind}, crossed bootstrap, at each τ "
            "by itself."
            for kind in kinds
        ),
        *told_once(band.note for band in bands),
        few_runs(heldout_tables(inputs), shared),
        f"Left out, without Runs of every entry or without a scale: {', '.join(left)}."
        if left
        else "",
        *inputs.heldout[1],
        *inputs.notes,
    ]
