"""Records -> frames -> rank scores and tables. Importing this package costs nothing: names load when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evopolicy.analysis.code import CodeMeasures, measure_code
    from evopolicy.analysis.diagnostics import DIAGNOSTIC_COLUMNS, Diagnostics, diagnose
    from evopolicy.analysis.edits import edit_counts, size_counts
    from evopolicy.analysis.frames import Frames
    from evopolicy.analysis.intervals import (
        Comparison,
        Difference,
        Interval,
        Summary,
        aggregate_difference_interval,
        aggregate_mean_interval,
        compare,
        difference_interval,
        few_runs_foot,
        mean_interval,
        summarize,
    )
    from evopolicy.analysis.load import Found, find_runs, load_frames
    from evopolicy.analysis.normal_form import topology
    from evopolicy.analysis.published import published_scores
    from evopolicy.analysis.rank import rank_entries, rank_scores
    from evopolicy.analysis.render import render_csv, render_html, render_markdown, render_rich, render_text
    from evopolicy.analysis.reproduced import RandomCell, random_row, render_random_row
    from evopolicy.analysis.resampling import (
        ProfileBand,
        aggregate_interval,
        improvement_interval,
        profile_band,
        rank_score_intervals,
    )
    from evopolicy.analysis.scores import CellScore, check_comparable
    from evopolicy.analysis.statistics import (
        holm,
        iqm,
        normalize,
        performance_profile,
        probability_of_improvement,
        wilson,
    )
    from evopolicy.analysis.tables import EntryRank, RankTable, entry_ranks, rank_table

_HOMES = {
    "CellScore": "scores",
    "CodeMeasures": "code",
    "Comparison": "intervals",
    "DIAGNOSTIC_COLUMNS": "diagnostics",
    "Diagnostics": "diagnostics",
    "Difference": "intervals",
    "EntryRank": "tables",
    "Found": "load",
    "Frames": "frames",
    "Interval": "intervals",
    "ProfileBand": "resampling",
    "RandomCell": "reproduced",
    "RankTable": "tables",
    "Summary": "intervals",
    "aggregate_difference_interval": "intervals",
    "aggregate_interval": "resampling",
    "aggregate_mean_interval": "intervals",
    "check_comparable": "scores",
    "compare": "intervals",
    "diagnose": "diagnostics",
    "difference_interval": "intervals",
    "edit_counts": "edits",
    "entry_ranks": "tables",
    "few_runs_foot": "intervals",
    "find_runs": "load",
    "holm": "statistics",
    "improvement_interval": "resampling",
    "iqm": "statistics",
    "load_frames": "load",
    "mean_interval": "intervals",
    "measure_code": "code",
    "normalize": "statistics",
    "performance_profile": "statistics",
    "probability_of_improvement": "statistics",
    "profile_band": "resampling",
    "published_scores": "published",
    "random_row": "reproduced",
    "rank_entries": "rank",
    "rank_score_intervals": "resampling",
    "rank_scores": "rank",
    "rank_table": "tables",
    "render_csv": "render",
    "render_html": "render",
    "render_markdown": "render",
    "render_random_row": "reproduced",
    "render_rich": "render",
    "render_text": "render",
    "size_counts": "edits",
    "summarize": "intervals",
    "topology": "normal_form",
    "wilson": "statistics",
}

__all__ = [
    "DIAGNOSTIC_COLUMNS",
    "CellScore",
    "CodeMeasures",
    "Comparison",
    "Diagnostics",
    "Difference",
    "EntryRank",
    "Found",
    "Frames",
    "Interval",
    "ProfileBand",
    "RandomCell",
    "RankTable",
    "Summary",
    "aggregate_difference_interval",
    "aggregate_interval",
    "aggregate_mean_interval",
    "check_comparable",
    "compare",
    "diagnose",
    "difference_interval",
    "edit_counts",
    "entry_ranks",
    "few_runs_foot",
    "find_runs",
    "holm",
    "improvement_interval",
    "iqm",
    "load_frames",
    "mean_interval",
    "measure_code",
    "normalize",
    "performance_profile",
    "probability_of_improvement",
    "profile_band",
    "published_scores",
    "random_row",
    "rank_entries",
    "rank_score_intervals",
    "rank_scores",
    "rank_table",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_random_row",
    "render_rich",
    "render_text",
    "size_counts",
    "summarize",
    "topology",
    "wilson",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
