"""How every figure looks, and how one is written. Nothing here touches pyplot or leaves a setting
changed."""

from __future__ import annotations

import hashlib
import io
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicy.analysis.figures.labels import labels
from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.shown import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.2
"""Inches: a page's text."""
FORMATS = (".svg", ".png", ".pdf")
_TITLE, _TEXT, _NOTE = 11.5, 9.5, 8.5
"""Points."""
_EDGE = 0.09
"""Inches around everything."""
MARKERS = ("o", "s", "^", "D", "v", "P")


@dataclass(frozen=True)
class Theme:
    """Colours of one variant."""

    ground: str
    ink: str
    quiet: str
    """Secondary text."""
    line: str
    """Axes."""
    grid: str
    colours: tuple[str, ...]
    """Told apart with the common colour blindnesses, and at 3:1 or more on the ground."""
    bands: Mapping[str, str]
    """Behind the phases."""


LIGHT = Theme(
    ground="#ffffff",
    ink="#1c2126",
    quiet="#59636e",
    line="#8b949e",
    grid="#e6e9ec",
    colours=("#1c3f61", "#d24f0f", "#187a50", "#bd2fa8", "#5b3c0a", "#1197f2"),
    bands={"synthesis": "#e4eef7", "parametric": "#faf0dc"},
)
DARK = Theme(
    ground="#14181d",
    ink="#e8ebee",
    quiet="#a3adb8",
    line="#6e7883",
    grid="#2a3138",
    colours=("#2b83e3", "#cc7d48", "#66e8a4", "#e23f8c", "#f6da55", "#c6def3"),
    bands={"synthesis": "#1c2f42", "parametric": "#3a301a"},
)


@contextmanager
def style(dark: bool = False) -> Iterator[Theme]:
    """The one style of all figures, in force inside; what was set before is set again after."""
    from matplotlib import rc_context

    theme = DARK if dark else LIGHT
    with rc_context(_settings(theme)):  # type: ignore[arg-type]  # a dict of its literal keys
        yield theme


def _settings(theme: Theme) -> dict[str, Any]:
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
        "font.size": _TEXT,
        "text.color": theme.ink,
        "text.parse_math": False,  # a label is text, whatever it holds
        "axes.formatter.useoffset": False,  # a score is read off, not added up
        "axes.formatter.limits": (-4, 6),
        "axes.titlesize": _TEXT,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 5,
        "axes.labelsize": _TEXT,
        "axes.labelcolor": theme.quiet,
        "axes.edgecolor": theme.line,
        "axes.facecolor": "none",
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": False,
        "grid.color": theme.grid,
        "grid.linewidth": 0.7,
        "xtick.color": theme.line,
        "ytick.color": theme.line,
        "xtick.labelcolor": theme.quiet,
        "ytick.labelcolor": theme.quiet,
        "xtick.labelsize": _TEXT - 0.7,
        "ytick.labelsize": _TEXT - 0.7,
        "xtick.major.size": 3,
        "ytick.major.size": 0,
        "figure.facecolor": theme.ground,
        "savefig.facecolor": theme.ground,
        "lines.linewidth": 1.6,
        "lines.solid_capstyle": "round",
        "svg.fonttype": "none",
        "svg.hashsalt": "evopolicy",
        "pdf.fonttype": 42,
        "figure.constrained_layout.h_pad": 0.05,
        "figure.constrained_layout.w_pad": 0.05,
    }


# --- entries --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """How an entry is drawn, in every figure of the same entries."""

    colour: str
    marker: str
    dashes: str
    """Line style."""
    filled: bool


