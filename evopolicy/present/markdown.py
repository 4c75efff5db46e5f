"""A table as GitHub-flavoured Markdown. Labels are escaped: none starts markup."""

from __future__ import annotations

import html

from evopolicy.kernel.shown import clean
from evopolicy.present.grid import GridCell, grids, notes
from evopolicy.present.table import Table


def render_markdown(table: Table) -> str:
    """Title, the table with the best bold, and its notes as a list."""
    parts = [f"**{_escaped(clean(table.title))}**"] if table.title else []
    for grid in grids(table, None, mark=False):
        sides = [":--" if i in grid.left else "--:" for i in range(len(grid.header))]
        lines = [
            "| " + " | ".join(map(_escaped, grid.header)) + " |",
            "| " + " | ".join(sides) + " |",
        ]
        lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in grid.rows]
        parts.append("\n".join(lines))
    parts.append("\n".join(f"- {_escaped(note)}" for note in notes(table)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_[]|~#" else c for c in html.escape(text, quote=False))


def _cell(cell: GridCell) -> str:
    text = _escaped(" ".join(cell.text.split()))
    return f"**{text}**" if cell.best else text
