"""A table as HTML that needs nothing else. Labels are escaped by `markup`."""

from __future__ import annotations

from collections.abc import Iterator

from evopolicy.kernel.shown import clean
from evopolicy.present.grid import GridCell, aligned, notes
from evopolicy.present.markup import Html, join, tag
from evopolicy.present.table import Table, drawn, spans

STYLE = """
.result { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; color-scheme: light dark; margin: 1.5rem auto;
  max-width: 72rem; padding: 0 1rem; }
.result .scroll { overflow-x: auto; margin-bottom: 1rem; }
.result table { border-collapse: collapse; }
.result caption { text-align: left; font-weight: 600; padding: .3rem .8rem; }
.result td { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .93em;
  white-space: pre; }
.result th, .result td { padding: .3rem .8rem; text-align: right; }
.result thead th { border-bottom: 2px solid #8c959f; vertical-align: bottom; }
.result tbody tr:nth-child(even) { background: #8c959f1f; }
.result th { white-space: nowrap; }
.result .left { text-align: left; }
.result .faint { opacity: .6; }
.result strong { color: #116329; }
.result .notes { font-size: .9em; opacity: .85; padding-left: 1.2rem; }
@media (prefers-color-scheme: dark) { .result { color: #e6edf3; background: #0d1117; }
  .result strong { color: #56d364; } }
""".strip()
"""CSS of a table, for what is inside of `class="result"`."""


def render_html(table: Table, *, document: bool = True) -> str:
    """A whole page, or with `document=False` a `<section>` to put into one."""
    title = clean(table.title) or clean(table.name)
    listed = [tag("li", note) for note in notes(table)]
    body = tag(
        "main" if document else "section",
        *(_table(part, described=bool(listed)) for part in pieces(table)),
        tag("ul", *listed, class_="notes", id="notes") if listed else None,
        class_="result",
    )
    style = f"<style>\n{STYLE}\n</style>"
    if not document:
        return f"{style}\n{body}\n"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    )
    name = tag("title", title)
    return (
        "<!doctype html>\n<html "
        f'lang="en">\n<head>{head}{name}\n{style}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
    )


def pieces(table: Table) -> tuple[Table, ...]:
    """The tables that are drawn for `table` where there is room for any width."""
    return table.parts if table.crowded else (table,)


def _table(table: Table, described: bool) -> Html:
    table = drawn(table)
    title = clean(table.title)
    rows = [tag("tr", *_cells(table, row)) for row in zip(*aligned(table), strict=True)]
    made = tag(
        "table",
        tag("caption", title) if title else None,
        *_column_groups(table),
        tag("thead", *_head(table)),
        tag("tbody", *rows),
        aria_describedby="notes" if described else None,
    )
    return tag(
        "div", made, class_="scroll", role="region", aria_label=title or table.name, tabindex=0
    )


def _column_groups(table: Table) -> list[Html]:
    """Groups of columns, so that `scope=colgroup` means something."""
    if not any(column.group for column in table.columns):
        return []
    return [tag("colgroup", span=count) for _, count in spans(table.columns)]


def _head(table: Table) -> Iterator[Html]:
    grouped = any(column.group for column in table.columns)
    first: list[Html] = []
    second: list[Html] = []
    place = 0
    for group, count in spans(table.columns):
        if group:
            first.append(tag("th", clean(group), scope="colgroup", colspan=count))
        for offset, column in enumerate(table.columns[place : place + count]):
            left = "left" if column.text or place + offset < table.stub else None
            tall = grouped and not group
            cell = tag(
                "th", clean(column.title), scope="col", class_=left, rowspan=2 if tall else None
            )
            (first if tall or not grouped else second).append(cell)
        place += count
    yield tag("tr", *first)
    if second:
        yield tag("tr", *second)


def _cells(table: Table, row: tuple[GridCell, ...]) -> Iterator[Html]:
    for place, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
        text = tag("strong", cell.text) if cell.best else join(cell.text)
        if place < table.stub:
            yield tag("th", text, scope="row", class_="left" if column.text else None)
        else:
            kinds = [
                kind for kind, is_so in (("left", column.text), ("faint", cell.faint)) if is_so
            ]
            yield tag("td", text, class_=" ".join(kinds) or None)
