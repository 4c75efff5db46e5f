"""The figures of reports, in the light and in the dark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from evopolicy.analysis.records.load import Found, load_frames
from evopolicy.analysis.report.shape import Figure
from evopolicy.kernel.errors import EvoPolicyError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawn

    from evopolicy.analysis.records.frames import Frames
    from evopolicy.kernel.ports.outcome import Graded
    from evopolicy.kernel.session.selection import Measurement


def draw_figures(found: Found, allow: Collection[str] = ()) -> list[Figure]:
    """Ranks, best so far, performance profile and usage; one that cannot be drawn of these Runs
    says why."""
    from evopolicy.analysis.figures.curves import best_so_far_figure
    from evopolicy.analysis.figures.scores import profile_figure, rank_figure
    from evopolicy.analysis.figures.usage import usage_figure

    kinds: dict[str, Callable[..., Drawn]] = {
        "Rank scores": rank_figure,
        "Best so far": best_so_far_figure,
        "Performance profile": profile_figure,
        "Usage against score": usage_figure,
    }
    frames = load_frames(found, programs=False)
    return [
        _figure(title, lambda draw=draw: draw(frames, allow=allow))  # type: ignore[misc]
        for title, draw in kinds.items()
    ]


def draw_timeline(frames: Frames, edits: pd.DataFrame) -> Figure:
    """The scores of the one Run in `frames` over its Episode units; `edits` is its
    `edits.edit_frame`."""
    from evopolicy.analysis.figures.timeline import timeline_figure

    return _figure("Scores over the Run", lambda: timeline_figure(frames, edits=edits))


def draw_episodes(graded: Sequence[Graded], measured: Measurement) -> Figure:
    """The held-out Episodes that `measured` is of."""
    from evopolicy.analysis.figures.episodes import episodes_figure

    scores = [one.score for one in graded]
    failed = [one.outcome.failure is not None for one in graded]
    return _figure(
        "Held-out Episodes",
        lambda: episodes_figure(scores, failed, measured.mean, measured.standard_error),
    )


def _figure(title: str, draw: Callable[[], Drawn]) -> Figure:
    from evopolicy.analysis.figures.style import as_dark, note_of, svg_text

    try:
        drawn = draw()
    except EvoPolicyError as error:
        return Figure(title, "", problem=str(error))
    svg = svg_text(drawn)
    return Figure(title, f"{title}. {note_of(drawn)}", svg.encode(), as_dark(svg).encode())
