"""A table as CSV, for other programs. No spreadsheet runs a label as a formula."""

from __future__ import annotations

import csv
import io

from evopolicy.kernel.shown import clean
from evopolicy.present.table import Table


def render_csv(table: Table) -> str:
    """Every digit kept; an empty field is no value. An interval adds the columns low, high and over
    behind its own."""
    kept = [place for place, column in enumerate(table.columns) if column.stored]
    spans = {place: any(row[place].low is not None for row in table.rows) for place in kept}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names: list[str] = []
    for place in kept:
        name = inert(table.columns[place].key)
        names += [name, f"{name} low", f"{name} high", f"{name} over"] if spans[place] else [name]
    writer.writerow(names)
    for row in table.rows:
        fields: list[object] = []
        for place in kept:
            cell = row[place]
            fields.append(inert(cell.value) if isinstance(cell.value, str) else cell.value)
            fields += [cell.low, cell.high, cell.over] if spans[place] else []
        writer.writerow(["" if field is None else field for field in fields])
    return out.getvalue()


def inert(label: str) -> str:
    """A label no spreadsheet runs as a formula."""
    text = clean(label)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
