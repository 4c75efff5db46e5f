"""Every entry against one: what is paired, what a family of tests is, and what the table and the
figure show of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evopolicy.analysis import find_runs, load_frames, note_of
from evopolicy.analysis.figures.differences import difference_figure
from evopolicy.analysis.figures.style import title_of
from evopolicy.analysis.stats.differences import entry_differences, name_partners, partners
from evopolicy.analysis.stats.intervals import difference_interval, mean_interval, paired_interval
from evopolicy.analysis.stats.statistics import holm
from evopolicy.analysis.tables.config import TableConfig
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.session.selection import SelectionConfig
from evopolicy.present import render
from evopolicy.present.table import Table

Lay = Callable[..., Path]
ENTRIES = ("ada", "bob", "eve")
SWEPT = (
    "ada feedback=full",
    "ada feedback=score",
    "bob feedback=full",
    "bob feedback=score",
    "eve feedback=full",
)


def drawn(effect: float, *, runs: int = 5, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Scores of three entries on two Benchmarks, all with the same hard Episodes; eve's are higher
    by `effect`."""
    rng = np.random.default_rng(seed)
    tables: dict[str, dict[str, Any]] = {name: {} for name in ENTRIES}
    for benchmark in ("x", "y"):
        hard = rng.normal(0, 5, 16)
        for name in ENTRIES:
            shift = effect if name == "eve" else 0.0
            tables[name][benchmark] = (
                hard + rng.normal(0, 0.5, (runs, 1)) + rng.normal(0, 0.5, (runs, 16)) + shift
            )
    return tables


def test_each_entry_is_compared_with_one_or_with_the_same_but_for_a_setting() -> None:
    assert partners(ENTRIES) == {"bob": "ada", "eve": "ada"}
    assert partners(ENTRIES, "bob") == {"ada": "bob", "eve": "bob"}
    found = partners(SWEPT, "feedback=score")
    assert found == {
        "ada feedback=full": "ada feedback=score",
        "bob feedback=full": "bob feedback=score",
    }
    assert name_partners(found) == "the same with feedback=score"
    assert name_partners(partners(ENTRIES)) == "ada"
    with pytest.raises(ConfigError, match=r"no entry 'adda' here. Did you mean 'ada'"):
        partners(ENTRIES, "adda")
    with pytest.raises(ConfigError, match="Did you mean 'feedback=full'"):
        partners(SWEPT, "feedback=ful")
    for alone in (partners, lambda entries: partners(entries, "feedback=full")):
        with pytest.raises(RecordError, match="nothing to compare"):
            alone(SWEPT[:1])


def test_a_planted_difference_is_found_and_none_where_there_is_none() -> None:
    tables = drawn(3.0)
    found = entry_differences(tables, {}, partners(ENTRIES, "ada"), replicates=200)
    assert [(one.entry, one.benchmark) for one in found] == [
        ("bob", "x"),
        ("bob", "y"),
        ("eve", "x"),
        ("eve", "y"),
    ]
    assert [one.decided() for one in found] == [0, 0, 1, 1]
    back = entry_differences(tables, {}, partners(ENTRIES, "eve"), replicates=200)
    assert [one.decided() for one in back] == [-1] * 4
    for one in found:
        alone = difference_interval(tables[one.entry][one.benchmark], tables["ada"][one.benchmark])
        assert one.difference == alone and not one.paired and (one.runs, one.others) == (5, 5)
    assert [one.p_holm for one in found] == holm([one.difference.p_value for one in found]).tolist()
    assert all(one.improvement.estimate == 1.0 for one in found if one.entry == "eve")


def test_runs_read_in_two_ways_are_paired_in_any_order_and_count_once() -> None:
    rng = np.random.default_rng(1)
    # Runs far apart from each other, and each a little better by the second rule.
    first = rng.normal(0, 50, (6, 1)) + rng.normal(0, 1, (6, 8))
    second = first + 1.0 + rng.normal(0, 0.1, (6, 8))
    tables = {"last": {"x": first}, "best": {"x": second[::-1]}}
    keys = {("last", "x"): list("abcdef"), ("best", "x"): list("fedcba")}
    (paired,) = entry_differences(tables, keys, {"best": "last"})
    assert paired.paired and paired.decided() == 1 and paired.runs == 6
    assert paired.difference.interval == mean_interval(second[::-1] - first[::-1])
    assert paired.improvement.estimate == 1.0 and 0.5 < paired.improvement.low < 1.0
    (apart,) = entry_differences(tables, {}, {"best": "last"}, replicates=200)
    assert not apart.paired and apart.decided() == 0
    for wrong in (list("abcdeg"), list("abcde"), list("aabcde")):
        (one,) = entry_differences(
            tables, {**keys, ("best", "x"): wrong}, {"best": "last"}, replicates=200
        )
        assert not one.paired