def looks(entries: Sequence[str], theme: Theme) -> dict[str, Look]:
    """Looks by entry: by its place among `entries`, so that figures of the same entries agree.

    Each six have the six colours; the next six the same, dashed and hollow.
    """
    size = len(theme.colours)
    return {
        entry: Look(
            theme.colours[place % size],
            MARKERS[place % size],
            ("-", (0, (4, 1.6)), (0, (1.2, 1.2)))[place // size % 3],  # type: ignore[arg-type]  # matplotlib takes both
            place // size % 2 == 0,
        )
        for place, entry in enumerate(entries)
    }


def fill(look: Look, theme: Theme) -> str:
    """Face of the entry's mark or bar."""
    return look.colour if look.filled else theme.ground


# --- the sheet ------------------------------------------------------------------------------------


def canvas(
    theme: Theme,
    title: str,
    notes: Sequence[str],
    *,
    size: tuple[float, float],
    shape: tuple[int, int] = (1, 1),
    keys: Sequence[tuple[str, Mapping[str, Any]]] = (),
    **axes: Any,
) -> tuple[Figure, list[Axes]]:
    """A Figure with its title, its note and, where `keys` are given, a key of (name, Line2D
    settings) above the panels.

    Args:
        size: inches; width of all, height of the panels.
        shape: rows and columns of panels.
        axes: for `Figure.subplots`.

    Returns:
        The figure, and its panels row by row.
    """
    from matplotlib.figure import Figure

    width, panels = size
    lines = _wrapped(" ".join(note for note in dict.fromkeys(notes) if note), width)
    across = _across(keys, width)
    head = (
        _EDGE
        + _TITLE * 1.6 / 72
        + (math.ceil(len(keys) / across) * _TEXT * 1.55 / 72 + 0.06 if keys else 0)
    )
    foot = _EDGE + 0.05 + len(lines) * _NOTE * 1.35 / 72
    height = head + panels + foot
    figure = Figure(figsize=(width, height), layout="constrained")
    left = _EDGE / width
    figure.text(
        left, 1 - _EDGE / height, clean(title), size=_TITLE, weight="bold", va="top", gid="title"
    )
    note = "\n".join(lines)
    figure.text(
        left,
        _EDGE / height,
        note,
        size=_NOTE,
        color=theme.quiet,
        va="bottom",
        linespacing=1.3,
        gid="note",
    )
    if keys:
        _add_key(figure, keys, across, (left, 1 - (_EDGE + _TITLE * 1.6 / 72 + 0.04) / height))
    for text in figure.texts:
        text.set_in_layout(False)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(left, foot / height, 1 - 2 * left, (height - head - foot) / height))  # type: ignore[call-arg]
    found = figure.subplots(*shape, squeeze=False, **axes)
    return figure, [panel for row in found for panel in row]


def _wrapped(note: str, width: float) -> list[str]:
    return textwrap.wrap(clean(note, 2_000), int((width - 2 * _EDGE) * 72 / (_NOTE * 0.54)))


def _across(keys: Sequence[tuple[str, Mapping[str, Any]]], width: float) -> int:
    """As many columns, each as wide as its longest name, as fit beside each other."""
    lengths = [len(name) for name in labels(name for name, _ in keys).values()]
    room = (width - 2 * _EDGE) * 72 / _TEXT
    for across in range(len(keys), 1, -1):
        if sum(0.6 * max(lengths[column::across]) + 3.9 for column in range(across)) <= room:
            return across
    return 1


def _add_key(
    figure: Figure,
    keys: Sequence[tuple[str, Mapping[str, Any]]],
    across: int,
    corner: tuple[float, float],
) -> None:
    from matplotlib.lines import Line2D

    # a legend fills column by column; people read row by row
    rows = math.ceil(len(keys) / across)
    order = [
        row * across + column
        for column in range(across)
        for row in range(rows)
        if row * across + column < len(keys)
    ]
    handles, names = (
        [Line2D([], [], **dict(keys[i][1])) for i in order],
        labels(name for name, _ in keys),
    )
    legend = figure.legend(
        handles,
        [names[keys[i][0]] for i in order],
        loc="upper left",
        bbox_to_anchor=corner,
        ncols=across,
        frameon=False,
        handlelength=1.8,
        handletextpad=0.5,
        columnspacing=1.4,
        labelspacing=0.35,
        borderaxespad=0,
        borderpad=0,
    )
    legend.set_in_layout(False)


def note_of(figure: Figure) -> str:
    """The note below a figure, on one line: N, and what its intervals are."""
    return " ".join(
        " ".join(text.get_text() for text in figure.texts if text.get_gid() == "note").split()
    )


def title_of(figure: Figure) -> str:
    """The title above a figure."""
    return " ".join(text.get_text() for text in figure.texts if text.get_gid() == "title")


def grid_of(count: int, most: int = 4) -> tuple[int, int]:
    """Rows and columns for `count` panels, as even as they come."""
    columns = (
        min(count, most)
        if count <= most
        else next(c for c in range(most, 0, -1) if c == 2 or -count % c <= 1)
    )
    return math.ceil(count / columns), columns


def drop_empty(figure: Figure, panels: Sequence[Axes], used: int) -> None:
    """Take panels behind the first `used` off the figure."""
    for panel in panels[used:]:
        figure.delaxes(panel)


def name_axes(panels: Sequence[Axes], columns: int, x: str, y: str) -> None:
    """Name the axes of a grid of panels once a row and once a column, wherever its last row is cut
    short."""
    for place, panel in enumerate(panels):
        if place + columns >= len(panels):
            panel.set_xlabel(x)
        if place % columns == 0:
            panel.set_ylabel(y)


