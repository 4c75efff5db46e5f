"""The paper's tables: as published, with a person's own rows among them, and in every format."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from evopolicy.analysis import find_runs, load_frames
from evopolicy.analysis.figures.inputs import gather, heldout_tables
from evopolicy.analysis.figures.scores import rank_figure
from evopolicy.analysis.figures.style import note_of
from evopolicy.analysis.paper.facts import EDITS, NORMALIZED
from evopolicy.analysis.paper.published import AGENTS, CORE16, ENTRIES, SLUGS
from evopolicy.analysis.tables.config import BELONGS, COLUMNS, TableConfig, table_config
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.session.record import BenchmarkIdentity
from evopolicy.present import render
from evopolicy.present.formats import FORMATS
from evopolicy.present.latex import escape_latex
from evopolicy.present.numbers import fitting, rounded
from evopolicy.present.table import Cell, Table, number
from evopolicy.presets import conf_folder
from tests.analysis.trajectories import Made, Sent, frames

Lay = Callable[..., Path]
SHIPPED = sorted(path.stem for path in (conf_folder() / "table" / "paper").glob("*.yaml"))
HOSTILE = "\x1b[31m<script>alert(1)</script>|`x`\\input{/etc/passwd}$&#_^~%{}\n=cmd()"


def shipped(name: str, **changes: Any) -> TableConfig:
    values = yaml.safe_load((conf_folder() / "table" / "paper" / f"{name}.yaml").read_text())
    return table_config({**values, **changes})


def cells(sheet: Table, key: str) -> dict[str, Cell]:
    """A column by the name of its row."""
    (place,) = [i for i, head in enumerate(sheet.columns) if head.key == key]
    return {str(row[sheet.stub - 1].value): row[place] for row in sheet.rows}


def texts(sheet: Table, key: str) -> dict[str, str]:
    return {name: cell.whole for name, cell in cells(sheet, key).items()}


def foot(sheet: Table) -> str:
    return "\n".join(sheet.notes)


# --- as published ---------------------------------------------------------------------------------

PUBLISHED = {
    #                   Core16   Box2D    MuJoCo   MiniGrid Driving wins top-2
    "GPT-5.5": ("0.891", "0.938", "0.875", "0.812", "0.938", "9", "16"),
    "Claude Opus 4.7": ("0.750", "0.812", "0.750", "0.938", "0.500", "5", "12"),
    "MiniMax-M3": ("0.531", "0.375", "0.625", "0.500", "0.625", "1", "3"),
    "DeepSeek-V4-Pro": ("0.359", "0.375", "0.250", "0.438", "0.375", "1", "1"),
    "uniform random": ("0.109", "0.000", "0.000", "0.375", "0.062", "0", "0"),
}
CATEGORIES = ("Gym/Box2D", "MuJoCo", "MiniGrid", "Robotics/Driving")


def test_the_published_table_to_three_decimals_from_the_sixteen_held_out_scores() -> None:
    sheet = paper_table(shipped("core16"))
    keys = ("rank_score", *(f"rank_score {category}" for category in CATEGORIES), "wins", "top2")
    columns = [texts(sheet, key) for key in keys]
    assert {entry: tuple(column[entry] for column in columns) for entry in PUBLISHED} == PUBLISHED
    assert [row[0].value for row in sheet.rows] == list(PUBLISHED), "best first"
    assert [cell.value for cell in cells(sheet, "rank_score").values()] == [
        0.890625,
        0.75,
        0.53125,
        0.359375,
        0.109375,
    ]


def test_the_published_tables_best_of_each_column_is_marked() -> None:
    sheet = paper_table(shipped("core16"))
    best = {
        h.title: [str(r[0].value) for r in sheet.rows if r[i].best]
        for i, h in enumerate(sheet.columns)
    }
    assert best["rank score"] == ["GPT-5.5"]
    assert best["MiniGrid"] == ["Claude Opus 4.7"]
    assert best["Robotics/Driving"] == ["GPT-5.5"]


@pytest.mark.parametrize("name", ["core16", "rank"])
def test_the_entry_set_and_the_published_rows_conditions_stand_below(name: str) -> None:
    sheet = paper_table(shipped(name))
    assert f"Entries the ranks are among: {', '.join(ENTRIES)}." in foot(sheet)
    assert "N = 5" in foot(sheet)
    for word in (
        "one Run a cell",
        "not isolated",
        "32 held-out cases",
        "other cases than the agents'",
        "2607.02440",
    ):
        assert word in foot(sheet)
    assert all(row[0].whole.endswith("‡") for row in sheet.rows)


def test_chosen_entries_are_ranked_among_themselves_and_the_foot_says_so() -> None:
    sheet = paper_table(shipped("core16", entries="MiniMax-M3,DeepSeek-V4-Pro"))
    assert "Entries the ranks are among: MiniMax-M3, DeepSeek-V4-Pro." in foot(sheet)
    assert texts(sheet, "wins") == {"MiniMax-M3": "13", "DeepSeek-V4-Pro": "6"}
    assert texts(sheet, "rank_score")["MiniMax-M3"] == "0.812"


def test_the_raw_held_out_scores_are_the_published_ones() -> None:
    sheet = paper_table(shipped("heldout"))
    assert len(sheet.rows) == 16
    for place, entry in enumerate(ENTRIES):
        values = [cell.value for cell in cells(sheet, f"{entry} (published)").values()]
        assert values == [benchmark.means[place] for benchmark in CORE16] or entry not in AGENTS
    assert texts(sheet, "GPT-5.5 (published)")["acrobot"] == "-84.7"
    assert set(texts(sheet, "demand").values()) == {"synthesis", "tuning"}


def test_normalized_scores_come_out_as_published() -> None:
    """To three decimals but for one: the paper prints 0.029 where its own means give 0.0285."""
    sheet = paper_table(shipped("normalized"))
    for demand in ("synthesis", "tuning"):
        found = {entry: float(text) for entry, text in texts(sheet, f"normalized {demand}").items()}
        expected = {agent: NORMALIZED[agent][demand] for agent in AGENTS}
        if demand == "synthesis":
            assert expected["DeepSeek-V4-Pro"] == 0.029
            expected["DeepSeek-V4-Pro"] = 0.028
            assert math.isclose(
                float(cells(sheet, "normalized synthesis")["DeepSeek-V4-Pro"].value or 0),
                0.0285,
                abs_tol=5e-5,
            )
        assert {agent: found[agent] for agent in AGENTS} == expected
        assert found["uniform random"] == 0.0


def test_edits_come_out_as_published_and_their_rates_have_wilsons_intervals() -> None:
    sheet = paper_table(shipped("edits"))
    assert list(texts(sheet, "synthesis_edits synthesis").items()) == list(
        zip(AGENTS, ["37", "31", "39", "132"], strict=True)
    )
    rates = {
        agent: text.split(" %")[0] for agent, text in texts(sheet, "synthesis_hits tuning").items()
    }
    assert rates == dict(zip(AGENTS, ["38", "26", "25", "30"], strict=True))
    # Wilson, 15 of 37: (0.4054 + 0.0519 -+ 1.96 sqrt(0.4054 x 0.5946 / 37 + 0.0519 / 74)) / 1.1038
    assert texts(sheet, "synthesis_hits synthesis")["GPT-5.5"] == "41 % [26, 57]"
    assert texts(sheet, "parametric_hits synthesis")["MiniMax-M3"] == "–"


def test_every_published_rate_is_that_of_exactly_one_number_of_hits() -> None:
    for facts in EDITS.values():
        for one in facts.values():
            if one.percent is not None:
                fitting_hits = [
                    n for n in range(one.edits + 1) if round(100 * n / one.edits) == one.percent
                ]
                assert fitting_hits == [one.hits]


def test_the_code_of_the_selected_bundles_is_as_published() -> None:
    sheet = paper_table(shipped("code"))
    row = {head.key: cell.whole for head, cell in zip(sheet.columns, sheet.rows[1], strict=True)}
    names = ("functions", "branches", "loops", "depth", "state")
    assert [row[f"{name} synthesis"] for name in names] == ["19.0", "77.0", "16.8", "7.6", "26.0"]
    assert [row[f"{name} tuning"] for name in names] == ["6.5", "4.5", "0.5", "1.7", "8.2"]
    together = paper_table(shipped("code", by="all"))
    assert cells(together, "functions")["GPT-5.5"].value == pytest.approx(
        (5 * 30.2 + 11 * 8.5) / 16
    )


@pytest.mark.parametrize("name", ["efficiency", "selection"])
def test_what_the_paper_does_not_have_needs_runs(name: str) -> None:
    with pytest.raises(ConfigError, match="no published rows"):
        paper_table(shipped(name))


# --- a person's own rows --------------------------------------------------------------------------


def lay_all(
    lay_run: Lay,
    entries: Mapping[str, float],
    slugs: Iterable[str] = SLUGS.values(),
    seeds: Sequence[int] = (0, 1, 2),
    spread: float = 0.0,
) -> None:
    """Runs whose held-out means are `entries`' numbers, a little apart by seed and Episode."""
    ids = {slug: id_ for id_, slug in SLUGS.items()}
    for entry, mean in entries.items():
        for slug in slugs:
            identity = BenchmarkIdentity(
                slug, f"family/{ids.get(slug, 'Other-v0')}", slug.ljust(64, "d"), "m:f", {}
            )
            for seed in seeds:
                heldout = [mean + spread * (seed - 1), mean + spread * (seed - 1) + spread]
                lay_run(entry, slug, seed, heldout=heldout, benchmark=identity)


