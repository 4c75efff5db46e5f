"""HTML that cannot be forgotten to be escaped: text is text unless a function of this module made
it."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_STEERING = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_VOID = frozenset({"img", "meta", "br", "link", "source"})
_SOURCES = ("data:image/png;base64,", "data:image/gif;base64,", "data:image/svg+xml;base64,")


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


Child: TypeAlias = "Html | str | int | float | None | Iterable[Child]"


def harmless(text: str) -> str:
    """`text` without what steers a terminal; what turns its direction or cannot be seen becomes
    U+FFFD.

    Line feeds and tabs stay, carriage returns before a line feed go.
    """
    if "\x1b" in text or "\x9b" in text or "\x9d" in text:
        text = _STEERING.sub("", text)
    return _UNUSUAL.sub(_visible, text.replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    return _seen(match[0])


@lru_cache(maxsize=8192)
def _seen(character: str) -> str:
    category = unicodedata.category(character)
    return _REPLACEMENT if category[0] == "C" or category in ("Zl", "Zp") else character


def escape(text: str) -> Html:
    """`text`, made harmless, for content and for attributes."""
    return Html(html.escape(harmless(text), quote=True))


def join(*children: Child) -> Html:
    """Children one after the other; what is no Html is escaped, None is nothing."""
    return Html("".join(_parts(children)))


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            yield child
        elif isinstance(child, str):
            yield escape(child)
        elif isinstance(child, int | float):
            yield escape(str(child))
        else:
            yield from _parts(child)


def tag(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Html:
    """An element. Attributes: `class_` is class, `aria_label` aria-label; None and False are left
    out.

    Raises ValueError for what no page of ours has: an event handler, a style, a link to anything
    but the page itself, a source that is no embedded picture."""
    if not _NAME.fullmatch(name) or name in ("script", "iframe", "object", "embed"):
        raise ValueError(f"no element of a page: {name}")
    written = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    opening = f"<{name}{written}>"
    return (
        Html(opening)
        if name in _VOID and not children
        else Html(f"{opening}{join(*children)}</{name}>")
    )


def _attribute(key: str, value: str | int | float | bool) -> str:
    if key.startswith("on") or key in ("style", "srcdoc", "action", "formaction"):
        raise ValueError(f"no attribute of a page: {key}")
    if key == "href" and not str(value).startswith("#"):
        raise ValueError("a page links to itself only")
    if key in ("src", "srcset") and not str(value).startswith(_SOURCES):
        raise ValueError("a page embeds its pictures")
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'


def cut(text: str, limit: int, line_limit: int = 2_000) -> tuple[str, str]:
    """The beginning of `text` and words for what is missing of it, '' for nothing.

    At most `limit` characters, and `line_limit` of each line.
    """
    shown = text[:limit]
    lost = len(text) - len(shown)
    if len(shown) > line_limit:
        lines = shown.split("\n")
        lost += sum(max(len(line) - line_limit, 0) for line in lines)
        shown = "\n".join(
            line if len(line) <= line_limit else f"{line[:line_limit]}…" for line in lines
        )
    return shown, f"{lost:,} characters left out" if lost else ""


def block(text: str, limit: int, *, label: str = "") -> Html:
    """`text` as it is written, in a box that scrolls by itself; what is cut is counted below it."""
    shown, missing = cut(text, limit)
    box = tag("pre", shown, tabindex=0, role="region" if label else None, aria_label=label or None)
    return join(box, tag("p", missing, class_="cut") if missing else None)


def line(text: str, limit: int = 200) -> str:
    """`text` on one line, at most `limit` long."""
    one = " ".join(harmless(text[: 4 * limit]).split())
    return one if len(one) <= limit and len(text) <= 4 * limit else f"{one[: limit - 1]}…"


def fold(summary: Child, *content: Child, open_: bool = False, class_: str | None = None) -> Html:
    """A part that opens by a click or a key."""
    return tag("details", tag("summary", summary), *content, open=open_, class_=class_)


def bar(share: float) -> Html:
    """A share of one as a bar; the number stands beside it."""
    width = round(min(max(share, 0.0), 1.0) * 80, 1)
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=80, height=8, class_="track"),
        tag("rect", x=0, y=0, width=width, height=8, class_="filled"),
        viewBox="0 0 80 8",
        class_="bar",
        aria_hidden="true",
    )


def table(
    caption: str,
    header: Iterable[Child],
    rows: Iterable[Iterable[Child]],
    *,
    left: Iterable[int] = (0,),
    marked: Iterable[int] = (),
) -> Html:
    """A table whose first column names its rows, in a box that scrolls by itself.

    Args:
        left: columns that are words.
        marked: rows that stand out.
    """
    words, strong = set(left), set(marked)
    head = [
        tag("th", cell, scope="col", class_="left" if i in words else None)
        for i, cell in enumerate(header)
    ]
    body = [
        tag(
            "tr",
            *[_cell(cell, i, i in words) for i, cell in enumerate(row)],
            class_="marked" if place in strong else None,
        )
        for place, row in enumerate(rows)
    ]
    made = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *body)
    )
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _cell(cell: Child, column: int, left: bool) -> Html:
    if column == 0:
        return tag("th", cell, scope="row", class_="left" if left else None)
    return tag("td", cell, class_="left" if left else None)


def facts(pairs: Iterable[tuple[str, Child]]) -> Html:
    """Names and values."""
    return tag(
        "dl",
        *[tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs],
        class_="facts",
    )