def direct_labels(
    panel: Axes, ends: Sequence[tuple[str, float, str]], theme: Theme, height: float
) -> None:
    """Names at the right edge, each beside its value and led to it by a line of its colour, none
    over another.

    Args:
        ends: (name, value on the y axis, colour).
        height: of the panel, inches, about.
    """
    low, high = panel.get_ylim()
    gap = (_TEXT * 1.3 / 72) / height * (high - low)
    order, names = (
        sorted(range(len(ends)), key=lambda i: ends[i][1]),
        labels(name for name, *_ in ends),
    )
    places = _apart([ends[i][1] for i in order], gap, low, high)
    for i, place in zip(order, places, strict=True):
        name, value, colour = ends[i]
        panel.annotate(
            names[name],
            xy=(1.0, value),
            xytext=(1.045, place),
            xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"),
            va="center",
            color=theme.ink,
            size=_TEXT - 0.5,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 1.2,
                "shrinkA": 2,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def _apart(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Ascending values moved as little as makes them `gap` apart, inside the limits where they
    fit."""
    groups: list[tuple[float, int]] = []
    for value in values:
        groups.append((value, 1))
        while (
            len(groups) > 1
            and groups[-1][0] - groups[-2][0] < gap * (groups[-1][1] + groups[-2][1]) / 2
        ):
            (a, n), (b, m) = groups[-2:]
            middle = (a * n + b * m) / (n + m)
            room = (n + m - 1) * gap / 2
            if high - low > 2 * room:
                middle = min(max(middle, low + room), high - room)
            groups[-2:] = [(middle, n + m)]
    return [middle + (i - (n - 1) / 2) * gap for middle, n in groups for i in range(n)]


def short(value: float) -> str:
    """`950`, `12k`, `3.4M`: a tick of a long axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


# --- writing --------------------------------------------------------------------------------------


def save_figure(figure: Figure, path: Path | str) -> Path:
    """Write `figure` by the ending of `path`: .svg, .png (150 dots an inch) or .pdf; the same bytes
    each time.

    Raises ConfigError for another ending.
    """
    path = check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(figure, path.suffix.lower()[1:]))
    return path


def check_format(path: Path | str) -> Path:
    """`path`, where it ends in one of FORMATS; else raises ConfigError."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"figure: '{path.name}' ends in no format it can be written in; end it in "
            f"{', '.join(FORMATS)}"
        )
    return path


def picture(figure: Figure, kind: str, dpi: float = 150) -> bytes:
    """`figure` as the bytes of a 'svg', 'png' or 'pdf' file, without a date or the writer's
    version."""
    from matplotlib.colors import to_hex

    dates = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    metadata: dict[str, Any] = dates.get(
        kind, {"CreationDate": None, "Creator": None, "Producer": None}
    )
    out = io.BytesIO()
    # what is drawn late (ticks) takes its colours from the settings
    with style(dark=to_hex(figure.get_facecolor()) == DARK.ground):
        figure.savefig(out, format=kind, dpi=dpi, metadata=metadata)
    return out.getvalue()


def as_dark(svg: str) -> str:
    """A light figure's SVG in the colours of the dark: as if it had been drawn anew."""
    pairs = {
        **{
            getattr(LIGHT, name): getattr(DARK, name)
            for name in ("ground", "ink", "quiet", "line", "grid")
        },
        **dict(zip(LIGHT.colours, DARK.colours, strict=True)),
        **{LIGHT.bands[kind]: DARK.bands[kind] for kind in LIGHT.bands},
    }
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: pairs.get(found[0], found[0]), svg)


def svg_text(figure: Figure) -> str:
    """The figure as one `<svg>` element to stand in a page, beside others: its ids and its style
    are its own.

    It scales with the page, and its title and note are what a screen reader says.
    """
    text = picture(figure, "svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    # They are digests of places in full precision, whose last digit the layout does not settle.
    for place, clip in enumerate(dict.fromkeys(re.findall(r'<clipPath id="([^"]+)"', text))):
        text = text.replace(clip, f"clip{place}")
    name = f"figure-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'(<style type="text/css">)\s*\*', rf"\1#{name} *", text)
    spoken = escape(f"{title_of(figure)}. {note_of(figure)}", quote=True)
    size = 'style="max-width: 100%; height: auto"'
    return (
        text.replace(
            "<svg ", f'<svg id="{name}" role="img" aria-label="{spoken}" {size} ', 1
        ).strip()
        + "\n"
    )
