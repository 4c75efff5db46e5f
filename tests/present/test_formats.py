"""One table in every format: the same digits, and no text in it is taken for markup."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicy.analysis import present_ranks, rank_table
from evopolicy.analysis.records.scores import CellScore
from evopolicy.present import Cell, Column, Format, Table, render
from evopolicy.present.formats import FORMATS
from evopolicy.present.numbers import plural, rank_score
from evopolicy.present.structured import render_json

HOSTILE = Table(
    "rank",
    "quick <b>",
    (Column("entry", "entry", text=True), Column("rank_score", "rank score"), Column("x", "x")),
    (
        (
            Cell("<script>alert(1)</script> | *a*", "<script>alert(1)</script> | *a*"),
            Cell(1.0, "1.000"),
            Cell(),
        ),
    ),
)


def test_text_is_escaped_in_html() -> None:
    page = render(HOSTILE, "html")
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<b>" not in page


def test_text_is_escaped_in_markdown() -> None:
    row = render(HOSTILE, "markdown").splitlines()[-1]
    assert "&lt;script&gt;" in row
    assert "\\| \\*a\\*" in row


def test_json_keeps_values() -> None:
    rows = json.loads(render_json(HOSTILE))["rows"]
    assert rows == [{"entry": "<script>alert(1)</script> | *a*", "rank_score": 1.0, "x": None}]


@pytest.mark.parametrize("form", ["terminal", "markdown", "html", "latex"])
def test_what_follows_a_number_keeps_its_space(form: Format) -> None:
    cells = (Cell("a", "a"), Cell(1.0, "1", "2", " (2/3)"), Cell(3.0, "3", tail=" (1/3)"))
    columns = (Column("entry", "entry", text=True), Column("x", "x"), Column("y", "y"))
    text = render(Table("t", "t", columns, (cells,)), form)
    assert " (2/3)" in text and "3 (1/3)" in text


# --- a rank score has the same digits everywhere --------------------------------------------------


def half_even(share: Fraction) -> str:
    """`share` with three decimals, by exact arithmetic: a half goes to the even digit."""
    return f"{round(share * 1000) // 1000}.{round(share * 1000) % 1000:03d}"


@pytest.mark.parametrize("entries", range(2, 13))
def test_a_rank_score_is_rounded_half_to_even_on_its_exact_value(entries: int) -> None:
    """Every score there can be: ranks sum to whole numbers of 1 / (N - 1)."""
    for benchmarks in range(1, 21):
        for points in range(benchmarks * (entries - 1) + 1):
            share = Fraction(points, benchmarks * (entries - 1))
            assert rank_score(points / (benchmarks * (entries - 1))) == half_even(share)


def tables() -> st.SearchStrategy[list[list[int]]]:
    """Means of N entries on B Benchmarks, ties among them."""
    sizes = st.tuples(st.integers(2, 12), st.integers(1, 20))
    return sizes.flatmap(
        lambda size: st.lists(
            st.lists(st.integers(0, 2 * size[0]), min_size=size[1], max_size=size[1]),
            min_size=size[0],
            max_size=size[0],
        )
    )


@settings(max_examples=25, deadline=None)
@given(tables())
def test_every_format_has_the_digits_of_the_exact_rank_score(means: list[list[int]]) -> None:
    cells = [
        CellScore(
            f"e{i}",
            f"b{j}",
            0,
            "done",
            mean=float(mean),
            standard_error=None,
            episodes=8,
            reason="",
        )
        for i, row in enumerate(means)
        for j, mean in enumerate(row)
    ]
    table = present_ranks(rank_table([], extra=cells))
    exact = {f"e{i}": half_even(exact_score(means, i)) for i in range(len(means))}
    for form in FORMATS:
        if form != "csv":
            assert digits_of(table, form, list(exact)) == exact, form


def exact_score(means: Sequence[Sequence[int]], place: int) -> Fraction:
    """The mean over Benchmarks of 1 - (rank - 1) / (N - 1), ties sharing the best rank."""
    shares = [
        1 - Fraction(sum(other[b] > mean for other in means), len(means) - 1)
        for b, mean in enumerate(means[place])
    ]
    return sum(shares, Fraction(0)) / len(shares)


def digits_of(table: Table, form: Format, entries: Sequence[str]) -> dict[str, str]:
    """What stands for the rank score behind each entry's name, in the first table that has it."""
    text = render(table, form, 200)
    text = re.sub(r"<[^>]*>|[|&}]|\*\*|\\textbf\{", " ", text)
    rows = [line.split() for line in text.splitlines()]
    found: dict[str, str] = {}
    for row in rows:
        for place, word in enumerate(row[:-1]):
            if word in entries and word not in found and place:
                found[word] = row[place + 1]
    return found


def test_a_count_has_its_noun_in_the_plural_and_its_thousands_apart() -> None:
    assert [plural(count, "Run") for count in (0, 1, 2, 1024)] == [
        "0 Runs",
        "1 Run",
        "2 Runs",
        "1,024 Runs",
    ]
