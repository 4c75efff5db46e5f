"""A table as plain text and for a terminal. Labels are never trusted: nothing in them moves the
cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from evopolicy.kernel.shown import clean
from evopolicy.present.grid import GAP, Grid, GridCell, fold, grids, notes
from evopolicy.present.table import Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table as RichTable
    from rich.text import Text


def render_text(table: Table, width: int = 80) -> str:
    """Plain text of at most `width` columns (as far as that is possible), ending in a newline. No
    colour, no box."""
    blocks = grids(table, width, mark=True)
    folded = "\n".join(line for note in notes(table, blocks) for line in fold(note, width))
    return (
        "\n\n".join(part for part in (clean(table.title), *map(_block, blocks), folded) if part)
        + "\n"
    )


def _block(grid: Grid) -> str:
    widths = grid.widths()
    lines = _lines(grid, widths, grid.header)
    lines.append((" " * GAP).join("─" * width for width in widths))
    for row in grid.rows:
        lines.extend(_lines(grid, widths, [cell.text for cell in row]))
    return "\n".join(lines)


def _lines(grid: Grid, widths: list[int], texts: tuple[str, ...] | list[str]) -> list[str]:
    columns = [text.split("\n") for text in texts]
    lines = []
    for number in range(max(map(len, columns))):
        cells = [column[number] if number < len(column) else "" for column in columns]
        padded = [_pad(cell, widths[i], i in grid.left) for i, cell in enumerate(cells)]
        lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _pad(text: str, width: int, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text


# --- terminal -------------------------------------------------------------------------------------

_BAR = 12
"""Columns of a bar, where there is room for it."""


def render_rich(table: Table) -> RenderableType:
    """A rich renderable that fits whatever console it is printed on, never wider than it."""
    return _Rich(table)


class _Rich:
    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        mark = not console.is_terminal or bool(console.no_color)
        blocks = grids(self._table, options.max_width - 1, mark)
        if self._table.title:
            yield Text(clean(self._table.title), style="bold")
            yield Text()
        for grid in blocks:
            yield _rich_block(grid, options.max_width - 1)
            yield Text()
        for note in notes(self._table, blocks if mark else ()):
            yield Text("\n".join(fold(note, options.max_width)), style="dim")


def _rich_block(grid: Grid, width: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    bars = grid.bar is not None and any(grid.shares) and grid.width() + GAP + _BAR <= width
    shown = RichTable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for number, name in enumerate(grid.header):
        justify = "left" if number in grid.left else "right"
        shown.add_column(Text(name), justify=justify, no_wrap=True, overflow="fold")  # type: ignore[arg-type]
        if bars and number == grid.bar:
            shown.add_column("", width=_BAR)
    most = max((share for share in grid.shares if share is not None), default=None)
    for number, row in enumerate(grid.rows):
        share = grid.shares[number] if grid.shares else None
        first = share is not None and share == most
        cells = [_rich_cell(cell, first and i <= (grid.bar or 0)) for i, cell in enumerate(row)]
        if bars and grid.bar is not None:
            cells.insert(grid.bar + 1, _bar(share))
        shown.add_row(*cells)
    return shown


def _rich_cell(cell: GridCell, strong: bool) -> Text:
    from rich.text import Text

    return Text(
        cell.text,
        style="bold green" if cell.best else "dim" if cell.faint else "bold" if strong else "",
    )


def _bar(share: float | None) -> Text:
    from rich.text import Text

    halves = 0 if share is None else round(share * _BAR * 2)
    full, half = divmod(halves, 2)
    bar = Text("━" * full + "╸" * half, style="green")
    bar.append("━" * (_BAR - full - half), style="bright_black")
    return bar
