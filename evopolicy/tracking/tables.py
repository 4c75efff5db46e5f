"""A small table as JSON, Markdown and HTML; every text in it is escaped."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass

from evopolicy.tracking.files import Upload

Value = str | int | float | None
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 24px; color: #1f272d; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #5f7281; padding-bottom: 8px; }
th, td { padding: 6px 14px; border-bottom: 1px solid #d1d9e1; text-align: right; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #5f7281; }
"""


@dataclass(frozen=True)
class Table:
    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    """The first column names the row."""

    def json(self) -> str:
        rows = [dict(zip(self.header, row, strict=True)) for row in self.rows]
        return json.dumps({"caption": self.caption, "rows": rows}, indent=2, ensure_ascii=False) + "\n"

    def markdown(self) -> str:
        lines = ["| " + " | ".join(_md(cell) for cell in self.header) + " |"]
        lines.append("|---|" + "---:|" * (len(self.header) - 1))
        lines.extend("| " + " | ".join(_md(cell) for cell in row) + " |" for row in self.rows)
        return f"{_md(self.caption)}\n\n" + "\n".join(lines) + "\n"

    def html(self) -> str:
        head = "".join(f"<th>{_ht(cell)}</th>" for cell in self.header)
        body = "\n".join("<tr>" + "".join(f"<td>{_ht(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_ht(self.caption)}</title>'
            f"<style>{_STYLE}</style></head><body><table><caption>{_ht(self.caption)}</caption>"
            f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></body></html>\n"
        )


def uploads(table: Table) -> tuple[Upload, ...]:
    """The table in its three forms, as artifacts."""
    forms = {"json": table.json(), "md": table.markdown(), "html": table.html()}
    return tuple(Upload(f"{table.name}.{suffix}", content=text.encode()) for suffix, text in forms.items())


def shown(value: Value) -> str:
    """A cell as people read it: four significant digits, nothing for what is not there."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.4g}".rstrip(".")
    return str(value)


def _md(value: Value) -> str:
    text = shown(value).replace("\n", " ").replace("\r", " ")
    return _MARKDOWN.sub(r"\\\1", text)


def _ht(value: Value) -> str:
    return html.escape(shown(value))
