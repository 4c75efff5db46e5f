"""What a Run's scores were worth on Episodes the agent never saw: gaps between the splits, and
whether Validation chose what Assessment would have. Frames in, frames out; a higher score is a
better one."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from evopolicy.analysis.records.columns import WHOSE, WHOSE_NAMES, typed
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
    Column(
        "training_validation",
        "float64",
        "training - Validation: what was fitted to the Episodes the agent saw",
    ),
    Column(
        "validation_assessment", "float64", "Validation - Assessment: what was won by being chosen"
    ),
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
    Column(
        "best_program", "string", "digest of the best on Assessment; NA unless all are assessed"
    ),
    Column("best_assessment", "float64", "its mean; NaN unless all are assessed"),
    Column(
        "regret", "float64", "best_assessment - selected_assessment; NaN unless all are assessed"
    ),
    Column("chose_best", "boolean", "whether regret is 0"),
    Column(
        "validation_correlation",
        "float64",
        "Spearman's, Validation against Assessment, over Programs with both",
    ),
    Column(
        "training_correlation",
        "float64",
        "Spearman's, best training score against Assessment, likewise",
    ),
)


# --- means on the private splits ------------------------------------------------------------------


def split_means(frames: Frames, split: Literal["validation", "assessment"]) -> pd.Series[float]:
    """Means by run and Program digest, of the Programs that were measured on as many Episodes as
    any of their Run.

    From the Episodes on disk, extra Programs of a regrade among them; where these are gone, from
    the record. A Program measured on fewer (one that racing dropped) has no mean here: on other
    Episodes it cannot be compared."""
    key = ["run", "program"]
    columns = (
        {"program": "program", "validation_mean": split, "validation_episodes": "episodes"}
        if split == "validation"
        else {"selected_program": "program", "heldout_mean": split, "heldout_episodes": "episodes"}
    )
    recorded = (frames.candidates if split == "validation" else frames.runs)[
        ["run", *columns]
    ].rename(columns=columns)
    recorded = recorded.dropna(subset=["program", split]).fillna({"episodes": 0})
    episodes = frames.episodes[frames.episodes["split"] == split].drop_duplicates(
        [*key, "index"], keep="last"
    )
    measured = episodes.groupby(key)["score"].agg(["mean", "size"]).reset_index()
    measured = measured.rename(columns={"mean": split, "size": "episodes"})
    # of as many Episodes the record's, which comes last
    found = (
        pd.concat([measured, recorded])
        .sort_values("episodes", kind="stable")
        .drop_duplicates(key, keep="last")
    )
    full = found[found["episodes"] == found.groupby("run")["episodes"].transform("max")]
    return full.set_index(key)[split].astype(float)


# --- overfitting and selection --------------------------------------------------------------------


def score_gaps(frames: Frames) -> pd.DataFrame:
    """GAP_COLUMNS: a row for every published Submission, with its Program's means on the private
    splits."""
    gaps = frames.submissions[frames.submissions["status"] == "published"]
    gaps = gaps.rename(columns={"score": "training", "episodes": "training_episodes"})
    for split in ("validation", "assessment"):
        gaps = gaps.join(split_means(frames, split), on=["run", "program"])
    gaps = gaps.merge(frames.runs[["run", "selected_submission"]], on="run", how="left")
    return typed(
        GAP_COLUMNS,
        gaps.assign(
            selected=(gaps["submission"] == gaps["selected_submission"]).fillna(False),
            training_validation=gaps["training"] - gaps["validation"],
            validation_assessment=gaps["validation"] - gaps["assessment"],
            training_assessment=gaps["training"] - gaps["assessment"],
        ),
    )


def selection_validity(gaps: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """SELECTION_COLUMNS: a row a Run with published Submissions.

    Args:
        gaps: of `score_gaps`.
        runs: of Frames.
    """
    means = {"training": "max", "validation": "last", "assessment": "last"}
    programs = gaps.groupby([*WHOSE_NAMES, "program"], sort=False).agg(means).reset_index()
    by_run = programs.groupby("run", sort=False)
    own = runs[["run", "selected_program"]].merge(
        programs, how="left", left_on=["run", "selected_program"], right_on=["run", "program"]
    )
    best = programs.sort_values("assessment", ascending=False, kind="stable").drop_duplicates("run")
    found = (
        by_run.agg(
            programs=("program", "size"),
            validated=("validation", "count"),
            assessed=("assessment", "count"),
            best_training=("training", "max"),
        )
        .join(programs.drop_duplicates("run").set_index("run")[WHOSE_NAMES[1:]])
        .join(
            own.set_index("run")[["selected_program", *means]].rename(columns="selected_{}".format)
        )
        .join(best.set_index("run")[["program", "assessment"]].rename(columns="best_{}".format))
        .rename(columns={"selected_selected_program": "selected_program"})
        .reset_index()
    )
    for split in ("validation", "training"):
        rank = {run: spearman(of[split], of["assessment"]) for run, of in by_run}
        found[f"{split}_correlation"] = found["run"].map(rank)
    known = (found["assessed"] == found["programs"]) & found["selected_assessment"].notna()
    chose = ~is_above(found["best_assessment"], found["selected_assessment"])
    found = found.assign(
        heldout_gap=found["best_training"] - found["selected_assessment"],
        validation_gap=found["selected_validation"] - found["selected_assessment"],
        regret=found["best_assessment"] - found["selected_assessment"],
        chose_best=pd.array(chose, dtype="boolean"),
    )
    judged = ["best_program", "best_assessment", "regret", "chose_best"]
    found[judged] = found[judged].where(known)
    return typed(SELECTION_COLUMNS, found)


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's rank correlation over the pairs without NaN, ties sharing their mean rank; NaN
    under three pairs or where one side is constant."""
    from scipy.stats import (
        spearmanr,
    )  # here, since it takes longer to import than all else that frames need

    pairs = np.array([first, second], dtype=float)
    pairs = pairs[:, ~np.isnan(pairs).any(axis=0)]
    if pairs.shape[1] < 3 or (pairs.min(axis=1) == pairs.max(axis=1)).any():
        return math.nan
    return float(spearmanr(*pairs).statistic)
