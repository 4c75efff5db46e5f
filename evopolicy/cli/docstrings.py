"""A verb's options as its config dataclass describes them, read from source: importing it may take
seconds."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def described(module: str, name: str, prefix: str = "") -> dict[str, str]:
    """What the docstring below each field of the dataclass `name` says, by the field's key, as part
    of a line of help.

    `module` is a file of the package (`analysis/tables/config.py`), `prefix` stands before every
    key (`launcher.`)."""
    tree = ast.parse((_PACKAGE / module).read_text(encoding="utf-8"))
    body = next(
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )
    return {
        f"{prefix}{field.target.id}": _as_help(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _as_help(docstring: str) -> str:
    """On one line, without the sentence's capital and full stop."""
    text = " ".join(docstring.split())
    lowered = text[:1].lower() + text[1:] if text.partition(" ")[0].istitle() else text
    return lowered.removesuffix(".")
