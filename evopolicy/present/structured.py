"""A table as JSON, for other programs."""

from __future__ import annotations

import json

from evopolicy.present.table import Table


def render_json(table: Table) -> str:
    """`{"caption": ..., "rows": [{column: value}], "notes": [...]}`, every digit kept; null is no
    value."""
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, (cell.value for cell in row), strict=True)) for row in table.rows]
    written = {"caption": table.title, "rows": rows, "notes": table.notes}
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"
