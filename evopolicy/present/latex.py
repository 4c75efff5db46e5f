"""A sheet as a LaTeX table with booktabs. Every label is escaped: none can end the table or run a
command."""

from __future__ import annotations

import re

from evopolicy.kernel.shown import clean
from evopolicy.present.html import pieces
from evopolicy.present.table import Cell, Column, Table, drawn, spans

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≈": r"$\approx$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "\N{REPLACEMENT CHARACTER}": "?",
}
_MINUS = re.compile(r"(?<![\w.])-(?=[\d.])")
_NOTE_LENGTH = 2_000


def escape_latex(text: str, limit: int = 400) -> str:
    """`text` as LaTeX text: one line, no command, no dash or quotation mark that two signs would
    make."""
    plain = re.sub(r"([-'])(?=\1)", "\\1\0", clean(text, limit))
    return "".join("{}" if c == "\0" else _ESCAPES.get(c, c) for c in plain)


def render_latex(table: Table) -> str:
    """A `table` environment with caption, label and notes; needs the packages booktabs and
    textcomp."""
    label = re.sub(r"[^A-Za-z0-9-]+", "-", table.name).strip("-") or "table"
    lines = [
        r"% \usepackage{booktabs,textcomp}",
        r"\begin{table}[tbp]",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.title)}}}",
        rf"  \label{{tab:{label}}}",
    ]
    for part in pieces(table):
        lines += _tabular(drawn(part))
    if table.notes:
        lines += ["", r"  \medskip", r"  \begin{minipage}{\linewidth}", r"    \footnotesize"]
        lines += [rf"    {escape_latex(note, _NOTE_LENGTH)}\par" for note in table.notes]
        lines.append(r"  \end{minipage}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _tabular(table: Table) -> list[str]:
    sides = "".join(
        "l" if column.text or i < table.stub else "r" for i, column in enumerate(table.columns)
    )
    rows = (
        " & ".join(_cell(c, cell) for c, cell in zip(table.columns, row, strict=True))
        for row in table.rows
    )
    return [
        rf"  \begin{{tabular}}{{{sides}}}",
        r"    \toprule",
        *_head(table),
        r"    \midrule",
        *(f"    {row} \\\\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
    ]


def _head(table: Table) -> list[str]:
    lines = []
    if any(column.group for column in table.columns):
        over, rules, place = [], [], 1
        for group, count in spans(table.columns):
            over.append(rf"\multicolumn{{{count}}}{{c}}{{{escape_latex(group)}}}" if group else "")
            rules += [rf"\cmidrule(lr){{{place}-{place + count - 1}}}"] if group else []
            place += count
        lines += [f"    {' & '.join(over)} \\\\", f"    {' '.join(rules)}"]
    return [
        *lines,
        f"    {' & '.join(escape_latex(column.title) for column in table.columns)} \\\\",
    ]


def _cell(column: Column, cell: Cell) -> str:
    text = escape_latex(cell.whole)
    if not column.text:
        text = _MINUS.sub("$-$", text)
    # Brackets behind the end of a row would be taken for its optional argument, were they the next
    # row's first sign.
    text = f"{{{text}}}" if text.startswith(("[", "*")) else text
    return rf"\textbf{{{text}}}" if cell.best else text
