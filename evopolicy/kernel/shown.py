"""Text for people: what agents and Programs wrote, made harmless to look at, and counts of things."""

from __future__ import annotations

import unicodedata

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean(text: str, limit: int = 400) -> str:
    """`text` on one line, at most `limit` long, with nothing that steers a terminal or turns its direction."""
    shown = " ".join(text[: 4 * limit].split())
    safe = "".join(_REPLACEMENT if unicodedata.category(c).startswith("C") else c for c in shown)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def plural(count: int, word: str) -> str:
    """`1 Run`, `1,024 Runs`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
