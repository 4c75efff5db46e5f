"""From a table's config and a person's frames to the table that is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from evopolicy.analysis.tables.config import Kind, TableConfig

if TYPE_CHECKING:
    from evopolicy.analysis.records.frames import Frames
    from evopolicy.analysis.tables.inputs import TableInputs
    from evopolicy.present.table import Table


def paper_table(config: TableConfig, frames: Frames | None = None, *, name: str = "table") -> Table:
    """The table `config` describes, of the Runs in `frames` (None: published rows alone).

    Raises ConfigError for an entry, Benchmark or anchor there is not and where there is nothing to
    show; RecordError where cells are missing or conditions differ and neither was asked for."""
    from evopolicy.analysis.tables.inputs import gather
    from evopolicy.present.table import mark_kinds

    return mark_kinds(_builders()[config.kind](gather(config, frames), name))


def _builders() -> Mapping[Kind, Callable[[TableInputs, str], Table]]:
    from evopolicy.analysis.tables import differences as table_differences
    from evopolicy.analysis.tables import edits as table_edits
    from evopolicy.analysis.tables import runs as table_runs
    from evopolicy.analysis.tables import scores as table_scores

    return {
        "rank": table_scores.rank_score_table,
        "heldout": table_scores.heldout_table,
        "normalized": table_scores.normalized_table,
        "edits": table_edits.edits_table,
        "code": table_runs.code_table,
        "efficiency": table_runs.efficiency_table,
        "selection": table_runs.selection_table,
        "difference": table_differences.difference_table,
    }
