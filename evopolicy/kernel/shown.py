"""What agents and Programs wrote, made harmless to look at."""

from __future__ import annotations

import unicodedata

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean(text: str, limit: int = 400) -> str:
    """`text` on one line, at most `limit` long, with nothing that steers a terminal or turns its
    direction."""
    shown = " ".join(text[: 4 * limit].split())
    safe = "".join(_REPLACEMENT if unicodedata.category(c).startswith("C") else c for c in shown)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


_UNSEEN = frozenset(
    [
        0x034F,
        0x115F,
        0x1160,
        0x17B4,
        0x17B5,
        0x2800,
        0x3164,
        0xFFA0,
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
    ]
    + list(range(0xE0100, 0xE01F0))
)
"""Marks and letters that are drawn as nothing: Unicode's default ignorable ones, and the empty
Braille pattern."""


def misleading(name: str) -> str:
    """The first character for which `name` may look like another one, as `U+202E`; '' where there
    is none.

    Nobody sees it, or it turns text around, ends a line, is a space of another width, or means
    nothing (yet)."""
    found = (c for c in name if not c.isprintable() or ord(c) in _UNSEEN)
    return next((f"U+{ord(c):04X}" for c in found), "")
