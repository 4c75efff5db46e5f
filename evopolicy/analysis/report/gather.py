"""Reads what a report shows of Runs, within its limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from evopolicy.analysis.programs.edits import edit_frame, phase_frame
from evopolicy.analysis.records.columns import plain_rows
from evopolicy.analysis.records.load import Found, load_frames, read_episodes
from evopolicy.analysis.records.scores import cell_scores, mixed_names, planned_cell, run_status
from evopolicy.analysis.report.plots import draw_episodes, draw_timeline
from evopolicy.analysis.report.shape import Figure, Limits, RunPart, SubmissionPart, SweepPart
from evopolicy.analysis.report.shown import (
    FeedbackFiles,
    Transcripts,
    read_changes,
    read_feedback,
    read_transcripts,
)
from evopolicy.analysis.tables.ranks import rank_table
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.ports.outcome import Graded
from evopolicy.kernel.ports.transcript import Step
from evopolicy.kernel.session.record import Run

LIMITS = Limits()
IN_SWEEP = replace(LIMITS, submissions=0, episodes=0, diff_lines=120)
"""Of a Run in a sweep's report: what is left out is in the Run's own."""


def gather_run(run: Run, found: Found, limits: Limits = LIMITS) -> RunPart:
    """The Run with everything a report of its own shows; `found` says what a sweep planned of
    it."""
    part = _outline(run, found)
    shown = part.rows[: limits.submissions]
    feedback = _feedback(run, shown, limits)
    transcripts = read_transcripts(run)
    steps, after = split_steps(transcripts, [row["submission"] for row in shown])
    submissions = []
    before, against = run.record.initial_program, "the initial Program"
    for row in shown:
        number, program = row["submission"], row["program"]
        changes = read_changes(run, before, program)
        submissions.append(
            SubmissionPart(row, feedback[number], changes, against, steps.get(number, ()))
        )
        before, against = program, f"Submission {number}"
    return replace(
        part, submissions=tuple(submissions), after=after, notes=(*part.notes, *_ends(transcripts))
    )


def gather_sweep(
    found: Found,
    title: str,
    *,
    allow: Collection[str] = (),
    figures: Sequence[Figure] = (),
    limits: Limits = IN_SWEEP,
) -> SweepPart:
    """Several Runs with their comparison and an outline of each."""
    cells = cell_scores(found)
    names = mixed_names(cells)  # as the table calls them
    cells = [replace(cell, entry=names.get(cell.entry, cell.entry)) for cell in cells]
    table, refusal = None, ""
    try:
        table = rank_table(found, allow=allow)
    except RecordError as error:
        refusal = str(error)
    runs = []
    for number, run in enumerate(found):
        part = _outline(run, found, draw=number < limits.runs)
        part = replace(part, entry=names.get(part.entry, part.entry))
        selected = run.result.selected
        if selected is not None and number < limits.runs:
            part = replace(part, final=read_changes(run, run.record.initial_program, selected))
        runs.append(part)
    return SweepPart(title, table, refusal, cells, runs, found.unreadable, figures)


def _outline(run: Run, found: Found, draw: bool = True) -> RunPart:
    """What fits into a table or two of the Run."""
    cell = planned_cell(run, found.cells)
    status, reason = run_status(run, cell)
    frames = load_frames(Found((run,)))
    edits = edit_frame(frames, data_edits=True)  # as the diffs beside it, which show every file
    told = edits[["submission", *edits.columns.difference(frames.submissions.columns)]]
    rows = plain_rows(frames.submissions.merge(told, on="submission", how="left"))
    graded, measured = _heldout(run), run.result.assessment
    scored = any(row["score"] is not None for row in rows)
    notes = tuple(frames.gaps["reason"].replace("", pd.NA).dropna())
    return RunPart(
        run, cell.entry if cell else run.record.entry, status, reason, (), rows, plain_rows(phase_frame(edits)),
        plain_rows(frames.candidates), frames.usage, graded, notes=notes,
        timeline=draw_timeline(frames, edits) if draw and scored else None,
        episodes=draw_episodes(graded, measured) if draw and graded and measured else None,
    )  # fmt: skip


def _heldout(run: Run) -> tuple[Graded, ...]:
    if run.result.assessment is None:
        return ()
    files, _ = read_episodes(run)
    chosen = (
        file for file in files if file.split == "assessment" and file.program == run.result.selected
    )
    return next((file.graded for file in chosen), ())


# --- Feedback -------------------------------------------------------------------------------------


def _feedback(
    run: Run, rows: Sequence[Mapping[str, Any]], limits: Limits
) -> dict[int, FeedbackFiles]:
    """By Submission. Pictures are given room to what was selected first, then to new bests, then by
    score."""
    found: dict[int, FeedbackFiles] = {}
    left = limits.pictures_bytes
    for row in sorted(
        rows, key=lambda row: _worth(row, run.result.selected_submission), reverse=True
    ):
        number = row["submission"]
        if row["status"] != "published":
            found[number] = FeedbackFiles({}, problem=row["reason"] or f"it is {row['status']}")
            continue
        files = read_feedback(run, number, min(limits.picture_bytes, left))
        files, used = _within(files, left)
        found[number] = files
        left -= used
    return found


def _worth(row: Mapping[str, Any], selected: int | None) -> tuple[bool, bool, float, int]:
    best = bool(row.get("new_best") or row.get("new_best_training"))
    score = row["score"]
    return (
        row["submission"] == selected,
        best,
        float("-inf") if score is None else score,
        row["submission"],
    )


def _within(files: FeedbackFiles, room: int) -> tuple[FeedbackFiles, int]:
    """The Feedback with the pictures that fit into `room`, stills before what moves; and the bytes
    they take."""
    used, kept = 0, set[str]()
    for artifact in sorted(files.artifacts, key=lambda one: one.media_type, reverse=True):
        if artifact.picture is not None and used + artifact.size <= room:
            used += artifact.size
            kept.add(artifact.name)
    artifacts = tuple(
        one if one.name in kept else replace(one, picture=None) for one in files.artifacts
    )
    return replace(files, artifacts=artifacts), used


# --- transcript -----------------------------------------------------------------------------------


def split_steps(
    transcripts: Transcripts, submissions: Iterable[int]
) -> tuple[dict[int, tuple[Step, ...]], tuple[Step, ...]]:
    """The steps that led to each Submission, and those after the last one that the transcript
    names."""
    steps = [step for attempt in transcripts.attempts for step in attempt.steps]
    ends = {
        step.submission: place for place, step in enumerate(steps) if step.submission is not None
    }
    found: dict[int, tuple[Step, ...]] = {}
    start = 0
    for number in submissions:
        end = ends.get(number, -1) + 1
        if end > start:
            found[number] = tuple(steps[start:end])
            start = end
    return found, tuple(steps[start:])


def _ends(transcripts: Transcripts) -> list[str]:
    """Words for attempts that went wrong, and for what of them cannot be read."""
    found = [transcripts.problem] if transcripts.problem else []
    for number, attempt in enumerate(transcripts.attempts, start=1):
        if attempt.error:
            found.append(f"Attempt {number} of the agent: {attempt.error}")
        if attempt.malformed_lines:
            found.append(
                f"Attempt {number}: {attempt.malformed_lines:,} lines of its stream cannot be read."
            )
        if attempt.unknown_events:
            found.append(
                f"Attempt {number}: {sum(attempt.unknown_events.values()):,} events of its stream "
                "are unknown."
            )
    return found
