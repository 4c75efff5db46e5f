"""Normalized held-out scores on the Benchmarks where synthesis, and on those where tuning, makes
the difference."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evopolicy.analysis.figures.inputs import FigureInputs, Tables, few_runs, gather, heldout_tables
from evopolicy.analysis.figures.scores import draw_bar, entries_axis
from evopolicy.analysis.figures.style import WIDTH, canvas, looks, style
from evopolicy.analysis.paper.anchors import Anchors, Scale, find_scale, scaled
from evopolicy.analysis.paper.protocol import protocol_note
from evopolicy.analysis.paper.published import (
    AGENTS,
    CORE16,
    DEMANDS,
    NOTE,
    RANDOM,
    as_published,
    gymnasium_id,
    slugs_of,
)
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.stats.intervals import Interval, interval_notes
from evopolicy.analysis.stats.resampling import aggregate_interval
from evopolicy.analysis.stats.statistics import Floats
from evopolicy.kernel.errors import RecordError
from evopolicy.present.numbers import plural, rank_score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPS = ("synthesis", "tuning")
_ROW = 0.3
Means = Mapping[str, Mapping[str, float]]
"""Held-out means by entry and Gymnasium id."""


def demand_figure(
    frames: Frames | None = None,
    *,
    published: bool = True,
    zero: str = RANDOM,
    anchors: Anchors | None = None,
    entries: Sequence[str] = (),
    allow: Collection[str] = (),
    level: float = 0.95,
    seed: int = 0,
    dark: bool = False,
) -> Figure:
    """(score - zero) / (one - zero) cut to [0, 1], averaged over the Core16 Benchmarks of each
    demand group, of those on which every entry drawn has a score.

    Without frames: the paper's own figure. One is the best agent drawn on that Benchmark, the
    paper's among them.

    Args:
        published: whether the paper's four agents stand beside the Runs.
        zero: the entry whose score is 0, which is not drawn; 'uniform random' is the published row.
        anchors: by Gymnasium id, the scores that are 0 and 1, instead.
        entries: of the Runs.

    Raises RecordError where no Run is on a Benchmark of Core16, or none is complete for all
    entries; ConfigError for a `zero` there is not."""
    inputs = gather(frames, entries, allow) if frames is not None else None
    tables, ids, beside = _by_id(inputs) if inputs else ({}, {}, [])
    own = {
        e: {b: float(np.nanmean(np.nanmean(t, axis=1))) for b, t in of.items()}
        for e, of in tables.items()
    }
    paper = _published() if published or not own else {}
    if frames is not None and not any(own.values()):
        raise RecordError(
            "demand: no Run is on a Benchmark of Core16, and only those have a demand group"
        )
    taken = {name: as_published(name) if name in own else name for name in paper}
    means = {**{taken[name]: of for name, of in paper.items()}, **own}
    scale = _scale(means, zero, own) if anchors is None else None
    known = scale.anchors if scale else dict(anchors or {})
    shown = [entry for entry, of in means.items() if of and not (scale and entry in scale.floors)]
    shared = {
        b: known[b] for b in DEMANDS if b in known and all(b in means[entry] for entry in shown)
    }
    if not shared or not shown:
        raise RecordError(
            "demand: no Benchmark has a score of every entry and two scores that are 0 and 1"
        )
    points, spans = _points(means, tables, shown, shared, level, seed)
    notes = _notes(
        inputs, [slug for slug in ids if ids[slug] in shared], taken, spans, scale, level
    )
    notes += _left_out(means, tables, shown, shared, beside)
    return _draw(shown, points, spans, notes, own, dark)


def _by_id(inputs: FigureInputs) -> tuple[dict[str, dict[str, Floats]], dict[str, str], list[str]]:
    """Held-out tables of the Benchmarks of Core16, by Gymnasium id; their ids by slug; and others
    of such an id."""
    runs = inputs.frames.runs
    pairs = {str(b): str(i) for b, i in zip(runs["benchmark"], runs["benchmark_id"], strict=True)}
    ids = {slug: id_ for id_, slug in slugs_of(pairs.items()).items() if id_ in DEMANDS}
    tables = {
        entry: {ids[name]: table for name, table in of.items() if name in ids}
        for entry, of in heldout_tables(inputs).items()
    }
    return (
        tables,
        ids,
        [slug for slug, id_ in pairs.items() if slug not in ids and gymnasium_id(id_) in DEMANDS],
    )


def _published() -> dict[str, dict[str, float]]:
    return {agent: {b.id: b.means[place] for b in CORE16} for place, agent in enumerate(AGENTS)}


def _scale(means: Means, zero: str, own: Means) -> Scale:
    values = {
        (entry, benchmark): mean for entry, of in means.items() for benchmark, mean in of.items()
    }
    return find_scale(values, DEMANDS, {id_: id_ for id_ in DEMANDS}, own=own, zero=zero)


def _points(
    means: Means, tables: Tables, shown: Sequence[str], scale: Anchors, level: float, seed: int
) -> tuple[dict[tuple[str, str], tuple[float, int]], dict[tuple[str, str], Interval]]:
    """By group and entry: the mean with the number of Benchmarks, and the interval where there are
    Runs."""
    points: dict[tuple[str, str], tuple[float, int]] = {}
    spans: dict[tuple[str, str], Interval] = {}
    rng = np.random.default_rng(seed)
    for group in GROUPS:
        for entry in shown:
            names = [b for b in means[entry] if b in scale and DEMANDS[b] == group]
            if not names:
                continue
            cut = [scaled(means[entry][b], *scale[b]) for b in names]
            points[group, entry] = math.fsum(cut) / len(cut), len(cut)
            if entry in tables:
                chosen, known = {b: tables[entry][b] for b in names}, {b: scale[b] for b in names}
                spans[group, entry] = aggregate_interval(
                    chosen, rng=rng, level=level, anchors=known, clip=True
                )
    return points, spans


def _draw(
    shown: Sequence[str],
    points: Mapping[tuple[str, str], tuple[float, int]],
    spans: Mapping[tuple[str, str], Interval],
    notes: Sequence[str],
    own: Means,
    dark: bool,
) -> Figure:
    groups = [group for group in GROUPS if any(g == group for g, _ in points)]
    rows = [entry for entry in shown if any(e == entry for _, e in points)]
    with style(dark) as theme:
        look = looks([*sorted(own), *(entry for entry in shown if entry not in own)], theme)
        size = (WIDTH, 0.75 + _ROW * len(rows))
        figure, panels = canvas(
            theme,
            "Normalized held-out score",
            notes,
            size=size,
            shape=(1, len(groups)),
            sharey=True,
        )
        for panel, group in zip(panels, groups, strict=True):
            for place, entry in enumerate(rows):
                if found := points.get((group, entry)):
                    draw_bar(panel, place, found[0], spans.get((group, entry)), look[entry], theme)
                    panel.text(1.04, place, rank_score(found[0]), va="center")
            count = max(n for (g, _), (_, n) in points.items() if g == group)
            panel.set_title(f"{group}-dominant, {plural(count, 'Benchmark')}")
            entries_axis(panel, rows, theme)
            panel.set_xlim(0, 1.27)
            panel.set_xticks([0, 0.5, 1.0], ["0", "0.5", "1"])
            panel.set_xlabel("mean of scores between the anchors")
    return figure


def _notes(
    inputs: FigureInputs | None,
    slugs: Sequence[str],
    taken: Mapping[str, str],
    spans: Mapping[tuple[str, str], Interval],
    scale: Scale | None,
    level: float,
) -> list[str]:
    said = "0 and 1 are the anchors given; cut to [0, 1]."
    if scale is not None:
        said = f"0 is {scale.zero}, 1 the best agent drawn, which moves with them; cut to [0, 1]."
    return [
        inputs.count(benchmarks=slugs)
        if inputs
        else f"N = {len(taken)} agents, one Run a Benchmark: no interval.",
        said,
        *interval_notes(list(spans.values()), level, "Line"),
        NOTE if taken else "",
        *(
            protocol_note([s for s in inputs.frames.scores() if s.benchmark in slugs])
            if taken and inputs
            else ()
        ),
        *((*inputs.heldout[1], *inputs.notes) if inputs else ()),
    ]


def _left_out(
    means: Means, tables: Tables, shown: Sequence[str], shared: Anchors, beside: Sequence[str]
) -> list[str]:
    """What is not in the figure, in words: intervals, entries, and Benchmarks of Runs or of the
    paper."""
    there = {benchmark for entry in shown for benchmark in means[entry]}
    gone = [benchmark for benchmark in DEMANDS if benchmark in there and benchmark not in shared]
    empty = [entry for entry, of in tables.items() if not of]
    return [
        few_runs({entry: of for entry, of in tables.items() if entry in shown}, shared),
        f"Over {len(shared)} of {len(there)} Benchmarks: the others lack an entry's score or a "
        "scale."
        if gone
        else "",
        f"Of the Gymnasium id of another Benchmark here, and left out: {', '.join(beside)}."
        if beside
        else "",
        f"Without a Benchmark of Core16 and left out: {', '.join(empty)}." if empty else "",
    ]
