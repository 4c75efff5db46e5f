"""Trajectory diagnostics of any number of Runs, all at once. `docs/diagnostics.md` defines every
word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from evopolicy.analysis.programs.code import CODE_COLUMNS, code_frame
from evopolicy.analysis.programs.edits import EDIT_COLUMNS, PHASE_COLUMNS, edit_frame, phase_frame
from evopolicy.analysis.records.columns import typed_frame
from evopolicy.analysis.records.frames import Column, Frames
from evopolicy.analysis.records.trajectory import (
    AREA_COLUMNS,
    CURVE_COLUMNS,
    REACH_COLUMNS,
    SPENDING_COLUMNS,
    Axis,
    References,
    Value,
    curve_areas,
    curve_points,
    curve_reach,
    spending,
)
from evopolicy.analysis.records.validity import (
    GAP_COLUMNS,
    SELECTION_COLUMNS,
    score_gaps,
    selection_validity,
)

DIAGNOSTIC_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "edits": EDIT_COLUMNS,
    "phases": PHASE_COLUMNS,
    "curves": CURVE_COLUMNS,
    "areas": AREA_COLUMNS,
    "reach": REACH_COLUMNS,
    "spending": SPENDING_COLUMNS,
    "gaps": GAP_COLUMNS,
    "selection": SELECTION_COLUMNS,
    "code": CODE_COLUMNS,
}
"""The columns of every frame, in order."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics as frames; `DIAGNOSTIC_COLUMNS` documents their columns."""

    edits: pd.DataFrame
    """One row a Submission: what it was, its size, whether it gave a new best."""
    phases: pd.DataFrame
    """One row a phase."""
    curves: pd.DataFrame
    """One row a Submission that ended: best so far by training score and by Validation."""
    areas: pd.DataFrame
    """One row a Run, axis and value."""
    reach: pd.DataFrame
    """One row a Run, axis, value and fraction."""
    spending: pd.DataFrame
    """One row a Submission: what its Episodes were spent on."""
    gaps: pd.DataFrame
    """One row a published Submission: its means on the three splits."""
    selection: pd.DataFrame
    """One row a Run: whether Validation chose what Assessment would have."""
    code: pd.DataFrame
    """One row a Submission, and one for the beginning: measures of its code and their change."""


def diagnose(
    frames: Frames,
    *,
    references: References | None = None,
    usage: pd.DataFrame | None = None,
    axes: Sequence[Axis] = ("units",),
    values: Sequence[Value] = ("validation", "score"),
    fractions: Sequence[float] = (0.5, 0.8, 0.95),
    data_edits: bool = False,
) -> Diagnostics:
    """Every diagnostic of the Runs in `frames`; what needs a part that was not loaded is NA, not an
    error.

    Args:
        references: by Benchmark, the scores that count as 0 and as 1; else see
        `trajectory.own_references`. usage: what each Run had used up to each Submission; see
        `trajectory.curve_points`. axes: what `areas` and `reach` are over. values: which best so
        far they are of: by Validation, by training score. fractions: of the way from 0 to 1, for
        `reach`. data_edits: whether another Program with the same source is a parametric edit; see
        `edits.edit_kinds`.
    """
    edits = edit_frame(frames, data_edits=data_edits)
    curves = curve_points(frames, usage)
    gaps = score_gaps(frames)
    pairs = [(axis, value) for axis in axes for value in values]
    return Diagnostics(
        edits=edits,
        phases=phase_frame(edits),
        curves=curves,
        areas=_joined(
            AREA_COLUMNS, [curve_areas(curves, axis, value, references) for axis, value in pairs]
        ),
        reach=_joined(
            REACH_COLUMNS,
            [curve_reach(curves, axis, value, references, fractions) for axis, value in pairs],
        ),
        spending=spending(frames),
        gaps=gaps,
        selection=selection_validity(gaps, frames.runs),
        code=code_frame(frames),
    )


def _joined(columns: Sequence[Column], parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True) if parts else typed_frame(columns, [])
