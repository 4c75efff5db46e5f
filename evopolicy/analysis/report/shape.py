"""What a report shows, read and bounded: plain values, no HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from evopolicy.analysis.records.load import Unreadable
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.report.shown import Changes, FeedbackFiles
from evopolicy.analysis.tables.ranks import RankTable
from evopolicy.kernel.ports.outcome import Graded
from evopolicy.kernel.ports.transcript import Step
from evopolicy.kernel.session.record import Run


@dataclass(frozen=True)
class Limits:
    """How much of a Run is embedded; whatever exceeds it is counted in the report."""

    submissions: int = 200
    """Submissions with a section of their own."""
    picture_bytes: int = 1_500_000
    """Of one replay."""
    pictures_bytes: int = 16_000_000
    """Of all replays of the report."""
    episodes: int = 64
    """Rows in a table of Episodes."""
    diff_lines: int = 600
    steps: int = 300
    """Of the transcript, per Submission."""
    text: int = 6_000
    """Characters of a message, a tool's arguments, its result, a Policy's output."""
    transcript: int = 3_000_000
    """Characters of all transcripts of the report."""
    runs: int = 200
    """Runs of a sweep with a section of their own."""


@dataclass(frozen=True)
class Figure:
    """A drawing that was made elsewhere."""

    title: str
    text: str
    """What it shows, for who cannot see it."""
    svg: bytes = b""
    dark: bytes = b""
    """For readers of dark pages; b'' where there is none."""
    problem: str = ""
    """Why there is none."""


@dataclass(frozen=True)
class SubmissionPart:
    """One Submission with all that belongs to it."""

    row: Mapping[str, Any]
    """Of `edits.edit_frame`, joined with its row of the frame `submissions`."""
    feedback: FeedbackFiles
    changes: Changes
    against: str
    """What the diff is against, in words."""
    steps: tuple[Step, ...]
    """Of the transcript, from the Submission before to this one."""


@dataclass(frozen=True)
class RunPart:
    """A Run with all that belongs to it."""

    run: Run
    entry: str
    """Its name in the comparison: in a sweep the sweep's own, for a reused Run may be of
    another."""
    status: str
    reason: str
    submissions: tuple[SubmissionPart, ...]
    rows: Sequence[Mapping[str, Any]]
    """As SubmissionPart.row, of all Submissions."""
    phases: Sequence[Mapping[str, Any]]
    """Of `edits.phase_frame`."""
    candidates: Sequence[Mapping[str, Any]]
    """Of the frame `candidates`."""
    usage: pd.DataFrame
    """The frame `usage`."""
    heldout: tuple[Graded, ...]
    """Held-out Episodes of the selected Program."""
    after: tuple[Step, ...] = ()
    """Steps of the transcript after the last Submission."""
    notes: tuple[str, ...] = ()
    """What could not be read, and how the agent's attempts ended."""
    final: Changes = field(default_factory=Changes)
    """From the initial Program to the selected one."""
    timeline: Figure | None = None
    """Its scores over Episode units; None where no Submission has one."""
    episodes: Figure | None = None
    """Its held-out Episodes; None where none are there."""


@dataclass(frozen=True)
class SweepPart:
    """Several Runs, compared."""

    title: str
    table: RankTable | None
    refusal: str
    """Why there is no rank table."""
    cells: Sequence[CellScore]
    runs: Sequence[RunPart]
    unreadable: Sequence[Unreadable] = ()
    figures: Sequence[Figure] = ()
