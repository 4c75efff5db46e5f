"""docs/isolation.md: each promise names what holds it to it, and that is there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "isolation.md").read_text()
PROGRAMS = {path.stem for path in (TESTS / "execution" / "hostile" / "programs").glob("*.py")}
# Where every point of a list is a promise.
PROMISED = (
    "## At `bubblewrap` and at `landlock` a Policy can",
    "## What `bubblewrap` adds",
    "### At both levels",
)


def _functions() -> set[str]:
    sources = (
        path for folder in ("execution", "session") for path in (TESTS / folder).rglob("test_*.py")
    )
    return {
        name
        for path in sources
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }


def test_every_test_the_page_names_is_there() -> None:
    named = [
        name.strip()
        for names in re.findall(r"\[tests: ([^\]]*)\]", PAGE)
        for name in names.split(",")
    ]
    assert len(named) > 40
    assert sorted(set(named) - PROGRAMS - _functions()) == []


def test_every_promise_names_its_test() -> None:
    for heading in PROMISED:
        assert PAGE.count(f"{heading}\n") == 1, heading
        section = re.split(r"^##", PAGE.partition(f"{heading}\n")[2], flags=re.MULTILINE)[0]
        points = [
            point.partition("\n\n")[0]
            for point in re.split(r"^- ", section, flags=re.MULTILINE)[1:]
        ]
        assert points, heading
        assert [point for point in points if "[tests: " not in point] == []


def test_every_hostile_program_is_named_but_for_those_of_the_wire_and_of_limits() -> None:
    """Those are rows of the table of outcomes: each has its end in `ENDS`."""
    held = {
        name.strip()
        for names in re.findall(r"\[tests: ([^\]]*)\]", PAGE)
        for name in names.split(",")
    }
    rows = re.compile(
        r"wire_|busy_|memory_|.*_action$|.*_array$|.*exception$|.*recursion$|lying_|sleep|exits|aborts|kills_"
    )
    others = {"closes_output", "fills_scratch", "opens_many", "patches", "print_much"}
    assert {name for name in PROGRAMS - held if not rows.match(name)} - others == set()
