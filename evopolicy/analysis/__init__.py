"""Records -> frames -> rank scores and tables. Importing this package costs nothing: names load when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evopolicy.analysis.code import CodeMeasures, measure_code
    from evopolicy.analysis.diagnostics import DIAGNOSTIC_COLUMNS, Diagnostics, diagnose
    from evopolicy.analysis.differences import EntryDifference, entry_differences, run_keys
    from evopolicy.analysis.edits import edit_counts, size_counts
    from evopolicy.analysis.figures.config import FigureConfig, draw_figure, figure_config
    from evopolicy.analysis.figures.curves import best_so_far_figure
    from evopolicy.analysis.figures.demand import demand_figure
    from evopolicy.analysis.figures.differences import difference_figure
    from evopolicy.analysis.figures.edits import edit_size_figure
    from evopolicy.analysis.figures.scores import profile_figure, rank_figure
    from evopolicy.analysis.figures.splits import splits_figure
    from evopolicy.analysis.figures.style import note_of, save_figure, svg_text
    from evopolicy.analysis.figures.timeline import timeline_figure
    from evopolicy.analysis.figures.usage import usage_figure
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
        paired_interval,
        summarize,
    )
    from evopolicy.analysis.load import Found, find_runs, load_frames
    from evopolicy.analysis.normal_form import topology
    from evopolicy.analysis.paper_tables import draw_table, paper_table
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
    from evopolicy.analysis.table_config import TableConfig
    from evopolicy.analysis.tables import EntryRank, RankTable, entry_ranks, rank_table

_HOMES = {
    "CellScore": "scores",
    "CodeMeasures": "code",
    "Comparison": "intervals",
    "DIAGNOSTIC_COLUMNS": "diagnostics",
    "Diagnostics": "diagnostics",
    "Difference": "intervals",
    "EntryDifference": "differences",
    "EntryRank": "tables",
    "FigureConfig": "figures.config",
    "Found": "load",
    "Frames": "frames",
    "Interval": "intervals",
    "ProfileBand": "resampling",
    "RandomCell": "reproduced",
    "RankTable": "tables",
    "Summary": "intervals",
    "TableConfig": "table_config",
    "aggregate_difference_interval": "intervals",
    "aggregate_interval": "resampling",
    "aggregate_mean_interval": "intervals",
    "best_so_far_figure": "figures.curves",
    "check_comparable": "scores",
    "compare": "intervals",
    "demand_figure": "figures.demand",
    "diagnose": "diagnostics",
    "difference_figure": "figures.differences",
    "difference_interval": "intervals",
    "draw_figure": "figures.config",
    "draw_table": "paper_tables",
    "edit_counts": "edits",
    "edit_size_figure": "figures.edits",
    "entry_differences": "differences",
    "entry_ranks": "tables",
    "few_runs_foot": "intervals",
    "figure_config": "figures.config",
    "find_runs": "load",
    "holm": "statistics",
    "improvement_interval": "resampling",
    "iqm": "statistics",
    "load_frames": "load",
    "mean_interval": "intervals",
    "measure_code": "code",
    "normalize": "statistics",
    "note_of": "figures.style",
    "paired_interval": "intervals",
    "paper_table": "paper_tables",
    "performance_profile": "statistics",
    "probability_of_improvement": "statistics",
    "profile_band": "resampling",
    "profile_figure": "figures.scores",
    "published_scores": "published",
    "random_row": "reproduced",
    "rank_entries": "rank",
    "rank_figure": "figures.scores",
    "rank_score_intervals": "resampling",
    "rank_scores": "rank",
    "rank_table": "tables",
    "render_csv": "render",
    "render_html": "render",
    "render_markdown": "render",
    "render_random_row": "reproduced",
    "render_rich": "render",
    "render_text": "render",
    "run_keys": "differences",
    "save_figure": "figures.style",
    "size_counts": "edits",
    "splits_figure": "figures.splits",
    "summarize": "intervals",
    "svg_text": "figures.style",
    "timeline_figure": "figures.timeline",
    "topology": "normal_form",
    "usage_figure": "figures.usage",
    "wilson": "statistics",
}

__all__ = [
    "DIAGNOSTIC_COLUMNS",
    "CellScore",
    "CodeMeasures",
    "Comparison",
    "Diagnostics",
    "Difference",
    "EntryDifference",
    "EntryRank",
    "FigureConfig",
    "Found",
    "Frames",
    "Interval",
    "ProfileBand",
    "RandomCell",
    "RankTable",
    "Summary",
    "TableConfig",
    "aggregate_difference_interval",
    "aggregate_interval",
    "aggregate_mean_interval",
    "best_so_far_figure",
    "check_comparable",
    "compare",
    "demand_figure",
    "diagnose",
    "difference_figure",
    "difference_interval",
    "draw_figure",
    "draw_table",
    "edit_counts",
    "edit_size_figure",
    "entry_differences",
    "entry_ranks",
    "few_runs_foot",
    "figure_config",
    "find_runs",
    "holm",
    "improvement_interval",
    "iqm",
    "load_frames",
    "mean_interval",
    "measure_code",
    "normalize",
    "note_of",
    "paired_interval",
    "paper_table",
    "performance_profile",
    "probability_of_improvement",
    "profile_band",
    "profile_figure",
    "published_scores",
    "random_row",
    "rank_entries",
    "rank_figure",
    "rank_score_intervals",
    "rank_scores",
    "rank_table",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_random_row",
    "render_rich",
    "render_text",
    "run_keys",
    "save_figure",
    "size_counts",
    "splits_figure",
    "summarize",
    "svg_text",
    "timeline_figure",
    "topology",
    "usage_figure",
    "wilson",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
