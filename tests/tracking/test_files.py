"""Under which names files are logged."""

from __future__ import annotations

import pytest

from evopolicy.tracking.files import is_active

ACTIVE = (
    *(
        "a.html",
        "a.HTML",
        "A.Htm",
        "a.xhtml",
        "a.xht",
        "a.shtml",
        "a.hta",
        "a.htc",
        "a.mht",
        "a.MHTML",
        "a.svg",
        "a.Svg",
    ),
    *(
        "a.svgz",
        "a.js",
        "a.mjs",
        "a.xml",
        "a.xsl",
        "a.xslt",
        "a.rdf",
        "a.atom",
        "a.rss",
        "a.mml",
        "a.mathml",
    ),
    *("a.swf", "a.pdf", "a.PDF", "a.html.gz", "a.SVG.gz", "a.html.txt", "deep/in/a.html"),
)
QUIET = (
    "policy.py",
    "a.txt",
    "a.md",
    "a.csv",
    "a.json",
    "a.png",
    "a.gif",
    "html",
    "a.htmlx",
    "html.py",
    "in.html/a.py",
)


@pytest.mark.parametrize("name", ACTIVE)
def test_what_a_browser_may_run_is_active_in_any_case_and_behind_any_ending(name: str) -> None:
    assert is_active(name)


@pytest.mark.parametrize("name", QUIET)
def test_what_is_only_shown_keeps_its_name(name: str) -> None:
    assert not is_active(name)
