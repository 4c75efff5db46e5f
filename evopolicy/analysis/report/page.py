"""The page around a report: one document that needs nothing else, asks nothing of any network and
runs no script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from evopolicy.analysis.report.shape import Figure
from evopolicy.analysis.report.style import STYLE
from evopolicy.present.markup import Child, Html, join, line, tag

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; img-src data:; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'"
)
"""Content-Security-Policy: what an escape that failed would still not do."""


def entry(anchor: str, name: str, aside: str = "", below: Sequence[Html] = ()) -> Html:
    """One line of the contents."""
    link = tag(
        "a",
        tag("span", name),
        tag("span", aside, class_="soft") if aside else None,
        href=f"#{anchor}",
    )
    return tag("li", link, tag("ol", *below) if below else None)


def document(title: str, contents: Sequence[Html], *body: Child) -> str:
    """The whole page; `body` begins with the `h1`."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", line(title)),
        Html(f"<style>{STYLE}</style>"),
    )
    page = tag(
        "div",
        tag("nav", tag("ol", *contents), class_="toc", aria_label="Contents"),
        tag("main", *body, id="main", tabindex=-1),
        class_="page",
    )
    skip = tag("a", "Skip to the report", href="#main", class_="skip")
    return join(
        Html("<!doctype html>\n"), tag("html", head, tag("body", skip, page), lang="en"), Html("\n")
    )


def figure(drawn: Figure) -> Html:
    """As an image, whose own styles stay in it, in a box that scrolls where the page is too narrow
    to read it."""
    title = line(drawn.title)
    if not drawn.svg:
        return tag(
            "figure",
            tag("figcaption", title),
            tag("p", f"Not drawn: {line(drawn.problem, 500)}.", class_="cut"),
        )
    dark = (
        tag("source", srcset=_embedded(drawn.dark), media="(prefers-color-scheme:dark)")
        if drawn.dark
        else None
    )
    image = tag("img", src=_embedded(drawn.svg), alt=line(drawn.text, 600))
    box = tag(
        "div",
        tag("picture", dark, image),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=title,
    )
    return tag("figure", tag("figcaption", title), box, class_="drawn")


def _embedded(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
