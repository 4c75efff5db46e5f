"""Tables of what happened in Runs: which Runs they are of, and what of them is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evopolicy
from evopolicy.analysis.records.frames import COLUMNS as FRAMES
from evopolicy.analysis.tables.config import COLUMNS, TableColumn, TableConfig
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.present import render
from evopolicy.present.table import Cell, Table
from tests.analysis.trajectories import Made, Sent, frames

Lay = Callable[..., Path]
FACTS: dict[str, Any] = {
    "status": "done", "reason": "", "benchmark_id": "f/CartPole-v1", "axes": {}, "wall_seconds": 1.0,
    "isolation": "landlock", "parameters": "p", "pool": "pool", "budget": "budget", "selection": "validation_mean",
}  # fmt: skip
GOOD = [Sent("x=1", 5.0, 1.0, assessment=10.0)]
TWO = [Sent("x=1", 0.0, assessment=0.0), Sent("y=x+1", 10.0, assessment=1.0)]
GONE = [Sent(None, float(i), assessment=1.0, program=f"p{i}") for i in range(3)]


def made(sent: list[Sent], seed: int, entry: str = "ada", **facts: Any) -> Made:
    selected = 1 if sent else None
    return Made(
        sent, f"{entry}-{seed}", entry, selected=selected, facts={**FACTS, "seed": seed, **facts}
    )


def table(kind: Any, columns: str, *runs: Made, **changes: Any) -> Table:
    return paper_table(
        TableConfig(title="t", kind=kind, columns=tuple(columns.split()), **changes), frames(*runs)
    )


def cells(sheet: Table, key: str) -> list[Cell]:
    (place,) = [i for i, head in enumerate(sheet.columns) if head.key == key]
    return [row[place] for row in sheet.rows]


def test_what_was_selected_is_of_runs_that_published_nothing_too() -> None:
    empty = made([], 2, heldout_mean=1.0, selected_program="initial", reason="nothing_published")
    sheet = table(
        "selection", "runs selected best", made(GOOD, 0), made(GOOD, 1), empty, rows="cells"
    )
    assert [cells(sheet, key)[0].whole for key in ("runs", "selected", "best")] == [
        "3",
        "7",
        "10 (2/3)",
    ]
    assert "Of the initial Program, since nothing was published: 1 of 3 Runs." in sheet.notes
    assert "regrade" not in "".join(sheet.notes)


@pytest.mark.parametrize(("ties", "found"), [("fewer_failures", 1.0), ("latest", 9.0)])
def test_the_best_in_training_is_what_the_rule_would_choose(ties: str, found: float) -> None:
    tie = [Sent("x=1", 5.0, 3.0, assessment=1.0), Sent("y=x+1", 4.0, 3.0, assessment=9.0)]
    inputs = frames(made(tie, 0, settings={"selection.tie_break": ties}))
    inputs.candidates["validation_failed"] = inputs.candidates["submission"] - 1
    sheet = paper_table(TableConfig("t", "selection", ("best_training",), rows="cells"), inputs)
    assert cells(sheet, "best_training")[0].value == found


def test_totals_over_unlike_numbers_of_runs_say_how_to_compare_them() -> None:
    runs = [made(TWO, 0), made(TWO, 1), made(TWO, 0, "bob")]
    assert "compare edits a Run" in "".join(table("edits", "runs synthesis_edits", *runs).notes)
    assert "compare edits a Run" not in "".join(table("edits", "runs synthesis_hits", *runs).notes)
    assert "compare edits a Run" not in "".join(
        table("edits", "runs synthesis_edits", *runs[1:]).notes
    )


def test_reaching_a_mark_is_the_soonest_only_of_cells_that_all_reach_it() -> None:
    never = [Sent("x=1", 0.0, assessment=0.0)]
    ada = [made(TWO, 0), made(never, 1), made(never, 2)]
    bob = [made([never[0], *TWO], seed, "bob") for seed in range(3)]
    eve = [made([never[0], never[0], *TWO], seed, "eve") for seed in range(3)]
    sheet = table("efficiency", "units_to_80 units_to_best", *ada, *bob, *eve)
    assert [(cell.whole, cell.best) for cell in cells(sheet, "units_to_80")] == [
        ("4 (1/3)", False), ("6", True), ("8", False),
    ]  # fmt: skip
    assert not any(cell.best for cell in cells(sheet, "units_to_best")), (
        "who never improves has its best first"
    )


@pytest.mark.parametrize(
    ("validation", "units"),
    [
        ((1.0, 2.0, 3.0), "4"),
        ((1.0, 2.0, 1.0, 3.0), "8"),
        ((1.0, 2.0, 0.0), "–"),
        ((1.0, 2.0, None, 3.0), "8"),
        ((1.0, 2.0, None), "–"),
    ],
)
def test_improvement_is_stable_from_where_no_later_program_falls_back(
    validation: tuple[float | None, ...], units: str
) -> None:
    sent = [Sent(f"x={place}", value, assessment=0.0) for place, value in enumerate(validation)]
    sheet = table("efficiency", "units_to_stable", made(sent, 0))
    assert [cell.whole for cell in cells(sheet, "units_to_stable")] == [units]


def test_hits_stand_beside_what_chance_gives_and_what_lasts() -> None:
    values = (
        0.0,
        1.0,
        0.5,
        2.0,
        1.5,
    )  # hits: the second and the fourth; after the second one falls back, to 0.5
    sent = [Sent(f"x={place}", value, assessment=0.0) for place, value in enumerate(values)]
    columns = (
        "parametric_edits parametric_hits parametric_chance parametric_durable synthesis_durable"
    )
    sheet = table("edits", columns, made(sent, 0))
    shown = {column: cells(sheet, column)[0].whole for column in columns.split()}
    # (1/2 + 1/3 + 1/4 + 1/5) / 4; what the second raised was 0, and 0.5 is above that: both last.
    assert shown == {
        "parametric_edits": "4",
        "parametric_hits": "50 %",
        "parametric_chance": "32 %",
        "parametric_durable": "100 %",
        "synthesis_durable": "–",
    }
    assert any(note.startswith("By chance: ") for note in sheet.notes)
    assert any(note.startswith("Durable: ") for note in sheet.notes)


def test_what_has_no_source_is_counted_nowhere_and_said() -> None:
    edits = table("edits", "runs synthesis_edits", made(GONE, 0), made(TWO, 1))
    words = "counted nowhere: 2 Submissions of 1 of 2 Runs."
    assert any(note.startswith("Of unknown kind") and note.endswith(words) for note in edits.notes)
    code = table("code", "lines", made(GONE, 0), made(TWO, 1))
    assert (
        "Left out, since their selected Program's source is not there: 1 of 2 Runs." in code.notes
    )


def test_a_column_of_ones_own_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/tables.md promises: what it means and what of a Run it is; the rest comes with it."""
    left = TableColumn(
        "not used", best="lowest", of=lambda runs: runs["units_budget"] - runs["units_used"]
    )
    monkeypatch.setitem(COLUMNS["efficiency"], "units_left", left)
    monkeypatch.setitem(
        COLUMNS["efficiency"], "refusals", TableColumn("requests that the Host refused")
    )
    runs = [
        made(TWO, seed, entry, units_used=seed, refusals=3)
        for entry in ("ada", "bob")
        for seed in range(3)
    ]
    runs.append(made(TWO, 3, "bob", units_used=20, refusals=3))
    sheet = table("efficiency", "runs units_left refusals", *runs, interval="runs")
    assert [cell.value for cell in cells(sheet, "units_left")] == [19.0, 14.25]
    assert [cell.best for cell in cells(sheet, "units_left")] == [False, True]
    assert cells(sheet, "units_left")[0].whole == "19 [17, 21]"
    assert [cell.value for cell in cells(sheet, "refusals")] == [3.0, 3.0]
    assert [column.title for column in sheet.columns[2:4]] == ["units left", "refusals"]
    assert "units_left,units_left low,units_left high" in render(sheet, "csv")


def test_a_table_is_of_the_frames_as_a_person_left_them(lay_run: Lay, tmp_path: Path) -> None:
    for seed in range(3):
        lay_run("ada", "cartpole", seed, heldout=[float(seed)])
    found = evopolicy.load(tmp_path / "outputs")
    assert list(found.runs.columns) == [column.name for column in FRAMES["runs"]]
    assert found.runs["settings"][0]["pool.kind"] == "derived"
    found = replace(found, runs=found.runs[found.runs["seed"] < 2].assign(refusals=7))
    sheet = paper_table(TableConfig("t", "heldout", ("benchmarks",)), found)
    assert cells(sheet, "cartpole")[0].value == 0.5
