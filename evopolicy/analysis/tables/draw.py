"""A sheet as text, for a terminal, as CSV, Markdown and HTML (`latex` has LaTeX). Labels are never trusted."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from evopolicy.analysis.tables.layout import Column, Grid, GridCell, align, make_grid
from evopolicy.analysis.tables.render import STYLE, draw_markdown, draw_rich, draw_text, fold, inert
from evopolicy.analysis.tables.sheet import Sheet, SheetCell, drawn
from evopolicy.kernel.shown import clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

_BEST = "*"
_BEST_NOTE = "* best of those it is compared with."
_NOTE_LENGTH = 2_000


def sheet_text(sheet: Sheet, width: int = 100) -> str:
    """Plain text of at most `width` columns (as far as that is possible), ending in a newline."""
    sheet = drawn(sheet)
    blocks = _grids(sheet, width, mark=True)
    notes = [*([_BEST_NOTE] if _has_best(sheet) else []), *_notes(sheet)]
    parts = [
        clean(sheet.title),
        *map(draw_text, blocks),
        "\n".join(line for note in notes for line in fold(note, width)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def sheet_rich(sheet: Sheet) -> RenderableType:
    """A rich renderable that fits whatever console it is printed on."""
    return _RichSheet(drawn(sheet))


class _RichSheet:
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        mark = not console.is_terminal or bool(console.no_color)
        yield Text(clean(self._sheet.title), style="bold")
        yield Text()
        for grid in _grids(self._sheet, options.max_width - 1, mark):
            yield draw_rich(grid, options.max_width - 1)
            yield Text()
        marked = [_BEST_NOTE] if mark and _has_best(self._sheet) else []
        for note in [*marked, *_notes(self._sheet)]:
            yield Text("\n".join(fold(note, options.max_width)), style="dim")


def sheet_markdown(sheet: Sheet) -> str:
    """GitHub-flavoured Markdown: title, table with the best bold, notes as a list."""
    sheet = drawn(sheet)
    return draw_markdown(_grids(sheet, None, mark=False), _notes(sheet), clean(sheet.title))


def sheet_csv(sheet: Sheet) -> str:
    """Every digit kept; an empty field is no value. An interval adds the columns low, high and over behind its own."""
    spans = [any(row[i].low is not None for row in sheet.rows) for i in range(len(sheet.heads))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names: list[str] = []
    for head, span in zip(sheet.heads, spans, strict=True):
        name = inert(head.key)
        names += [name, f"{name} low", f"{name} high", f"{name} over"] if span else [name]
    writer.writerow(names)
    for row in sheet.rows:
        fields: list[object] = []
        for cell, span in zip(row, spans, strict=True):
            fields.append(inert(cell.value) if isinstance(cell.value, str) else cell.value)
            fields += [cell.low, cell.high, cell.over] if span else []
        writer.writerow(["" if field is None else field for field in fields])
    return out.getvalue()


def sheet_html(sheet: Sheet) -> str:
    """A page that needs nothing else: caption, header cells with their scope, and the notes it is described by."""
    sheet = drawn(sheet)
    title = html.escape(clean(sheet.title))
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in _notes(sheet))
    rows = "\n".join("<tr>" + "".join(_html_cells(sheet, row)) + "</tr>" for row in sheet.rows)
    described = ' aria-describedby="notes"' if notes else ""
    table = (
        f"<table{described}>\n<caption>{title}</caption>\n{_html_columns(sheet)}<thead>{_html_head(sheet)}</thead>\n"
        f"<tbody>\n{rows}\n</tbody>\n</table>"
    )
    listed = f'\n<ul class="notes" id="notes">{notes}</ul>' if notes else ""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    caption = ".rank-table caption { text-align: left; font-weight: 600; padding: .3rem .8rem; }"
    scroll = f'<div class="scroll" role="region" aria-label="{title}" tabindex="0">{table}</div>'
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}<title>{title}</title>\n<style>\n{STYLE}\n{caption}\n</style>'
        f'\n</head>\n<body>\n<main class="rank-table">\n{scroll}{listed}\n</main>\n</body>\n</html>\n'
    )


def _html_columns(sheet: Sheet) -> str:
    """Groups of columns, so that `scope=colgroup` means something."""
    if not any(head.group for head in sheet.heads):
        return ""
    return "".join(f'<colgroup span="{count}">' + "</colgroup>" for _, count in spans(sheet)) + "\n"


def _html_head(sheet: Sheet) -> str:
    grouped = any(head.group for head in sheet.heads)
    first: list[str] = []
    second: list[str] = []
    place = 0
    for group, count in spans(sheet):
        heads = sheet.heads[place : place + count]
        if group:
            first.append(f'<th scope="colgroup" colspan="{count}">{html.escape(clean(group))}</th>')
        for offset, head in enumerate(heads):
            left = ' class="left"' if head.text or place + offset < sheet.stub else ""
            tall = ' rowspan="2"' if grouped and not group else ""
            cell = f'<th scope="col"{left}{tall}>{html.escape(clean(head.title))}</th>'
            (first if tall or not grouped else second).append(cell)
        place += count
    return f"<tr>{''.join(first)}</tr>" + (f"<tr>{''.join(second)}</tr>" if second else "")


def _html_cells(sheet: Sheet, row: tuple[SheetCell, ...]) -> Iterator[str]:
    for place, (head, cell) in enumerate(zip(sheet.heads, row, strict=True)):
        text = html.escape(clean(cell.text))
        if cell.best:
            text = f"<strong>{text}</strong>"
        if place < sheet.stub:
            yield f'<th scope="row" class="left">{text}</th>'
        else:
            kinds = " ".join(kind for kind, is_so in (("left", head.text), ("faint", cell.faint)) if is_so)
            yield f'<td class="{kinds}">{text}</td>' if kinds else f"<td>{text}</td>"


def spans(sheet: Sheet) -> list[tuple[str, int]]:
    """Neighbouring columns of one group, with how many they are; columns without a group by themselves."""
    found: list[tuple[str, int]] = []
    for group, heads in groupby(sheet.heads, key=lambda head: head.group):
        count = len(list(heads))
        found += [(group, count)] if group else [("", 1)] * count
    return found


# --- grids -------------------------------------------------------------------------------------------------------


def _grids(sheet: Sheet, width: int | None, mark: bool) -> list[Grid]:
    """The columns behind the stub, in as few grids of about as many columns each as `width` allows."""
    columns = [_column(sheet, place, mark) for place in range(len(sheet.heads))]
    stub, rest = columns[: sheet.stub], columns[sheet.stub :]
    left = frozenset(i for i, head in enumerate(sheet.heads) if head.text)
    found: list[Grid] = []
    for count in range(1, max(len(rest), 1) + 1):
        size = -(-len(rest) // count) or 1
        starts = range(0, max(len(rest), 1), size)
        kept = [frozenset(_place(i, start, sheet.stub) for i in left) for start in starts]
        parts = [[*stub, *rest[start : start + size]] for start in starts]
        found = [make_grid(part, places, (), width is not None) for part, places in zip(parts, kept, strict=True)]
        if width is None or all(grid.width() <= width for grid in found):
            break
    return found


def _place(column: int, start: int, stub: int) -> int:
    """Where a column of the sheet stands in the grid that begins at the column `start` behind the stub."""
    return column if column < stub else column - start if column - start >= stub else -1


def _column(sheet: Sheet, place: int, mark: bool) -> Column:
    head = sheet.heads[place]
    name = f"{head.group}: {head.title}" if head.group else head.title
    cells = [row[place] for row in sheet.rows]
    texts = [clean(cell.text) for cell in cells]
    if not head.text:
        texts = align(texts, [_BEST if mark and cell.best else "" for cell in cells])
    shown = [GridCell(text, cell.best, cell.faint) for text, cell in zip(texts, cells, strict=True)]
    return clean(name), shown


def _has_best(sheet: Sheet) -> bool:
    return any(cell.best for row in sheet.rows for cell in row)


def _notes(sheet: Sheet) -> list[str]:
    return [clean(note, _NOTE_LENGTH) for note in sheet.notes]
