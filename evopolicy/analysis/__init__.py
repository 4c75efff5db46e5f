"""Records -> frames -> rank scores and tables. Importing this package costs nothing: names load when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evopolicy.analysis.code import CodeMeasures, measure_code
    from evopolicy.analysis.diagnostics import DIAGNOSTIC_COLUMNS, Diagnostics, diagnose
    from evopolicy.analysis.edits import edit_counts, size_counts
    from evopolicy.analysis.frames import Frames
    from evopolicy.analysis.load import Found, find_runs, load_frames
    from evopolicy.analysis.normal_form import topology
    from evopolicy.analysis.published import published_scores
    from evopolicy.analysis.rank import rank_entries, rank_scores
    from evopolicy.analysis.render import render_csv, render_html, render_markdown, render_rich, render_text
    from evopolicy.analysis.reproduced import RandomCell, random_row, render_random_row
    from evopolicy.analysis.scores import CellScore, check_comparable
    from evopolicy.analysis.tables import EntryRank, RankTable, entry_ranks, rank_table

_HOMES = {
    "CellScore": "scores",
    "CodeMeasures": "code",
    "DIAGNOSTIC_COLUMNS": "diagnostics",
    "Diagnostics": "diagnostics",
    "EntryRank": "tables",
    "Found": "load",
    "Frames": "frames",
    "RandomCell": "reproduced",
    "RankTable": "tables",
    "check_comparable": "scores",
    "diagnose": "diagnostics",
    "edit_counts": "edits",
    "entry_ranks": "tables",
    "find_runs": "load",
    "load_frames": "load",
    "measure_code": "code",
    "published_scores": "published",
    "random_row": "reproduced",
    "rank_entries": "rank",
    "rank_scores": "rank",
    "rank_table": "tables",
    "render_csv": "render",
    "render_html": "render",
    "render_markdown": "render",
    "render_random_row": "reproduced",
    "render_rich": "render",
    "render_text": "render",
    "size_counts": "edits",
    "topology": "normal_form",
}

__all__ = [
    "DIAGNOSTIC_COLUMNS",
    "CellScore",
    "CodeMeasures",
    "Diagnostics",
    "EntryRank",
    "Found",
    "Frames",
    "RandomCell",
    "RankTable",
    "check_comparable",
    "diagnose",
    "edit_counts",
    "entry_ranks",
    "find_runs",
    "load_frames",
    "measure_code",
    "published_scores",
    "random_row",
    "rank_entries",
    "rank_scores",
    "rank_table",
    "render_csv",
    "render_html",
    "render_markdown",
    "render_random_row",
    "render_rich",
    "render_text",
    "size_counts",
    "topology",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