def test_equal_readings_differ_by_nothing() -> None:
    table = np.array([[0.1, 0.2], [0.3, 0.6], [0.5, 0.7]])
    found = paired_interval(table, table + table * 2.0**-52)
    assert (found.interval.estimate, found.p_value) == (0.0, 1.0)
    with pytest.raises(RecordError, match=r"one shape, found \(3, 2\) and \(2, 2\)"):
        paired_interval(table, table[:2])


def test_an_episode_without_a_score_on_one_side_is_left_out() -> None:
    one, two = np.array([[1.0, 5.0]] * 3), np.array([[0.0, math.nan]] * 3)
    assert paired_interval(one, two).interval.estimate == 1.0


# --- the table and the figure ---------------------------------------------------------------------


def table(
    tmp_path: Path, columns: str = "difference p p_holm improvement runs", **changes: Any
) -> Table:
    changes = {"rows": "cells", "interval": "runs_and_episodes", **changes}
    config = TableConfig(title="t", kind="difference", columns=tuple(columns.split()), **changes)
    return paper_table(config, load_frames(find_runs(tmp_path / "outputs")))


def lay(lay_run: Lay) -> None:
    for entry, effect in (("ada", 0.0), ("bob", 0.1), ("eve", 9.0)):
        for slug in ("cartpole", "pendulum"):
            for seed in range(4):
                scores = [10 * episode + 0.3 * seed * (-1) ** seed + effect for episode in range(8)]
                lay_run(entry, slug, seed, scores)


def test_the_table_shows_every_difference_with_its_family(lay_run: Lay, tmp_path: Path) -> None:
    lay(lay_run)
    sheet = table(tmp_path, against="bob")
    assert [(row[0].value, row[1].value) for row in sheet.rows] == [
        ("ada", "cartpole"), ("eve", "cartpole"), ("ada", "pendulum"), ("eve", "pendulum"),
    ]  # fmt: skip
    eve = sheet.rows[1]
    assert eve[2].text.startswith("8.9 [") and eve[2].over == "runs_and_episodes"
    assert eve[3].text == "<0.001" and eve[5].value == 1.0 and eve[6].text == "4 / 4"
    assert "Each entry less bob: paired by held-out Episode." in sheet.notes
    assert {row[-1].value for row in sheet.rows} == {"bob"}
    assert "p (Holm): adjusted for the 4 differences of this table." in sheet.notes
    for form in ("terminal", "csv", "markdown", "latex", "html"):
        assert re.search(r"8\.(9|8999)", render(sheet, form))

    sums = table(tmp_path, "benchmarks better worse improvement", rows="entries", against="bob")
    assert [[cell.value for cell in row[:4]] for row in sums.rows] == [
        ["ada", 2, 0, 0],
        ["eve", 2, 2, 0],
    ]


def test_two_rules_over_the_same_runs_are_paired_by_run(lay_run: Lay, tmp_path: Path) -> None:
    rules = {"last": 0.0, "validation_mean": 1.0}
    for rule, effect in rules.items():
        for seed in range(6):
            lay_run(
                "ada",
                "cartpole",
                seed,
                [100.0 * seed + episode + effect for episode in range(4)],
                tag=rule,
                axes={"selection": rule},
                selection=SelectionConfig(rule, "fewer_failures"),
            )
    sheet = table(tmp_path, against="selection=last")
    (row,) = sheet.rows
    assert row[0].value == "ada selection=validation_mean" and row[6].whole == "6, paired"
    assert row[2].whole.startswith("1 [1, 1]")
    assert "Both are read from the same Runs, which are paired and count once." in sheet.notes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"against": "bobb"}, "no entry 'bobb' here. Did you mean 'bob'"),
        ({"entries": ("ada",)}, "nothing to compare with 'ada'"),
    ],
)
def test_what_cannot_be_compared_is_said(
    lay_run: Lay, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    lay(lay_run)
    with pytest.raises((ConfigError, RecordError), match=words):
        table(tmp_path, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"interval": "none"}, "a difference without one says nothing"),
        (
            {"columns": ("better",)},
            "'better' is not a column of a difference table with rows: cells",
        ),
        (
            {"rows": "entries"},
            "'difference' is not a column of a difference table with rows: entries",
        ),
        (
            {"kind": "rank", "columns": ("place",), "rows": "entries", "against": "ada"},
            "against: it is for difference",
        ),
        ({"published": True}, "published: it is for"),
    ],
)
def test_a_config_that_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    config = TableConfig("t", "difference", ("difference",), rows="cells", interval="runs")
    with pytest.raises(ConfigError, match=words):
        replace(config, **changes)


def test_the_figure_says_what_it_is_less_of_and_fills_what_was_found(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay(lay_run)
    frames = load_frames(find_runs(tmp_path / "outputs"))
    figure = difference_figure(frames, "ada")
    assert title_of(figure) == "Held-out score less that of ada"
    assert "adjusted for the 4 differences drawn (Holm)" in note_of(figure)
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [line.get_markerfacecolor() == line.get_markeredgecolor() for line in dots] == [
        False,
        True,
    ]
    with pytest.raises(ConfigError, match="Did you mean 'ada'"):
        difference_figure(frames, "adda")
