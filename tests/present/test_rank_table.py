"""Renderings of the rank table: complete, aligned, within the width, and safe with hostile
labels."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from evopolicy.analysis import present_ranks, published_scores, rank_table
from evopolicy.analysis.paper.published import FAMILIES
from evopolicy.analysis.records.scores import CellScore
from evopolicy.analysis.tables.ranks import RankTable
from evopolicy.kernel.shown import clean
from evopolicy.present import render
from evopolicy.present.grid import align, wrap
from evopolicy.present.html import render_html
from evopolicy.present.text import render_rich

HOSTILE = "\x1b[31m[bold]<script>alert(1)</script>|`x`\u202e\n=cmd()"


def scored(rows: dict[str, dict[str, Sequence[float]]], error: float | None = 1.0) -> RankTable:
    """A table of entries by Benchmark by seeds."""
    cells = [
        CellScore(
            entry, benchmark, seed, "done", mean=mean, standard_error=error, episodes=8, reason=""
        )
        for entry, row in rows.items()
        for benchmark, seeds in row.items()
        for seed, mean in enumerate(seeds)
    ]
    return rank_table([], extra=cells)


SMALL = scored(
    {
        "baseline": {"cartpole": [9.4, 9.2], "pendulum": [-1240.0, -1230.0]},
        "cma_es": {"cartpole": [500.0, 500.0], "pendulum": [-152.0, -150.0]},
    }
)
PUBLISHED = rank_table([], groups=FAMILIES, extra=published_scores())


def in_terminal(table: RankTable, width: int, colour: bool = False) -> str:
    console = Console(
        width=width, file=io.StringIO(), force_terminal=colour, no_color=False, legacy_windows=False
    )
    console.print(render_rich(present_ranks(table)))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_small_table_stands_side_by_side() -> None:
    assert render(present_ranks(SMALL), "terminal", 100).splitlines()[:5] == [
        "              rank",
        "#  entry     score  wins  top 2      cartpole    pendulum  cells",
        "─  ────────  ─────  ────  ─────  ────────────  ──────────  ─────",
        "1  cma_es    1.000     2      2  500.0* ± 0.0   -151* ± 1    4/4",
        "2  baseline  0.000     0      2    9.3  ± 0.1  -1235  ± 5    4/4",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_wider_than_asked_for(width: int) -> None:
    for table in (SMALL, PUBLISHED):
        for text in (render(present_ranks(table), "terminal", width), in_terminal(table, width)):
            assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= width


@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_cut_at_any_width(width: int) -> None:
    """Every Benchmark, every held-out mean and every rank score is there, whatever is broken into
    lines."""
    for text in (
        render(present_ranks(PUBLISHED), "terminal", width),
        in_terminal(PUBLISHED, width),
    ):
        for benchmark in PUBLISHED.benchmarks:
            assert benchmark in text
        for number in (
            "0.891",
            "0.750",
            "0.531",
            "0.359",
            "0.109",
            "98.77",
            "-499.2",
            "-53.38",
            "0.938",
        ):
            assert number in text
        assert "…" not in text


def test_decimal_points_stand_below_each_other() -> None:
    lines = [
        line
        for line in render(present_ranks(PUBLISHED), "terminal", 200).splitlines()
        if re.match(r"[A-Za-z].*-v\d ", line)
    ]
    points = [[match.start() for match in re.finditer(r"\.(?=\d)", line)] for line in lines]

    assert len(lines) == 16
    assert len({tuple(line) for line in points}) == 1


def test_the_best_is_starred_where_there_is_no_bold_and_bold_where_there_is() -> None:
    coloured = in_terminal(SMALL, 100, colour=True)

    assert "500.0*" in render(present_ranks(SMALL), "terminal")
    assert "500.0*" in in_terminal(SMALL, 100)
    assert "500.0*" not in coloured
    assert re.search(r"\x1b\[1;32m *500\.0", coloured)
    assert "9.3*" not in render(present_ranks(SMALL), "terminal")
    assert "**500.0 ± 0.0**" in render(present_ranks(SMALL), "markdown")
    assert "<strong>500.0 ± 0.0</strong>" in render(present_ranks(SMALL), "html")


def test_a_tie_has_two_best_and_a_single_entry_none() -> None:
    tied = scored({"a": {"x": [1.0]}, "b": {"x": [1.0]}, "c": {"x": [0.0]}}, None)
    alone = scored({"a": {"x": [1.0]}}, None)

    assert render(present_ranks(tied), "terminal").count(" 1*") == 2
    assert (
        "*"
        not in render(present_ranks(alone), "terminal").replace("* best", "").split("Rank score")[0]
    )


def test_a_small_error_is_not_written_as_nothing() -> None:
    table = scored({"a": {"x": [-0.62, -0.58]}, "b": {"x": [1400.0, 1450.0]}})

    assert "-0.60 ± 0.02" in " ".join(render(present_ranks(table), "terminal", 120).split())
    assert "± 25" in " ".join(render(present_ranks(table), "terminal", 120).split())


def test_huge_and_tiny_scores_are_written_as_powers_of_ten() -> None:
    table = scored({"a": {"x": [1.5e12], "y": [2e-4]}, "b": {"x": [1.0], "y": [1e-4]}}, None)

    assert "1.5e+12" in render(present_ranks(table), "terminal")
    assert "0.0002" in render(present_ranks(table), "terminal")


def test_missing_cells_show_whether_they_are_still_to_come() -> None:
    cells = [
        CellScore("a", "x", 0, "done", mean=1.0),
        CellScore("b", "x", 0, "pending"),
        CellScore("c", "x", 0, "failed", reason="disk full"),
    ]
    lines = render(present_ranks(rank_table([], extra=cells)), "terminal").splitlines()

    assert lines[-1] != ""
    rows = {line.split()[1]: line.split() for line in lines[3:6]}
    assert rows["b"] == ["–", "b", "–", "–", "–", "…", "0/1"]
    assert rows["c"] == ["–", "c", "–", "–", "–", "–", "0/1"]


def test_a_mean_over_fewer_seeds_than_planned_is_marked() -> None:
    cells = [
        CellScore("a", "x", 0, "done", mean=1.0, standard_error=0.5),
        CellScore("a", "x", 1, "running"),
        CellScore("b", "x", 0, "done", mean=1.0),
        CellScore("b", "x", 1, "done", mean=2.0),
    ]
    table = rank_table([], extra=cells)

    assert "1.00 ± 0.50† (1/2)" in " ".join(render(present_ranks(table), "terminal").split())
    assert any(note.startswith("† one seed only") for note in table.notes)


def test_csv_keeps_every_digit_and_reads_back() -> None:
    (first, *_) = csv.DictReader(io.StringIO(render(present_ranks(PUBLISHED), "csv")))

    assert first["entry"] == "GPT-5.5"
    assert float(first["rank_score"]) == 0.890625
    assert float(first["rank_score MiniGrid"]) == 0.8125
    assert float(first["MountainCarContinuous-v0"]) == 95.21632036034762
    assert first["MountainCarContinuous-v0 standard_error"] == ""


def test_csv_has_numbers_where_a_table_for_people_has_words_of_them() -> None:
    cells = [
        CellScore("a", "x", 0, "done", mean=1.0, episodes=8, failed=3),
        CellScore("a", "x", 1, "pending"),
    ]
    sheet = present_ranks(rank_table([], extra=cells))
    (row,) = csv.DictReader(io.StringIO(render(sheet, "csv")))

    assert not {"done", "failed"} & set(row)
    assert [row[key] for key in ("cells_done", "cells", "failed_episodes", "episodes")] == [
        "1",
        "2",
        "3",
        "8",
    ]
    assert "1/2" in render(sheet, "terminal")
    assert "3/8" in render(sheet, "terminal")


@pytest.mark.parametrize(("benchmarks", "apart"), [(6, False), (7, True)])
def test_many_benchmarks_have_a_table_of_their_own_at_any_width(
    benchmarks: int, apart: bool
) -> None:
    sheet = present_ranks(
        scored({entry: {f"b{place}": [1.0] for place in range(benchmarks)} for entry in ("a", "b")})
    )

    for width in (200, 1000):
        lines = render(sheet, "terminal", width).splitlines()
        assert any(line.startswith("b0 ") for line in lines) is apart
    assert render(sheet, "html").count("<table") == 1 + apart
    assert ("held-out mean" in render(sheet, "html")) is apart


def test_markdown_is_one_table_of_equal_rows_and_a_list() -> None:
    table, notes = render(present_ranks(SMALL), "markdown").strip().split("\n\n")
    rows = table.splitlines()

    assert {row.count("|") for row in rows} == {9}
    assert all(note.startswith("- ") for note in notes.splitlines())


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("document", [True, False])
def test_html_is_well_formed_and_needs_nothing_else(document: bool) -> None:
    page = render_html(present_ranks(PUBLISHED), document=document)
    tags = _Tags()
    tags.feed(page)

    assert tags.open == []
    assert ("html" in tags.seen) is document
    assert "0.891" in tags.text
    assert not re.search(r"https?://|src=|@import|url\(", page)


FORMS = ("terminal", "csv", "markdown", "html", "latex", "console")
"""`console`: as rich draws it."""


def drawn(table: RankTable, form: str) -> str:
    return in_terminal(table, 80) if form == "console" else render(present_ranks(table), form)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_hostile_labels_do_nothing(form: str) -> None:
    cells = [
        CellScore(HOSTILE, HOSTILE, 0, "done", mean=1.0),
        CellScore("b", HOSTILE, 0, "failed", reason=HOSTILE),
    ]
    out = drawn(rank_table([], extra=cells, notes=[HOSTILE], groups={HOSTILE: HOSTILE}), form)

    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "alert" in out
    if form in ("markdown", "html"):
        assert "<script" not in out
    if form == "html":
        tags = _Tags()
        tags.feed(out)
        assert "script" not in tags.seen
    if form == "markdown":
        rows = [line for line in out.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows[:3]}) == 1


def test_rich_markup_in_a_label_is_text() -> None:
    table = rank_table([], extra=[CellScore("[red]a[/red]", "x", 0, "done", mean=1.0)])

    assert "[red]a[/red]" in in_terminal(table, 80)


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@SUM(A1)", " =1"])
def test_no_label_is_a_formula_in_a_spreadsheet(label: str) -> None:
    table = rank_table([], extra=[CellScore(label, "x", 0, "done", mean=-1.0)])
    (row,) = csv.DictReader(io.StringIO(render(present_ranks(table), "csv")))

    assert row["entry"] == f"'{label.strip()}"
    assert row["x"] == "-1.0"


def test_an_empty_table_renders_everywhere() -> None:
    for form in FORMS:
        assert isinstance(drawn(rank_table([]), form), str)
    assert render(present_ranks(rank_table([])), "terminal") == "No cells yet.\n"


def test_wide_characters_keep_the_columns() -> None:
    table = scored({"模型": {"x": [1.0]}, "model": {"x": [2.0]}}, None)
    lines = render(present_ranks(table), "terminal").splitlines()[2:5]

    assert len({cell_len(line) for line in lines}) == 1


@given(st.text(max_size=60))
def test_cleaned_text_is_one_printable_line(text: str) -> None:
    assert "\n" not in clean(text)
    assert all(c == " " or c.isprintable() or c == "\ufffd" for c in clean(text))


@given(st.text(alphabet="ab-_/= ", max_size=60), st.integers(4, 30))
def test_wrapping_loses_nothing_and_fits(text: str, width: int) -> None:
    lines = wrap(text, width).split("\n")

    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@given(
    st.lists(
        st.floats(-1e6, 1e6).map(lambda x: f"{x:.2f}") | st.integers(-999, 999).map(str), min_size=1
    )
)
def test_aligned_numbers_share_one_width_and_one_point(numbers: list[str]) -> None:
    aligned = align(numbers)

    assert len({len(number) for number in aligned}) == 1
    assert [number.strip() for number in aligned] == numbers
    assert len({number.index(".") for number in aligned if "." in number}) <= 1
