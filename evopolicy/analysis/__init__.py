"""Records -> frames -> rank scores and tables. Importing this package costs nothing: names load when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from evopolicy.analysis.paper.published import published_scores
    from evopolicy.analysis.programs.code import CodeMeasures, measure_code
    from evopolicy.analysis.programs.diagnostics import DIAGNOSTIC_COLUMNS, Diagnostics, diagnose
    from evopolicy.analysis.programs.edits import edit_counts, size_counts
    from evopolicy.analysis.programs.normal_form import topology
    from evopolicy.analysis.records.frames import Frames
    from evopolicy.analysis.records.load import Found, find_runs, load_frames
    from evopolicy.analysis.records.scores import CellScore, check_comparable
    from evopolicy.analysis.stats.differences import EntryDifference, entry_differences, run_keys
    from evopolicy.analysis.stats.intervals import (
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
    from evopolicy.analysis.stats.rank import rank_entries, rank_scores
    from evopolicy.analysis.stats.resampling import (
        ProfileBand,
        aggregate_interval,
        improvement_interval,
        profile_band,
        rank_score_intervals,
    )
    from evopolicy.analysis.stats.statistics import (
        holm,
        iqm,
        normalize,
        performance_profile,
        probability_of_improvement,
        wilson,
    )
    from evopolicy.analysis.tables.config import TableConfig
    from evopolicy.analysis.tables.paper_tables import paper_table
    from evopolicy.analysis.tables.rank_columns import present_ranks
    from evopolicy.analysis.tables.ranks import EntryRank, RankTable, entry_ranks, rank_table
    from evopolicy.analysis.tables.reproduced import RandomCell, random_row, random_table

_HOMES = {
    "CellScore": "records.scores",
    "CodeMeasures": "programs.code",
    "Comparison": "stats.intervals",
    "DIAGNOSTIC_COLUMNS": "programs.diagnostics",
    "Diagnostics": "programs.diagnostics",
    "Difference": "stats.intervals",
    "EntryDifference": "stats.differences",
    "EntryRank": "tables.ranks",
    "FigureConfig": "figures.config",
    "Found": "records.load",
    "Frames": "records.frames",
    "Interval": "stats.intervals",
    "ProfileBand": "stats.resampling",
    "RandomCell": "tables.reproduced",
    "RankTable": "tables.ranks",
    "Summary": "stats.intervals",
    "TableConfig": "tables.config",
    "aggregate_difference_interval": "stats.intervals",
    "aggregate_interval": "stats.resampling",
    "aggregate_mean_interval": "stats.intervals",
    "best_so_far_figure": "figures.curves",
    "check_comparable": "records.scores",
    "compare": "stats.intervals",
    "demand_figure": "figures.demand",
    "diagnose": "programs.diagnostics",
    "difference_figure": "figures.differences",
    "difference_interval": "stats.intervals",
    "draw_figure": "figures.config",
    "edit_counts": "programs.edits",
    "edit_size_figure": "figures.edits",
    "entry_differences": "stats.differences",
    "entry_ranks": "tables.ranks",
    "few_runs_foot": "stats.intervals",
    "figure_config": "figures.config",
    "find_runs": "records.load",
    "holm": "stats.statistics",
    "improvement_interval": "stats.resampling",
    "iqm": "stats.statistics",
    "load_frames": "records.load",
    "mean_interval": "stats.intervals",
    "measure_code": "programs.code",
    "normalize": "stats.statistics",
    "note_of": "figures.style",
    "paired_interval": "stats.intervals",
    "paper_table": "tables.paper_tables",
    "performance_profile": "stats.statistics",
    "present_ranks": "tables.rank_columns",
    "probability_of_improvement": "stats.statistics",
    "profile_band": "stats.resampling",
    "profile_figure": "figures.scores",
    "published_scores": "paper.published",
    "random_row": "tables.reproduced",
    "random_table": "tables.reproduced",
    "rank_entries": "stats.rank",
    "rank_figure": "figures.scores",
    "rank_score_intervals": "stats.resampling",
    "rank_scores": "stats.rank",
    "rank_table": "tables.ranks",
    "run_keys": "stats.differences",
    "save_figure": "figures.style",
    "size_counts": "programs.edits",
    "splits_figure": "figures.splits",
    "summarize": "stats.intervals",
    "svg_text": "figures.style",
    "timeline_figure": "figures.timeline",
    "topology": "programs.normal_form",
    "usage_figure": "figures.usage",
    "wilson": "stats.statistics",
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
    "present_ranks",
    "probability_of_improvement",
    "profile_band",
    "profile_figure",
    "published_scores",
    "random_row",
    "random_table",
    "rank_entries",
    "rank_figure",
    "rank_score_intervals",
    "rank_scores",
    "rank_table",
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
