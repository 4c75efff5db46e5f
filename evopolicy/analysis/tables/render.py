"""A rank table as text, for a terminal, as CSV, Markdown and HTML. Labels are never trusted: each form escapes them."""

from __future__ import annotations

import csv
import html
import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from evopolicy.analysis.tables.layout import GAP, Grid, GridCell, grids
from evopolicy.analysis.tables.ranks import RankTable
from evopolicy.kernel.shown import clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text

_BEST_NOTE = "* best on its Benchmark."


# --- plain text --------------------------------------------------------------------------------------------------


def render_text(table: RankTable, width: int = 80) -> str:
    """Plain text of at most `width` columns (as far as that is possible), ending in a newline. No colour, no box."""
    blocks = grids(table, width, mark=True)
    notes = [*([_BEST_NOTE] if _has_best(blocks) else []), *map(clean, table.notes)]
    parts = [*map(draw_text, blocks), "\n".join(line for note in notes for line in fold(note, width))]
    return "\n\n".join(part for part in parts if part) + "\n"


def draw_text(grid: Grid) -> str:
    """One grid, its columns under each other; no newline at the end."""
    widths = grid.widths()
    lines = _text_row(grid, widths, grid.header)
    lines.append((" " * GAP).join("─" * width for width in widths))
    for row in grid.rows:
        lines.extend(_text_row(grid, widths, [cell.text for cell in row]))
    return "\n".join(lines)


