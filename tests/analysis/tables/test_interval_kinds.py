"""Intervals of several kinds in one table are told apart where the number is, not in the foot
alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evopolicy.analysis import find_runs, load_frames
from evopolicy.analysis.tables.config import table_config
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.present import render
from evopolicy.present.formats import FORMATS
from evopolicy.present.table import Cell, Column, Table, mark_kinds
from evopolicy.presets import option


def cell(kind: str, tail: str = "") -> Cell:
    return Cell(1.0, "1 [0, 2]", tail=tail, low=0.0, high=2.0, over="runs", kind=kind)


def test_a_kind_is_marked_at_its_column_where_it_is_alone_and_else_at_the_number() -> None:
    columns = tuple(Column(name, name) for name in ("a", "b", "c", "d"))
    rows = (
        (cell("one"), cell("two"), cell("one"), cell("")),
        (cell("one"), cell("two"), cell("two", " (3; 4)"), cell("")),
    )
    notes = (
        "[low, high]: 95 % confidence interval one.",
        "[low, high]: 95 % confidence interval two.",
        "Of [low, high]: nothing.",
    )
    marked = mark_kinds(Table("t", "t", columns, rows, notes=notes))
    assert [head.title for head in marked.columns] == ["a", "b †", "c", "d"]
    assert [[one.whole for one in row] for row in marked.rows] == [
        ["1 [0, 2]"] * 4,
        ["1 [0, 2]", "1 [0, 2]", "1 [0, 2]† (3; 4)", "1 [0, 2]"],
    ]
    assert marked.notes == (notes[0], "[low, high]†: 95 % confidence interval two.", notes[2])
    alone = Table("t", "t", columns[:1], (rows[0][:1],), notes=notes)
    assert mark_kinds(alone) == alone


def test_a_table_of_cells_with_few_and_with_enough_runs_marks_which_is_which(
    lay_run: Callable[..., Path], tmp_path: Path
) -> None:
    for slug, seeds in (("cartpole", 3), ("pendulum", 1)):
        for entry in ("ada", "bob"):
            for seed in range(seeds):
                lay_run(entry, slug, seed, [1.0 + seed + len(slug), 2.0 + 2 * seed, 4.0])
    frames = load_frames(find_runs(tmp_path / "outputs"))
    values = {**option("table", "difference"), "replicates": 100}
    sheet = paper_table(table_config(values), frames)
    kinds = {one.kind for row in sheet.rows for one in row if one.kind}
    assert len(kinds) == 3
    told = {
        note.split("interval ")[1][:-1]: note.split(":")[0]
        for note in sheet.notes
        if note.startswith("[low, high]")
    }
    assert set(told) == kinds and len(set(told.values())) == 3
    differences, improvements = ([row[place] for row in sheet.rows] for place in (2, 4))
    assert ["†" in one.whole for one in differences] == [False, True]
    assert told["over Episodes, of these Runs, Student's t"] == "[low, high]†"
    assert sheet.columns[4].title == "P(higher) §" and improvements[1].kind == ""
    for form in FORMATS:
        assert render(sheet, form)
