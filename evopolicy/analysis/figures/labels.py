"""Names of entries and Benchmarks as figures have room for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from evopolicy.kernel.shown import clean

_LABEL = 34
"""Characters."""


def labels(names: Iterable[str]) -> dict[str, str]:
    """Each of `names` as it is drawn: on one line, with nothing that steers, and where one is long
    without what all share: what tells them apart is never cut."""
    shown = {name: clean(name) for name in names}
    if len(shown) > 1 and max(map(len, shown.values())) > _LABEL:
        parts = {name: text.split(" ") for name, text in shown.items()}
        common = set.intersection(*map(set, parts.values()))
        own = {
            name: [word for word in words if word not in common] for name, words in parts.items()
        }
        shown = {
            name: " ".join(["…", *own[name]] if common and own[name] else parts[name])
            for name in shown
        }
    cut = {
        name: _cut(text, [other for other in shown.values() if other != text])
        for name, text in shown.items()
    }
    often = Counter(cut.values())
    return {name: text if often[text] == 1 else shown[name] for name, text in cut.items()}


def _cut(text: str, others: Sequence[str]) -> str:
    """`text` in `_LABEL` characters, around the place where the one most like it differs."""
    if len(text) <= _LABEL:
        return text
    place = max((_alike(text, other) for other in others), default=0)
    start = max(0, min(place - _LABEL // 3, len(text) - _LABEL + 1))
    if start == 0:
        return clean(text, _LABEL)
    tail = (
        text[start + 1 :]
        if start + _LABEL > len(text)
        else f"{text[start + 1 : start + _LABEL - 1]}…"
    )
    return f"…{tail}"


def _alike(one: str, other: str) -> int:
    """Characters that both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
