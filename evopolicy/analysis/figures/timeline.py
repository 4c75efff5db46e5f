"""One Run as the paper draws it: what each Submission was and gave, over phases of synthesis and
tuning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evopolicy.analysis.figures.inputs import of_runs
from evopolicy.analysis.figures.style import WIDTH, Theme, canvas, style
from evopolicy.analysis.programs.edits import edit_frame, phase_frame
from evopolicy.analysis.records.frames import Frames
from evopolicy.analysis.stats.ties import is_above
from evopolicy.kernel.errors import RecordError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = ("new best", "no improvement", "rollback", "retest", "failed", "not known")
"""What a Submission is marked as; see `mark_of`."""
_TALL = 0.12
"""Share of the panel kept for the phases' names, and at the foot for failed Submissions."""


def timeline_figure(
    frames: Frames,
    run: str = "",
    *,
    value: str = "",
    data_edits: bool = False,
    edits: pd.DataFrame | None = None,
    dark: bool = False,
) -> Figure:
    """Submissions of one Run against Episode units, over bands of its phases, with its best so far.

    Where Validation is drawn, training scores stand beside it as small points; the held-out mean is
    a line.

    Args:
        run: of `frames.runs`; needed where there are several. value: 'validation' or 'score'
        (training, as the agent saw it); by default Validation where it was measured. data_edits:
        see `edits.edit_kinds`. edits: the Run's `edits.edit_frame`, where it is there already.

    A Run without a valid result is drawn where it is named or alone, with a note that says so.

    Raises RecordError where the Run is not there or has no Submission.
    """
    fact = _one(frames, run)
    if edits is None:
        edits = edit_frame(of_runs(frames, {fact["run"]}), data_edits=data_edits)
    if edits.empty:
        raise RecordError(f"timeline: {fact['run']} has no Submission; there is nothing to draw")
    # The middle of the Episode units a Submission cost: inside its band, not on the edge of two.
    rows = edits.assign(at=(edits["units_used"].shift(fill_value=0) + edits["units_used"]) / 2)
    value = value or ("validation" if rows["validation"].notna().any() else "score")
    best = rows["new_best" if value == "validation" else "new_best_training"]
    marks = [
        mark_of(kind, new)
        for kind, new in zip(
            rows["kind"], best.astype(object).where(best.notna(), None), strict=True
        )
    ]
    with style(dark) as theme:
        shown = [mark for mark in MARKS if mark in marks]
        keys = [(mark, {"ls": "", "ms": 6, **_settings(mark, theme)}) for mark in shown]
        others = _others(rows, value, fact, theme)
        title, notes = (
            f"{fact['entry']} on {fact['benchmark']}, seed {fact['seed']}",
            [_note(rows, marks, value, fact)],
        )
        keys += [_best_key(theme), *others]
        figure, (panel,) = canvas(theme, title, notes, size=(WIDTH, 2.9), keys=keys)
        _draw_marks(panel, rows, marks, value, _beside(rows, value, fact), theme)
        _draw_others(panel, rows, others, fact)
        _draw_best(
            panel, rows, value, max(rows["units_used"].iloc[-1], fact["units_budget"]), theme
        )
        _draw_phases(panel, phase_frame(edits), theme)
        _dress(panel, value)
    return figure


def _dress(panel: Axes, value: str) -> None:
    panel.set_xlabel("Episode units spent")
    panel.set_ylabel("Validation mean" if value == "validation" else "training score")
    panel.grid(axis="y")
    panel.spines["left"].set_visible(False)


def mark_of(kind: str, new_best: bool | None) -> str:
    """What a Submission of a kind of `edits.KINDS` is marked as: failed, retest and rollback before
    what it gave.

    A rollback with other numbers, or a retest with other data files, that gave a new best is marked
    as that."""
    if kind == "failed" or (kind in ("retest", "rollback") and not new_best):
        return kind
    if new_best is None:
        return "not known"
    return "new best" if new_best else "no improvement"


def _one(frames: Frames, run: str) -> pd.Series[Any]:
    runs = frames.runs if run or len(frames.runs) == 1 else frames.runs[frames.runs["valid"]]
    facts = list(runs["run"])
    if run and run not in facts:
        ends = [name for name in facts if name.endswith(run)]
        if len(ends) != 1:
            raise RecordError(f"timeline: there is no Run '{run}' here.{did_you_mean(run, facts)}")
        run = ends[0]
    if not run and len(facts) != 1:
        some = ", ".join(facts[:3]) or "none"
        raise RecordError(
            f"timeline: it draws one Run, and {len(facts)} valid ones are here ({some}); name one "
            "as run"
        )
    return runs[runs["run"] == (run or facts[0])].iloc[-1]


def _settings(mark: str, theme: Theme) -> dict[str, Any]:
    accent, ink = theme.colours[1], theme.quiet
    found: dict[str, dict[str, Any]] = {
        "new best": {"marker": "o", "mfc": accent, "mec": accent},
        "no improvement": {"marker": "o", "mfc": theme.ground, "mec": ink},
        "rollback": {"marker": "<", "mfc": theme.colours[3], "mec": theme.colours[3]},
        "retest": {"marker": "s", "mfc": theme.ground, "mec": theme.colours[0]},
        "failed": {"marker": "x", "mec": theme.ink, "mew": 1.6},
        "not known": {"marker": "o", "mfc": ink, "mec": ink},
    }
    return found[mark]


