"""The formats a table can be had in, by name."""

from __future__ import annotations

from typing import Literal, get_args

from evopolicy.present.table import Table

Format = Literal["terminal", "markdown", "csv", "latex", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)


def render(table: Table, form: Format, width: int = 100) -> str:
    """`table` as text ending in a newline; `width` is for the terminal's plain text."""
    from evopolicy.present import delimited, html, latex, markdown, text

    if form == "terminal":
        return text.render_text(table, width)
    others = {"csv": delimited.render_csv, "latex": latex.render_latex, "html": html.render_html}
    return others.get(form, markdown.render_markdown)(table)
