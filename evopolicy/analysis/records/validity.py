"""What a Run's scores were worth on Episodes the agent never saw: gaps between the splits, and whether Validation chose
what Assessment would have. Frames in, frames out; a higher score is a better one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from evopolicy.analysis.records.columns import WHOSE, by_run, rows_of, typed_frame, whose
from evopolicy.analysis.records.frames import Column, Frames
from evopolicy.analysis.stats.ties import is_above

GAP_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("submission", "int64", "published"),
    Column("program", "string", "digest"),
    Column("selected", "bool", "whether it is what was measured on Assessment"),
    Column("training", "float64", "score as the agent saw it"),
    Column("training_episodes", "int64", ""),
    Column("validation", "float64", "mean; NaN where it was not measured in full"),
    Column("assessment", "float64", "mean; NaN where it was not measured in full"),
    Column("training_validation", "float64", "training - Validation: what was fitted to the Episodes the agent saw"),
    Column("validation_assessment", "float64", "Validation - Assessment: what was won by being chosen"),
    Column("training_assessment", "float64", "training - Assessment: both"),
)

SELECTION_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("programs", "int64", "different Programs published"),
    Column("validated", "int64", "of them, with a Validation mean"),
    Column("assessed", "int64", "of them, with an Assessment mean"),
    Column("selected_program", "string", "digest"),
    Column("selected_training", "float64", "best score of it that the agent saw"),
    Column("selected_validation", "float64", ""),
    Column("selected_assessment", "float64", ""),
    Column("best_training", "float64", "best score the agent saw in the Run"),
    Column("heldout_gap", "float64", "best_training - selected_assessment"),
    Column("validation_gap", "float64", "selected_validation - selected_assessment"),
    Column("best_program", "string", "digest of the best on Assessment; NA unless all are assessed"),
    Column("best_assessment", "float64", "its mean; NaN unless all are assessed"),
    Column("regret", "float64", "best_assessment - selected_assessment; NaN unless all are assessed"),
    Column("chose_best", "boolean", "whether regret is 0"),
    Column("validation_correlation", "float64", "Spearman's, Validation against Assessment, over Programs with both"),
    Column("training_correlation", "float64", "Spearman's, best training score against Assessment, likewise"),
)


# --- means on the private splits ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitMean:
    """A Program's mean on a private split."""

    mean: float
    episodes: int


def split_means(frames: Frames, split: Literal["validation", "assessment"]) -> dict[tuple[str, str], float]:
    """Means by (run, Program digest), of the Programs that were measured on as many Episodes as any of their Run.

    From the Episodes on disk, extra Programs of a regrade among them; where these are gone, from the record. A Program
    measured on fewer (one that racing dropped) has no mean here: on other Episodes it cannot be compared.
    """
    found = _recorded_means(frames, split)
    episodes = frames.episodes[frames.episodes.split == split].drop_duplicates(["run", "program", "index"], keep="last")
    for (run, program), scores in episodes.groupby(["run", "program"], sort=False).score:
        known = found.get((str(run), str(program)))
        if known is None or len(scores) > known.episodes:
            found[str(run), str(program)] = SplitMean(float(scores.mean()), len(scores))
    full: dict[str, int] = defaultdict(int)
    for (run, _), one in found.items():
        full[run] = max(full[run], one.episodes)
    return {key: one.mean for key, one in found.items() if one.episodes == full[key[0]]}


def _recorded_means(frames: Frames, split: str) -> dict[tuple[str, str], SplitMean]:
    if split == "validation":
        return {
            (row["run"], row["program"]): SplitMean(row["validation_mean"], row["validation_episodes"] or 0)
            for row in rows_of(frames.candidates)
            if row["validation_mean"] is not None
        }
    return {
        (row["run"], row["selected_program"]): SplitMean(row["heldout_mean"], row["heldout_episodes"])
        for row in rows_of(frames.runs)
        if row["heldout_mean"] is not None and row["selected_program"] is not None
    }


# --- overfitting and selection -----------------------------------------------------------------------------------


def score_gaps(frames: Frames) -> pd.DataFrame:
    """GAP_COLUMNS: a row for every published Submission, with its Program's means on the private splits."""
    validation, assessment = split_means(frames, "validation"), split_means(frames, "assessment")
    selected = {row["run"]: row["selected_submission"] for row in rows_of(frames.runs)}
    rows = []
    for one in rows_of(frames.submissions):
        if one["status"] == "published":
            key = one["run"], one["program"]
            t, v, a = _or_nan(one["score"]), validation.get(key, math.nan), assessment.get(key, math.nan)
            means = {"training": t, "training_episodes": one["episodes"], "validation": v, "assessment": a}
            gaps = {"training_validation": t - v, "validation_assessment": v - a, "training_assessment": t - a}
            rows.append({**one, "selected": one["submission"] == selected.get(one["run"]), **means, **gaps})
    return typed_frame(GAP_COLUMNS, rows)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def selection_validity(gaps: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """SELECTION_COLUMNS: a row a Run with published Submissions.

    Args:
        gaps: of `score_gaps`.
        runs: of Frames.
    """
    selected = {row["run"]: row for row in rows_of(runs)}
    return typed_frame(
        SELECTION_COLUMNS,
        [
            {**whose(rows[0]), **_validity(rows, selected[run]["selected_program"])}
            for run, rows in by_run(gaps).items()
        ],
    )


def _validity(rows: Sequence[Mapping[str, Any]], selected: str | None) -> dict[str, Any]:
    programs: dict[str, tuple[float, float, float]] = {}
    for row in rows:
        known = programs.get(row["program"], (-math.inf,))[0]
        seen = known if row["training"] is None else max(known, row["training"])
        programs[row["program"]] = seen, _or_nan(row["validation"]), _or_nan(row["assessment"])
    training, validation, assessment = zip(*programs.values(), strict=True)
    own = programs.get(selected or "", (math.nan,) * 3)
    top = max(training)
    found: dict[str, Any] = {
        "programs": len(programs),
        "validated": sum(not math.isnan(value) for value in validation),
        "assessed": sum(not math.isnan(value) for value in assessment),
        "selected_program": selected,
        **dict(zip(("selected_training", "selected_validation", "selected_assessment"), own, strict=True)),
        "best_training": top,
        "heldout_gap": top - own[2],
        "validation_gap": own[1] - own[2],
        "validation_correlation": spearman(validation, assessment),
        "training_correlation": spearman(training, assessment),
    }
    if found["assessed"] == len(programs) and not math.isnan(own[2]):
        best = max(programs, key=lambda digest: programs[digest][2])
        regret = programs[best][2] - own[2]
        found.update(
            best_program=best,
            best_assessment=programs[best][2],
            regret=regret,
            chose_best=not is_above(programs[best][2], own[2]),
        )
    return found


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation over the pairs without NaN, ties sharing their mean rank; NaN under three pairs or
    where one side is constant."""
    pairs = pd.DataFrame({"first": first, "second": second}, dtype=float).dropna().rank()
    if len(pairs) < 3 or pairs.nunique().min() < 2:
        return math.nan
    return float(pairs["first"].corr(pairs["second"]))