def _best_key(theme: Theme) -> tuple[str, dict[str, Any]]:
    return "best so far", {"color": theme.colours[1], "lw": 1.4}


_TRAINING, _HELDOUT = "training score", "held-out mean"


def _others(
    rows: pd.DataFrame, value: str, fact: pd.Series[Any], theme: Theme
) -> list[tuple[str, dict[str, Any]]]:
    """What is drawn beside `value`, with its settings: training scores, the held-out mean."""
    found: list[tuple[str, dict[str, Any]]] = []
    if value != "score" and rows["score"].notna().any():
        found.append(
            (_TRAINING, {"ls": "", "marker": ".", "ms": 4, "mfc": theme.quiet, "mec": theme.quiet})
        )
    if pd.notna(fact["heldout_mean"]):
        found.append((_HELDOUT, {"color": theme.ink, "lw": 1.0, "ls": (0, (2, 2))}))
    return found


def _beside(rows: pd.DataFrame, value: str, fact: pd.Series[Any]) -> list[float]:
    """Their values."""
    scores: Iterable[float] = rows["score"] if value != "score" else []
    return [float(one) for one in (*scores, fact["heldout_mean"]) if pd.notna(one)]


def _draw_others(
    panel: Axes,
    rows: pd.DataFrame,
    others: Sequence[tuple[str, dict[str, Any]]],
    fact: pd.Series[Any],
) -> None:
    settings = dict(others)
    if _TRAINING in settings:
        points = rows.dropna(subset=["score"])
        panel.plot(points["at"], points["score"], zorder=2, label=_TRAINING, **settings[_TRAINING])
    if _HELDOUT in settings:
        panel.axhline(fact["heldout_mean"], zorder=1, label=_HELDOUT, **settings[_HELDOUT])


def _draw_marks(
    panel: Axes,
    rows: pd.DataFrame,
    marks: Sequence[str],
    value: str,
    beside: Sequence[float],
    theme: Theme,
) -> None:
    known = rows[value].dropna()
    every = [*known, *beside]
    low, high = (min(every), max(every)) if every else (0.0, 1.0)
    span = (high - low) or 1.0
    floor = low - (0.14 if "failed" in marks or len(known) < len(rows) else 0.0) * span
    panel.set_ylim(floor - 0.07 * span, high + (0.12 + _TALL) * span)
    for mark in MARKS:
        found = rows[np.array(marks) == mark]
        if len(found):
            # without a result it lies at the foot
            y = found[value].fillna(floor) if mark != "failed" else [floor] * len(found)
            panel.plot(found["at"], y, ls="", ms=6, zorder=4, label=mark, **_settings(mark, theme))


def _draw_best(panel: Axes, rows: pd.DataFrame, value: str, end: float, theme: Theme) -> None:
    """Of every result there is, as new bests and curves count it: also of a Policy that failed in
    every Episode."""
    x: list[float] = []
    y: list[float] = []
    known = rows.dropna(subset=[value])
    for at, found in zip(known["at"], known[value], strict=True):
        if not y or is_above(found, y[-1]):
            x.append(at)
            y.append(found)
    if x:
        line: dict[str, Any] = {
            "color": theme.colours[1],
            "lw": 1.4,
            "drawstyle": "steps-post",
            "label": "best so far",
            "zorder": 3,
        }
        panel.plot([*x, end], [*y, y[-1]], **line)
    panel.set_xlim(0, end * 1.012)


def _draw_phases(panel: Axes, phases: pd.DataFrame, theme: Theme) -> None:
    """Bands with their kind written in them where it fits."""
    width = panel.get_xlim()[1]
    columns = ("phase", "kind", "first_unit", "last_unit")
    for number, kind, first, last in zip(*(phases[name] for name in columns), strict=True):
        band = panel.axvspan(first, last, color=theme.bands[kind], lw=0, zorder=0)
        band.set_gid(f"phase-{number}")
        band.set_label(kind)
        room = (last - first) / width
        words = [kind, kind[:5] + ".", kind[:1].upper()]
        fits = next((word for word in words if len(word) * 0.0105 + 0.01 <= room), "")
        where = panel.get_xaxis_transform()
        panel.text(
            (first + last) / 2,
            0.985,
            fits,
            transform=where,
            ha="center",
            va="top",
            color=theme.quiet,
            size="small",
        )


def _note(rows: pd.DataFrame, marks: Sequence[str], value: str, fact: pd.Series[Any]) -> str:
    judged = (
        "Validation mean, known after the Run"
        if value == "validation"
        else "training score the agent saw"
    )
    phases = rows["phase"].notna().any()
    spent = f"{rows['units_used'].iloc[-1]} of {fact['units_budget']} Episode units"
    parts = [
        f"N = {len(rows)} Submissions, {rows['edit'].sum()} of them edits, in {spent};",
        "each lies in the middle of those it cost.",
        "Bands: phases of synthesis (S) and parametric (P) edits." if phases else "",
        "Failed ones lie at the foot." if "failed" in marks else "",
        f"New best: its {judged}, is above every earlier one. One Run: no interval.",
        ""
        if fact["valid"]
        else f"The Run has no valid result ({_why(fact)}): tables leave it out.",
    ]
    return " ".join(part for part in parts if part)


def _why(fact: pd.Series[Any]) -> str:
    return str(fact["status"] if pd.isna(fact["reason"]) or not fact["reason"] else fact["reason"])
