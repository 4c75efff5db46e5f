"""The figures of a sweep's report, in the light and in the dark."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from evopolicy.analysis.records.load import Found, load_frames
from evopolicy.analysis.report.shape import Figure
from evopolicy.kernel.errors import EvoPolicyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn


def draw_figures(found: Found, allow: Collection[str] = ()) -> list[Figure]:
    """Ranks, best so far, performance profile and usage; one that cannot be drawn of these Runs says why."""
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
    return [_figure(title, draw, frames, allow) for title, draw in kinds.items()]


def _figure(title: str, draw: Callable[..., Drawn], frames: Any, allow: Collection[str]) -> Figure:
    from evopolicy.analysis.figures.style import note_of, svg_text

    try:
        light, dark = (draw(frames, allow=allow, dark=dark) for dark in (False, True))
    except EvoPolicyError as error:
        return Figure(title, "", problem=str(error))
    return Figure(title, f"{title}. {note_of(light)}", svg_text(light).encode(), svg_text(dark).encode())