def _text_row(grid: Grid, widths: list[int], texts: tuple[str, ...] | list[str]) -> list[str]:
    columns = [text.split("\n") for text in texts]
    height = max(map(len, columns))
    lines = []
    for number in range(height):
        cells = [column[number] if number < len(column) else "" for column in columns]
        padded = [_pad(cell, widths[i], i in grid.left) for i, cell in enumerate(cells)]
        lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _pad(text: str, width: int, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text


def fold(note: str, width: int) -> list[str]:
    """Lines of `note`, at most `width` long."""
    return textwrap.wrap(note, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)


def _has_best(blocks: list[Grid]) -> bool:
    return any(cell.best for grid in blocks for row in grid.rows for cell in row)


# --- terminal ----------------------------------------------------------------------------------------------------


def render_rich(table: RankTable) -> RenderableType:
    """A rich renderable that fits whatever console it is printed on, never wider than it."""
    return _RichTable(table)


class _RichTable:
    def __init__(self, table: RankTable) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.padding import Padding
        from rich.text import Text

        mark = not console.is_terminal or bool(console.no_color)
        blocks = grids(self._table, options.max_width - 1, mark)
        for grid in blocks:
            yield draw_rich(grid, options.max_width - 1)
            yield Text()
        if mark and _has_best(blocks):
            yield Text(_BEST_NOTE, style="dim")
        for note in self._table.notes:
            lines = fold(clean(note), options.max_width)
            yield Padding(Text("\n".join(lines), style="dim"), 0)


_BAR = 12
"""Columns of the bar beside a rank score, where there is room for it."""
_RANK_SCORE = 2
"""Place of that column in a grid whose rows are entries."""


def draw_rich(grid: Grid, width: int) -> Table:
    """One grid as a rich table; rank scores get a bar beside them where `width` has room for it."""
    from rich import box
    from rich.table import Table

    bars = bool(grid.scores) and any(grid.scores) and grid.width() + GAP + _BAR <= width
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for number, name in enumerate(grid.header):
        justify = "left" if number in grid.left else "right"
        shown.add_column(_plain(name), justify=justify, no_wrap=True, overflow="fold")  # type: ignore[arg-type]
        if bars and number == _RANK_SCORE:
            shown.add_column("", width=_BAR)
    for number, row in enumerate(grid.rows):
        score = grid.scores[number] if grid.scores else None
        first = score is not None and score == max(s for s in grid.scores if s is not None)
        cells = [_rich_cell(cell, first and i < 3) for i, cell in enumerate(row)]
        if bars:
            cells.insert(_RANK_SCORE + 1, _bar(score))
        shown.add_row(*cells)
    return shown


def _plain(text: str) -> Text:
    from rich.text import Text

    return Text(text)


def _rich_cell(cell: GridCell, strong: bool) -> Text:
    from rich.text import Text

    style = "bold green" if cell.best else "dim" if cell.faint else "bold" if strong else ""
    return Text(cell.text, style=style)


def _bar(score: float | None) -> Text:
    from rich.text import Text

    halves = 0 if score is None else round(score * _BAR * 2)
    full, half = divmod(halves, 2)
    bar = Text("━" * full + "╸" * half, style="green")
    bar.append("━" * (_BAR - full - half), style="bright_black")
    return bar


# --- files -------------------------------------------------------------------------------------------------------


def render_csv(table: RankTable) -> str:
    """One row an entry, every digit kept; an empty field is no value. No spreadsheet runs a label as a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header = ["place", "entry", "rank_score", *[f"rank_score {name}" for name in table.categories], "wins", "top2"]
    header += ["benchmarks_ranked", "benchmarks", "cells_done", "cells", "failures", "failed_episodes", "episodes"]
    header += ["wall_seconds"]
    for benchmark in table.benchmarks:
        header += [benchmark, f"{benchmark} standard_error", f"{benchmark} error_over", f"{benchmark} seeds"]
    writer.writerow([inert(name) for name in header])
    for row in table.entries:
        fields: list[object] = [row.place, inert(row.entry), row.rank_score]
        fields += [table.category_scores.get((row.entry, name)) for name in table.categories]
        fields += [row.wins, row.top2, row.benchmarks, len(table.benchmarks), row.cells_done, row.cells_total]
        fields += [row.failures, row.policy_failures, row.episodes, round(row.wall_seconds, 3)]
        for benchmark in table.benchmarks:
            cell = table.cells[row.entry, benchmark]
            fields += [cell.mean, cell.standard_error, cell.error_over, cell.done]
        writer.writerow(["" if field is None else field for field in fields])
    return out.getvalue()


def inert(label: str) -> str:
    """A label no spreadsheet runs as a formula."""
    text = clean(label)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def render_markdown(table: RankTable) -> str:
    """GitHub-flavoured Markdown: the tables, the best on each Benchmark bold, and the notes as a list."""
    return draw_markdown(grids(table, None, mark=False), [clean(note) for note in table.notes])


def draw_markdown(blocks: Sequence[Grid], notes: Sequence[str], title: str = "") -> str:
    """Grids as Markdown tables below their title, and notes below them as a list."""
    parts = [f"**{_markdown(title)}**"] if title else []
    for grid in blocks:
        marks = [":--" if i in grid.left else "--:" for i in range(len(grid.header))]
        lines = ["| " + " | ".join(_markdown(name) for name in grid.header) + " |", "| " + " | ".join(marks) + " |"]
        lines += ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in grid.rows]
        parts.append("\n".join(lines))
    parts.append("\n".join(f"- {_markdown(note)}" for note in notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(text: str) -> str:
    escaped = html.escape(text, quote=False)
    return "".join(f"\\{c}" if c in "\\`*_[]|~#" else c for c in escaped)


def _markdown_cell(cell: GridCell) -> str:
    text = _markdown(" ".join(cell.text.split()))
    return f"**{text}**" if cell.best else text


STYLE = """
.rank-table { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; color-scheme: light dark; margin: 1.5rem auto;
  max-width: 72rem; padding: 0 1rem; }
.rank-table .scroll { overflow-x: auto; margin-bottom: 1rem; }
.rank-table table { border-collapse: collapse; }
.rank-table td { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .93em;
  white-space: pre; }
.rank-table th, .rank-table td { padding: .3rem .8rem; text-align: right; }
.rank-table thead th { border-bottom: 2px solid #8c959f; vertical-align: bottom; }
.rank-table tbody tr:nth-child(even) { background: #8c959f1f; }
.rank-table th { white-space: nowrap; }
.rank-table .left { text-align: left; }
.rank-table .faint { opacity: .6; }
.rank-table strong { color: #116329; }
.rank-table .notes { font-size: .9em; opacity: .85; padding-left: 1.2rem; }
@media (prefers-color-scheme: dark) { .rank-table { color: #e6edf3; background: #0d1117; }
  .rank-table strong { color: #56d364; } }
""".strip()
"""CSS of every table in HTML, for what is inside of `class="rank-table"`."""


def render_html(table: RankTable, *, title: str = "Rank table", document: bool = True) -> str:
    """HTML that needs nothing else: a whole page, or with `document=False` a `<section>` to put into one."""
    tables = "\n".join(map(_html_grid, grids(table, None, mark=False)))
    notes = "".join(f"<li>{html.escape(clean(note))}</li>" for note in table.notes)
    body = f'<section class="rank-table">\n{tables}\n<ul class="notes">{notes}</ul>\n</section>'
    style = f"<style>\n{STYLE}\n</style>"
    if not document:
        return f"{style}\n{body}\n"
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    name = html.escape(clean(title))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}<title>{name}</title>\n{style}\n</head>\n<body>\n{body}\n'
        "</body>\n</html>\n"
    )


def _html_grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col"{_left(grid, i)}>{html.escape(name)}</th>' for i, name in enumerate(grid.header))
    rows = "\n".join(
        "<tr>" + "".join(_html_cell(cell, _left(grid, i)) for i, cell in enumerate(row)) + "</tr>" for row in grid.rows
    )
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def _left(grid: Grid, column: int) -> str:
    return ' class="left"' if column in grid.left else ""


def _html_cell(cell: GridCell, left: str) -> str:
    if left:
        return f'<th scope="row"{left}>{html.escape(cell.text)}</th>'
    text = html.escape(cell.text)
    if cell.best:
        text = f"<strong>{text}</strong>"
    return f'<td class="faint">{text}</td>' if cell.faint else f"<td>{text}</td>"
