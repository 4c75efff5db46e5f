"""A sheet as a LaTeX table with booktabs. Every label is escaped: none can end the table or run a command."""

from __future__ import annotations

import re

from evopolicy.analysis.tables.draw import spans
from evopolicy.analysis.tables.sheet import Head, Sheet, SheetCell, drawn
from evopolicy.kernel.shown import clean

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
    """`text` as LaTeX text: one line, no command, no dash or quotation mark that two signs would make."""
    plain = re.sub(r"([-'])(?=\1)", "\\1\0", clean(text, limit))
    return "".join("{}" if c == "\0" else _ESCAPES.get(c, c) for c in plain)


def sheet_latex(sheet: Sheet) -> str:
    """A `table` environment with caption, label and notes; needs the packages booktabs and textcomp."""
    sheet = drawn(sheet)
    columns = "".join("l" if head.text or i < sheet.stub else "r" for i, head in enumerate(sheet.heads))
    label = re.sub(r"[^A-Za-z0-9-]+", "-", sheet.name).strip("-") or "table"
    lines = [
        r"% \usepackage{booktabs,textcomp}",
        r"\begin{table}[tbp]",
        r"  \centering",
        rf"  \caption{{{escape_latex(sheet.title)}}}",
        rf"  \label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        *_head(sheet),
        r"    \midrule",
        *(f"    {' & '.join(_cell(h, c) for h, c in zip(sheet.heads, row, strict=True))} \\\\" for row in sheet.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
    ]
    if sheet.notes:
        lines += ["", r"  \medskip", r"  \begin{minipage}{\linewidth}", r"    \footnotesize"]
        lines += [rf"    {escape_latex(note, _NOTE_LENGTH)}\par" for note in sheet.notes]
        lines.append(r"  \end{minipage}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _head(sheet: Sheet) -> list[str]:
    lines = []
    if any(head.group for head in sheet.heads):
        over, rules, place = [], [], 1
        for group, count in spans(sheet):
            over.append(rf"\multicolumn{{{count}}}{{c}}{{{escape_latex(group)}}}" if group else "")
            rules += [rf"\cmidrule(lr){{{place}-{place + count - 1}}}"] if group else []
            place += count
        lines += [f"    {' & '.join(over)} \\\\", f"    {' '.join(rules)}"]
    return [*lines, f"    {' & '.join(escape_latex(head.title) for head in sheet.heads)} \\\\"]


def _cell(head: Head, cell: SheetCell) -> str:
    text = escape_latex(cell.text)
    if not head.text:
        text = _MINUS.sub("$-$", text)
    # Brackets behind the end of a row would be taken for its optional argument, were they the next row's first sign.
    text = f"{{{text}}}" if text.startswith(("[", "*")) else text
    return rf"\textbf{{{text}}}" if cell.best else text
