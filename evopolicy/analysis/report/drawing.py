"""Small drawings in SVG that take their colours from the page: they are right in the light and in the dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evopolicy.present.markup import Html, join, line, tag
from evopolicy.present.numbers import typeset

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 20, 16, 62
_APART = 18
"""Pixels between the numbers of two Submissions, at least."""
STYLES = 8
"""Colours and dashes for lines of different entries, as the page's style names them."""


class _Scale:
    """Values to pixels."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = (low, high) if high > low else (low - 0.5, low + 0.5)
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        return round(self._start + (value - self.low) / (self.high - self.low) * (self._end - self._start), 1)

    def ticks(self, most: int) -> list[float]:
        """Round values inside of the scale."""
        raw = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 and math.isfinite(raw) else 1.0
        step = next((power * times for times in (1, 2, 5, 10) if power * times >= raw), power * 10)
        first = math.ceil(self.low / step - 1e-9)
        return [round((first + i) * step, 12) for i in range(most + 2) if (first + i) * step <= self.high + 1e-9 * step]


def _padded(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = (high - low) * share or max(abs(high) * share, 0.5)
    return low - room, high + room


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _text(x: float, y: float, text: str, class_: str = "") -> Html:
    return tag("text", text, x=x, y=y, class_=class_ or None)


def svg(title: str, text: str, *content: Html, width: int = WIDTH, height: int = HEIGHT, class_: str = "chart") -> Html:
    """A drawing in a box that scrolls by itself where the page is narrower than what can be read."""
    drawn = tag(
        "svg", tag("title", title), tag("desc", text), *content,
        viewBox=f"0 0 {width} {height}", role="img", aria_label=f"{title}. {text}", class_=class_,
    )  # fmt: skip
    return tag("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=title)


def _axes(x: _Scale, y: _Scale, height: int, x_title: str, width: int = WIDTH) -> list[Html]:
    made = []
    for value in y.ticks(4):
        made.append(_line(_LEFT, y(value), width - _RIGHT, y(value), "grid"))
        made.append(_text(_LEFT - 8, y(value) + 4, typeset(value), "end"))
    made.extend(_text(x(value), height - 24, typeset(value), "middle") for value in x.ticks(6))
    made.append(_text((_LEFT + width - _RIGHT) / 2, height - 6, x_title, "middle"))
    return made


# --- the Run -----------------------------------------------------------------------------------------------------


def timeline(
    rows: Sequence[Mapping[str, Any]], phases: Sequence[Mapping[str, Any]], budget: int, heldout: float | None
) -> Html | None:
    """Scores over Episode units: training and Validation of each Submission, the best so far, phases of editing.

    `rows` as `shape.RunPart.rows`. None where nothing has a score.
    """
    scores = [row[key] for row in rows for key in ("score", "validation") if row.get(key) is not None]
    if not scores:
        return None
    x = _Scale(0, max([budget, *(row["units_used"] for row in rows)]), _LEFT, WIDTH - _RIGHT)
    reached = [*scores, *([heldout] if heldout is not None else [])]
    y = _Scale(*_padded(reached), HEIGHT - _BOTTOM, _TOP + (24 if phases else 6))
    made = [*_bands(phases, x), *_axes(x, y, HEIGHT, "Episode units used")]
    made.append(_best(rows, "score", x, y, "best"))
    made.append(_best(rows, "validation", x, y, "best validated"))
    if heldout is not None:
        made.append(_line(_LEFT, y(heldout), WIDTH - _RIGHT, y(heldout), "heldout"))
        made.append(_text(_LEFT + 5, y(heldout) - 5, f"held-out {typeset(heldout)}", "heldout-text"))
    made.extend(_points(rows, x, y))
    return svg("Scores over the Run", _spoken(rows, heldout), *made)


def _spoken(rows: Sequence[Mapping[str, Any]], heldout: float | None) -> str:
    scored = [row for row in rows if row["score"] is not None]
    best = max(scored, key=lambda row: row["score"], default=None)
    words = f"{len(rows)} Submissions"
    if best is not None:
        words += f", best training score {typeset(best['score'])} at Submission {best['submission']}"
    if heldout is not None:
        words += f", held-out {typeset(heldout)}"
    return f"{words}. The table of Submissions has the numbers."


def _bands(phases: Sequence[Mapping[str, Any]], x: _Scale) -> list[Html]:
    made = []
    for phase in phases:
        start, end = x(phase["first_unit"]), x(phase["last_unit"])
        kind = "synthesis" if phase["kind"] == "synthesis" else "parametric"
        made.append(
            tag("rect", x=start, y=_TOP - 10, width=max(end - start - 1, 1), height=HEIGHT - _BOTTOM - _TOP + 16,
                class_=f"phase {kind}")
        )  # fmt: skip
        if end - start > 64:
            made.append(_text(start + 5, _TOP + 4, kind, "small"))
    return made


def _best(
    rows: Sequence[Mapping[str, Any]], key: str, x: _Scale, y: _Scale, class_: str, end: float | None = None
) -> Html:
    """The best so far as steps, up to the unit `end` (the last Submission's by default)."""
    path, best = "", None
    for row in rows:
        value = row.get(key)
        if value is not None and (best is None or value > best):
            path += f"M{x(row['units_used'])} {y(value)}" if best is None else f"H{x(row['units_used'])}V{y(value)}"
            best = value
    if best is None:
        return Html("")
    last = max(row["units_used"] for row in rows) if end is None else end
    return tag("path", d=f"{path}H{x(last)}", class_=class_)


def _points(rows: Sequence[Mapping[str, Any]], x: _Scale, y: _Scale) -> list[Html]:
    made, free = [_text(_LEFT - 8, HEIGHT - _BOTTOM + 20, "Submission", "end small")], -math.inf
    for row in rows:
        at = x(row["units_used"])
        if at >= free:
            made.append(_text(at, HEIGHT - _BOTTOM + 20, str(row["submission"]), "middle small"))
            free = at + _APART
        if row.get("validation") is not None:
            top = y(row["validation"])
            made.append(tag("path", d=f"M{at} {top - 5}l5 5l-5 5l-5 -5z", class_="validation"))
        if row["score"] is not None:
            best = " new" if row.get("new_best_training") else ""
            made.append(tag("circle", cx=at, cy=y(row["score"]), r=4, class_=f"training{best}"))
        else:
            made.append(_text(at, HEIGHT - _BOTTOM - 4, "×", "middle failed"))
    return made


def legend(*items: tuple[str, str]) -> Html:
    """(mark's class, words) each, below a drawing."""
    shapes = {
        "training": tag("circle", cx=8, cy=8, r=4, class_="training"),
        "training new": tag("circle", cx=8, cy=8, r=4, class_="training new"),
        "validation": tag("path", d="M8 3l5 5l-5 5l-5 -5z", class_="validation"),
        "heldout": _line(0, 8, 16, 8, "heldout"),
    }
    made = [
        tag("li", tag("svg", shapes.get(mark, _line(0, 8, 16, 8, mark)), viewBox="0 0 16 16", class_="key",
                      aria_hidden="true"), words)
        for mark, words in items
    ]  # fmt: skip
    return tag("ul", *made, class_="legend")


# --- Episodes ----------------------------------------------------------------------------------------------------


def episode_points(scores: Sequence[float], failed: Sequence[bool], mean: float, error: float | None) -> Html:
    """A point an Episode, stacked where they meet, with the mean and its standard error."""
    x = _Scale(*_padded([*scores, mean]), _LEFT, WIDTH - _RIGHT)
    bins: dict[int, int] = {}
    places = []
    for score in scores:
        column = round(x(score) / 8)
        places.append((x(score), bins.get(column, 0)))
        bins[column] = bins.get(column, 0) + 1
    tallest = max(bins.values())
    step = min(8.0, 150 / tallest)
    height = round(66 + step * tallest)
    base = height - 46
    made = []
    if error:
        made.append(
            tag("rect", x=x(max(mean - error, x.low)), y=6, height=base - 4, class_="error",
                width=max(x(min(mean + error, x.high)) - x(max(mean - error, x.low)), 1))
        )  # fmt: skip
    made += [_line(x(mean), 6, x(mean), base + 2, "mean"), _line(_LEFT, base + 3, WIDTH - _RIGHT, base + 3, "grid")]
    made += [_text(x(value), base + 20, typeset(value), "middle") for value in x.ticks(6)]
    made.append(_text(WIDTH / 2, height - 6, "score of a held-out Episode", "middle"))
    for (at, level), lost in zip(places, failed, strict=True):
        class_ = "episode lost" if lost else "episode"
        made.append(tag("circle", cx=at, cy=round(base - 4 - level * step, 1), r=3.5, class_=class_))
    words = f"{len(scores)} Episodes from {typeset(min(scores))} to {typeset(max(scores))}, mean {typeset(mean)}"
    return svg("Held-out Episodes", f"{words}, Policy failures {sum(failed)}.", *made, height=height)


# --- several Runs ------------------------------------------------------------------------------------------------


def bar(share: float | None) -> Html | None:
    """A share of one as a bar; the number stands beside it."""
    if share is None:
        return None
    width = round(min(max(share, 0.0), 1.0) * 80, 1)
    return tag(
        "svg", tag("rect", x=0, y=0, width=80, height=8, class_="track"),
        tag("rect", x=0, y=0, width=width, height=8, class_="filled"),
        viewBox="0 0 80 8", class_="bar", aria_hidden="true",
    )  # fmt: skip


def curves(benchmark: str, lines: Iterable[tuple[str, int, Sequence[Mapping[str, Any]]]]) -> Html | None:
    """Best training score so far over Episode units on one Benchmark: (entry, number of its style, rows) a Run."""
    scored = [(entry, style, [row for row in rows if row["score"] is not None]) for entry, style, rows in lines]
    found = [one for one in scored if one[2]]
    if not found:
        return None
    width, height = 380, 230
    units = 1.05 * max(row["units_used"] for _, _, rows in found for row in rows)
    scores = [row["score"] for _, _, rows in found for row in rows]
    bests = [max(row["score"] for row in rows) for _, _, rows in found]
    firsts = [rows[0]["score"] for _, _, rows in found]
    x = _Scale(0, units, _LEFT, width - _RIGHT)
    y = _Scale(*_padded([*bests, *firsts]), height - 46, _TOP)
    drawn = [_best(rows, "score", x, y, f"curve c{style % STYLES}", units) for _, style, rows in found]
    name = line(benchmark, 60)
    words = f"{len(found)} Runs, best training score {typeset(max(scores))}"
    made = [*_axes(x, y, height, "Episode units used", width), *drawn]
    return tag(
        "figure", tag("figcaption", name),
        svg(f"Best so far on {name}", words, *made, width=width, height=height, class_="chart half"),
    )  # fmt: skip


def joined(parts: Iterable[Html | None]) -> Html:
    return join(*parts)