def own(tmp_path: Path) -> Any:
    return load_frames(find_runs(tmp_path / "outputs"))


def test_own_rows_stand_among_the_published_ones_and_all_are_ranked_anew(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_all(lay_run, {"ada": 1e6})
    sheet = paper_table(shipped("core16"), own(tmp_path))
    assert texts(sheet, "rank_score")["ada"] == "1.000"
    assert texts(sheet, "wins") == {"ada": "16", **dict.fromkeys(ENTRIES, "0")}
    # GPT-5.5 wins nothing now: of N = 6 it is second where it was first (9) and third where second
    # (7).
    assert cells(sheet, "rank_score")["GPT-5.5"].value == pytest.approx((9 * 0.8 + 7 * 0.6) / 16)
    assert "N = 6" in foot(sheet)
    assert "ada, GPT-5.5" in foot(sheet)
    assert [row[0].whole for row in sheet.rows][:2] == ["ada", "GPT-5.5 ‡"]
    assert "differ from the paper's protocol" in foot(sheet)


def test_a_person_entry_that_has_a_published_name_keeps_it(lay_run: Lay, tmp_path: Path) -> None:
    lay_all(lay_run, {"GPT-5.5": -1e6}, seeds=(0,))
    scores = texts(paper_table(shipped("core16"), own(tmp_path)), "rank_score")
    assert scores["GPT-5.5"] == "0.000"
    assert scores["GPT-5.5 (published)"] == rounded((9 * 1.0 + 7 * 0.8) / 16, 3)


def test_missing_cells_are_refused_excluded_or_ranked_worst(lay_run: Lay, tmp_path: Path) -> None:
    lay_all(lay_run, {"ada": 1e6}, ["acrobot", "reacher"])
    with pytest.raises(
        RecordError,
        match=r"14 cells have no valid result \(ada on .*missing to 'exclude' or 'worst'",
    ):
        paper_table(shipped("core16"), own(tmp_path))
    excluded = paper_table(shipped("core16", missing="exclude"), own(tmp_path))
    assert "Ranks over 2 of 16 Benchmarks complete for all entries" in foot(excluded)
    assert texts(excluded, "rank_score")["ada"] == "1.000"
    worst = paper_table(shipped("core16", missing="worst"), own(tmp_path))
    assert cells(worst, "rank_score")["ada"].value == pytest.approx(2 / 16)
    assert "Missing cells rank last" in foot(worst)


def test_means_over_groups_leave_out_what_is_not_complete_for_all(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_all(lay_run, {"ada": -84.6875}, ["acrobot", "reacher"])
    lay_all(lay_run, {"bob": -300.0}, ["acrobot"])
    with pytest.raises(RecordError, match="missing=exclude"):
        paper_table(shipped("normalized"), own(tmp_path))
    sheet = paper_table(shipped("normalized", missing="exclude"), own(tmp_path))
    assert "Over the 1 of 16 Benchmarks" in foot(sheet)
    found = texts(sheet, "normalized tuning")
    assert (found["ada"], found["GPT-5.5"]) == ("1.000", "1.000")
    assert cells(sheet, "normalized tuning")["bob"].value == pytest.approx(
        (499.15625 - 300) / (499.15625 - 84.6875)
    )


def test_a_fixed_anchor_does_not_move_with_who_takes_part(lay_run: Lay, tmp_path: Path) -> None:
    lay_all(lay_run, {"ada": 1e6}, seeds=(0,))
    moved = texts(paper_table(shipped("normalized"), own(tmp_path)), "normalized synthesis")
    fixed = texts(
        paper_table(shipped("normalized", one="published"), own(tmp_path)), "normalized synthesis"
    )
    assert float(moved["GPT-5.5"]) < 0.01
    assert (fixed["GPT-5.5"], fixed["ada"]) == ("0.985", "1.000")


def test_mixed_conditions_are_refused_unless_asked_for(lay_run: Lay, tmp_path: Path) -> None:
    lay_run("ada", "cartpole", isolation="landlock")
    lay_run("bob", "cartpole", isolation="none")
    config = {"published": False, "benchmarks": []}
    for name in ("core16", "heldout", "code", "efficiency", "selection", "edits"):
        with pytest.raises(RecordError, match="mixes isolation levels"):
            paper_table(shipped(name, **config), own(tmp_path))
        allowed = paper_table(shipped(name, **config, allow="isolation"), own(tmp_path))
        assert "Mixes isolation levels" in foot(allowed)


def test_fewer_than_three_runs_give_episode_intervals_named_as_such_and_the_points(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_all(lay_run, {"ada": 10.0}, ["acrobot"], seeds=(0, 1), spread=1.0)
    config = {"published": False, "benchmarks": []}
    sheet = paper_table(shipped("heldout", **config), own(tmp_path))
    cell = cells(sheet, "ada")["acrobot"]
    assert cell.over == "episodes"
    assert cell.whole.endswith("(9.5; 10.5)")
    assert "Fewer than three Runs in the only cell (ada on acrobot: 2)" in foot(sheet)
    assert "over Episodes" in foot(sheet)
    lay_all(lay_run, {"ada": 10.0}, ["acrobot"], seeds=(2,), spread=1.0)
    enough = paper_table(shipped("heldout", **config), own(tmp_path))
    assert cells(enough, "ada")["acrobot"].over == "runs_and_episodes"
    assert "Fewer than three" not in foot(enough)
    efficiency = paper_table(shipped("efficiency", interval="runs"), own(tmp_path))
    assert "interval over Runs" in foot(efficiency)


def test_the_foot_names_the_cells_that_keep_an_entry_from_an_interval(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_all(lay_run, {"ada": -88.0, "bob": -90.0}, ["acrobot"], spread=6.0)
    lay_all(lay_run, {"cy": -89.0}, ["acrobot"], seeds=(0,))
    config = {"published": False, "benchmarks": [], "missing": "exclude"}
    found = cells(sheet := paper_table(shipped("rank", **config), own(tmp_path)), "rank_score")
    assert (found["cy"].over, found["cy"].text) == ("", "0.000")
    assert found["ada"].over == found["bob"].over == "runs_and_episodes"
    assert "Fewer than three Runs in 1 of 3 cells (cy on acrobot: 1): no interval" in foot(sheet)
    assert foot(sheet).count("Fewer than three Runs") == 1
    assert "Episodes only" not in foot(sheet)


def test_rank_intervals_are_of_own_rows_and_hold_the_published_ones(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_all(lay_run, {"ada": -88.0, "bob": -300.0}, ["acrobot"], spread=6.0)
    sheet = paper_table(shipped("rank", missing="exclude"), own(tmp_path))
    found = cells(sheet, "rank_score")
    ada = found["ada"]
    assert isinstance(ada.value, float) and ada.low is not None and ada.high is not None
    assert ada.low <= ada.value <= ada.high and ada.low < ada.high
    assert (found["bob"].low, found["bob"].high) == (found["bob"].value,) * 2, (
        "nothing near it could change its rank"
    )
    assert found["GPT-5.5"].low is None
    assert "Published rows have no intervals" in foot(sheet)
    assert "crossed bootstrap" in foot(sheet)
    assert sheet == paper_table(shipped("rank", missing="exclude"), own(tmp_path)), (
        "the seed decides"
    )


def test_a_median_is_not_taken_for_a_rank(lay_run: Lay, tmp_path: Path) -> None:
    for seed, score in enumerate((1.0, 2.0, 9.0)):
        lay_run("ada", "cartpole", seed, heldout=[score] * 2)
    config = {"published": False, "benchmarks": []}
    sheet = paper_table(
        shipped("heldout", **config, statistic="median", interval="none"), own(tmp_path)
    )
    assert cells(sheet, "ada")["cartpole"].value == 2.0
    with pytest.raises(ConfigError, match="statistic"):
        shipped("rank", statistic="median")


# --- what happened in Runs ------------------------------------------------------------------------

FIRST = "def act(o):\n    return 1\n"
TUNED = "def act(o):\n    return 2\n"
GROWN = "def act(o):\n    if o:\n        return 2\n    return 3\n"


def made(*sent: Sent, selected: int = 1, **facts: Any) -> Made:
    status = {
        "status": "done",
        "axes": {},
        "benchmark_id": "f/CartPole-v1",
        "suite": "",
        "reason": "",
    }
    conditions = {
        "isolation": "landlock",
        "parameters": "p",
        "pool": "pool",
        "budget": "budget",
        "wall_seconds": 7.0,
    }
    return Made(sent, selected=selected, facts={**status, **conditions, **facts})


WORKED = made(
    Sent(FIRST, 1.0, 5.0, assessment=4.0),
    Sent(TUNED, 3.0, 4.0, assessment=2.0),
    Sent(GROWN, 2.0, 9.0, assessment=6.0),
    Sent(TUNED, 3.0, 4.0, assessment=2.0),
    selected=2,
)
OWN = {"published": False, "benchmarks": [], "by": "all"}


def test_edits_of_own_runs_are_counted_with_their_hits() -> None:
    columns = [
        "runs",
        "synthesis_edits",
        "synthesis_hits",
        "parametric_edits",
        "parametric_hits",
        "rollbacks",
        "retests",
    ]
    sheet = paper_table(shipped("edits", **OWN, columns=columns, interval="none"), frames(WORKED))
    assert [texts(sheet, key)["ada"] for key in columns] == [
        "1",
        "1",
        "0 %",
        "1",
        "100 %",
        "1",
        "0",
    ]


def test_code_of_own_runs_is_of_the_selected_program() -> None:
    grown = replace(WORKED, selected=3)
    sheet = paper_table(shipped("code", **OWN, columns=["functions", "branches"]), frames(grown))
    assert [texts(sheet, key)["ada"] for key in ("functions", "branches")] == ["1.0", "1.0"]


def test_selection_stands_beside_the_last_the_best_in_training_and_in_hindsight() -> None:
    sheet = paper_table(shipped("selection"), frames(WORKED))
    columns = ("selected", "last", "best_training", "best", "regret")
    assert [cells(sheet, key)["ada"].value for key in columns] == [2.0, 2.0, 6.0, 6.0, 4.0]
    assert cells(sheet, "correlation")["ada"].value == pytest.approx(-0.5)
    assert "regrade" not in foot(sheet)


def test_selection_says_where_the_best_in_hindsight_was_not_measured(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_run("ada", "cartpole")
    sheet = paper_table(shipped("selection"), own(tmp_path))
    assert texts(sheet, "best") == {"ada": "–"}
    assert "1 of 1 Runs have not measured all their Programs" in foot(sheet)


def test_efficiency_tells_what_was_used_and_when_the_best_came() -> None:
    sheet = paper_table(shipped("efficiency"), frames(WORKED))
    assert [cells(sheet, key)["ada"].value for key in ("submissions", "units_to_best")] == [
        0.0,
        4.0,
    ]
    assert cells(sheet, "area")["ada"].value == pytest.approx((0 * 4 + 16) / 20)


def test_a_cost_that_is_estimated_is_marked_and_the_foot_says_so(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_run("ada", "cartpole", usage={"cost_usd": 2.0, "cost_is_estimate": True})
    lay_run("bob", "cartpole", usage={"cost_usd": 3.0, "cost_is_estimate": False})
    sheet = paper_table(shipped("efficiency", columns=["cost_usd", "output_tokens"]), own(tmp_path))
    assert texts(sheet, "cost_usd") == {"ada": "≈2", "bob": "3"}
    assert "≈ marks a cost that is estimated" in foot(sheet)
    assert "≈" not in foot(
        paper_table(shipped("efficiency", columns=["output_tokens"]), own(tmp_path))
    )


def test_tokens_that_are_estimated_are_marked_and_the_foot_says_so(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_run("ada", "cartpole", usage={"output_tokens": 20, "tokens_are_estimate": True})
    lay_run("bob", "cartpole", usage={"output_tokens": 30, "tokens_are_estimate": False})
    sheet = paper_table(
        shipped("efficiency", columns=["input_tokens", "output_tokens"]), own(tmp_path)
    )
    assert texts(sheet, "output_tokens") == {"ada": "≈20", "bob": "30"}
    assert texts(sheet, "input_tokens")["ada"] == "–"
    assert "≈ marks tokens that are estimated" in foot(sheet)
    assert "≈" not in foot(
        paper_table(shipped("efficiency", columns=["input_tokens"]), own(tmp_path))
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_table_is_made_of_a_small_sweep_in_every_format(
    name: str, lay_run: Lay, lay_sweep: Callable[..., Path], plan: Callable[..., Any]
) -> None:
    lay_all(lay_run, {"ada": -90.0, "bob": -100.0}, ["acrobot", "reacher"], spread=2.0)
    folder = lay_sweep(
        [plan(e, b, s) for e in ("ada", "bob") for b in ("acrobot", "reacher") for s in range(3)]
    )
    sheet = paper_table(
        shipped(name, missing="exclude"), load_frames(find_runs(folder)), name=f"paper/{name}"
    )
    for form in FORMATS:
        text = render(sheet, form)
        assert text.endswith("\n")
        assert "ada" in text and "bob" in text
    assert {row[0].whole for row in sheet.rows} | {h.title for h in sheet.columns} >= {
        "ada",
        "bob",
    } or name == "selection"


# --- formats --------------------------------------------------------------------------------------


def hostile() -> Table:
    worse = replace(WORKED, entry=HOSTILE)
    return paper_table(
        shipped("heldout", **OWN, rows="entries", columns=["benchmarks"]),
        frames(worse),
        name="a b/c_d",
    )


def braces(text: str) -> int:
    depth = 0
    for sign in re.findall(r"\\.|[{}]", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    return depth


@pytest.mark.parametrize("name", ["core16", "heldout", "edits", "code", "normalized"])
def test_latex_is_balanced_and_every_row_has_every_column(name: str) -> None:
    text = render(paper_table(shipped(name), name=f"paper/{name}"), "latex")
    assert braces(text) == 0
    begun, ended = re.findall(r"\\begin\{(\w+)\}", text), re.findall(r"\\end\{(\w+)\}", text)
    assert sorted(begun) == sorted(ended)
    (columns,) = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", text)
    body = text.split("\\midrule")[1].split("\\bottomrule")[0].strip().split("\n")
    assert all(len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1 for line in body)
    assert all(line.endswith("\\\\") for line in body)
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert rf"\label{{tab:paper-{name}}}" in text
    for start, end in re.findall(r"\\cmidrule\(lr\)\{(\d+)-(\d+)\}", text):
        assert 1 <= int(start) <= int(end) <= len(columns)
    assert all(ord(sign) < 128 for sign in text), "nothing pdflatex does not know"


def test_latex_has_the_best_in_bold_and_real_minus_signs() -> None:
    text = render(paper_table(shipped("heldout")), "latex")
    assert r"\textbf{$-$84.7} & $-$88.6" in text


def test_no_label_escapes_in_latex() -> None:
    text = render(hostile(), "latex")
    assert braces(text) == 0
    assert "\\input" not in text
    assert (
        r"\textbackslash{}input\{/etc/passwd\}\$\&\#\_\textasciicircum{}\textasciitilde{}\%\{\}"
        in text
    )
    assert r"\label{tab:a-b-c-d}" in text
    assert escape_latex("a--b ''c''") == "a-{}-b '{}'c'{}'"


def test_csv_reads_back_to_the_last_digit() -> None:
    sheet = paper_table(shipped("core16"))
    rows = list(csv.DictReader(io.StringIO(render(sheet, "csv"))))
    for row, made_of in zip(rows, sheet.rows, strict=True):
        for head, cell in zip(sheet.columns, made_of, strict=True):
            assert (row[head.key] if head.text else float(row[head.key])) == cell.value
    heldout = list(csv.DictReader(io.StringIO(render(paper_table(shipped("heldout")), "csv"))))
    assert float(heldout[1]["GPT-5.5 (published)"]) == 95.21632036034762
    assert {row["source"] for row in rows} == {"published"}


def test_csv_has_an_intervals_bounds_in_columns_of_their_own(lay_run: Lay, tmp_path: Path) -> None:
    lay_all(lay_run, {"ada": -90.0}, ["acrobot"], spread=2.0)
    text = render(
        paper_table(shipped("heldout", published=False, benchmarks=[]), own(tmp_path)), "csv"
    )
    (row,) = csv.DictReader(io.StringIO(text))
    assert float(row["ada low"]) < float(row["ada"]) < float(row["ada high"])
    assert row["ada over"] == "runs_and_episodes"
    assert "=cmd" not in [
        field[:4] for line in csv.reader(io.StringIO(render(hostile(), "csv"))) for field in line
    ]


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["core16", "edits"])
def test_html_is_one_page_with_caption_and_scopes(name: str) -> None:
    text = render(paper_table(shipped(name)), "html")
    page = Page()
    page.feed(text)
    assert page.open == []
    names = [tag for tag, _ in page.tags]
    assert names.count("caption") == 1 and names.count("table") == 1
    assert not {"script", "link", "img"} & set(names)
    assert all(
        attributes.get("scope") in ("col", "row", "colgroup")
        for tag, attributes in page.tags
        if tag == "th"
    )
    described = [attributes["aria-describedby"] for tag, attributes in page.tags if tag == "table"]
    assert described == [attributes["id"] for tag, attributes in page.tags if tag == "ul"]
    assert "http" not in text.replace("http://www.w3.org", "")


def test_no_label_escapes_in_html_markdown_and_terminals() -> None:
    assert "<script" not in render(hostile(), "html")
    markdown = render(hostile(), "markdown")
    assert "<script" not in markdown
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert "\x1b" not in render(hostile(), "terminal")


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", ["core16", "heldout", "edits", "code"])
def test_plain_text_stays_within_the_width(name: str, width: int) -> None:
    text = render(paper_table(shipped(name)), "terminal", width)
    assert max(map(len, text.splitlines())) <= width


# --- numbers and configs --------------------------------------------------------------------------


def test_numbers_are_rounded_half_to_even_by_their_decimal_digits() -> None:
    assert [rounded(v, 3) for v in (0.0125, 0.0375, 1 - 0.9875, 0.9375, -0.0001)] == [
        "0.012", "0.038", "0.012", "0.938", "0.000",
    ]  # fmt: skip
    assert rounded(2.5, 0) == "2"
    assert number(math.nan, 3) == number(None, 3) == Cell()
    assert [
        fitting(values) for values in ([1.234, 2.0], [500.0, 20.0], [1234.5], [1e9], [0.001])
    ] == [
        3,
        0,
        0,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colums": []}, "there is no key 'colums'. Did you mean 'columns'?"),
        (
            {"columns": "rank_scores"},
            "columns: there is no 'rank_scores'. Did you mean 'rank_score'?",
        ),
        ({"kind": "ranks"}, "kind: there is no 'ranks'. Did you mean 'rank'?"),
        ({"missing": "exlude"}, "missing: there is no 'exlude'. Did you mean 'exclude'?"),
        ({"format": "tex"}, "format: there is no 'tex'."),
        ({"interval": "run"}, "interval: there is no 'run'. Did you mean 'runs'?"),
        ({"allow": "isolaton"}, "allow: there is no 'isolaton'. Did you mean 'isolation'?"),
        ({"columns": []}, "columns: name at least one"),
        ({"columns": "wins,wins"}, "columns: one is named twice"),
        ({"rows": "cells"}, "rows: a rank table has rows of entries"),
        ({"level": 95}, "level: a number between 0 and 1"),
        ({"level": "high"}, "level: expected 'float', got 'str'"),
        ({"digits": -1}, "digits: 0 to 15"),
        ({"title": ""}, "title: a table needs it"),
        ({"replicates": 3}, "replicates: 100 or more"),
    ],
)
def test_a_config_that_cannot_be_is_refused_with_the_near_name(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        shipped("core16", **changes)
    assert message in str(caught.value)


def test_an_entry_or_benchmark_that_is_not_there_is_refused_with_the_near_name() -> None:
    with pytest.raises(ConfigError, match=r"entries: .*Did you mean 'GPT-5.5'"):
        paper_table(shipped("core16", entries="GPT-5"))
    with pytest.raises(ConfigError, match=r"benchmarks: .*Did you mean 'acrobot'"):
        paper_table(shipped("core16", benchmarks="acrobat"))
    with pytest.raises(ConfigError, match=r"zero: there is no entry 'nobody'"):
        paper_table(shipped("normalized", zero="nobody"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_table_names_every_key_and_every_column_it_could_have(name: str) -> None:
    path = conf_folder() / "table" / "paper" / f"{name}.yaml"
    values = yaml.safe_load(path.read_text())
    others = {key for key, kinds in BELONGS.items() if values["kind"] not in kinds}
    assert set(values) == set(TableConfig.__dataclass_fields__) - others
    comment = " ".join(
        line.strip("# ") for line in path.read_text().splitlines() if line.startswith("#")
    )
    assert ", ".join(COLUMNS[values["kind"]]) in comment


def test_runs_of_other_episodes_are_not_paired(lay_run: Lay, tmp_path: Path) -> None:
    for entry, pool_seed in (("ada", 0), ("bob", 7)):
        for seed in range(3):
            scores = [1.0 + seed, 9.0 + seed]
            lay_run(
                entry,
                "cartpole",
                seed,
                heldout=scores,
                pool=PoolConfig("derived", 16, 4, 2, pool_seed),
            )
    found = own(tmp_path)
    with pytest.raises(RecordError, match="mixes pools"):
        paper_table(shipped("heldout", published=False, benchmarks=[]), found)
    sheet = paper_table(shipped("rank", published=False, benchmarks=[], allow=["pool"]), found)
    assert "none are paired and a Run counts as its mean: cartpole" in foot(sheet)
    assert "over Runs and Episodes" not in foot(sheet)
    assert {cell.over for row in sheet.rows for cell in row} == {"", "runs"}
    tables = heldout_tables(gather(found, allow=["pool"]))
    assert [of["cartpole"].tolist() for of in tables.values()] == [[[5.0], [6.0], [7.0]]] * 2
    note = note_of(rank_figure(found, allow=["pool"]))
    assert "none are paired" in note
    assert "interval over Runs, " in note
    assert heldout_tables(gather(found, ["ada"]))["ada"]["cartpole"].shape == (3, 2)
