"""From a table's config and a person's frames to its sheet, and from there to text in any format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from evopolicy.analysis.tables.config import Format, Kind, TableConfig

if TYPE_CHECKING:
    from evopolicy.analysis.records.frames import Frames
    from evopolicy.analysis.tables.sheet import Sheet
    from evopolicy.analysis.tables.source import Material


def paper_table(config: TableConfig, frames: Frames | None = None, *, name: str = "table") -> Sheet:
    """The table `config` describes, of the Runs in `frames` (None: published rows alone).

    Raises ConfigError for an entry, Benchmark or anchor there is not and where there is nothing to show; RecordError
    where cells are missing or conditions differ and neither was asked for.
    """
    from evopolicy.analysis.tables.sheet import mark_kinds
    from evopolicy.analysis.tables.source import gather

    return mark_kinds(_builders()[config.kind](gather(config, frames), name))


def _builders() -> Mapping[Kind, Callable[[Material, str], Sheet]]:
    from evopolicy.analysis.tables import differences as table_differences
    from evopolicy.analysis.tables import edits as table_edits
    from evopolicy.analysis.tables import runs as table_runs
    from evopolicy.analysis.tables import scores as table_scores

    return {
        "rank": table_scores.rank_sheet,
        "heldout": table_scores.heldout_sheet,
        "normalized": table_scores.normalized_sheet,
        "edits": table_edits.edits_sheet,
        "code": table_runs.code_sheet,
        "efficiency": table_runs.efficiency_sheet,
        "selection": table_runs.selection_sheet,
        "difference": table_differences.difference_sheet,
    }


def draw_table(sheet: Sheet, form: Format, width: int = 100) -> str:
    """`sheet` as text ending in a newline; `width` is for the terminal's plain text."""
    from evopolicy.analysis.tables import draw, latex

    if form == "terminal":
        return draw.sheet_text(sheet, width)
    drawers = {"csv": draw.sheet_csv, "latex": latex.sheet_latex, "html": draw.sheet_html}
    return drawers.get(form, draw.sheet_markdown)(sheet)
