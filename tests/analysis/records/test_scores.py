"""What may be compared, and what of each Run a table takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis import check_comparable, find_runs, load_frames
from evopolicy.analysis.records.scores import cell_scores
from evopolicy.analysis.tables.config import TableConfig
from evopolicy.analysis.tables.paper_tables import paper_table
from evopolicy.analysis.tables.ranks import rank_table
from evopolicy.kernel.errors import ConfigError, RecordError
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.ports.protocols import AgentIdentity
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.record import BenchmarkIdentity, FeedbackConfig
from evopolicy.kernel.session.selection import SelectionConfig

Lay = Callable[..., Path]
OTHER: dict[str, dict[str, Any]] = {
    "isolation": {"isolation": "none"},
    "parameters": {
        "benchmark": BenchmarkIdentity("cartpole", "family/Cartpole-v1", "e" * 64, "m:f", {})
    },
    "pool": {"pool": PoolConfig("derived", 16, 4, 9, 0)},
    "budget": {"budget": Budget(4, 9, None, "allow_early", "all")},
    "selection": {"selection": SelectionConfig("last", "latest")},
    "duplicates": {"tag": "other"},
}


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return tmp_path / "outputs"


@pytest.mark.parametrize("condition", list(OTHER))
def test_a_mixed_comparison_is_refused_and_names_the_cells(
    lay_run: Lay, outputs: Path, condition: str
) -> None:
    lay_run("ada", "cartpole")
    lay_run("ada" if condition == "duplicates" else "bob", "cartpole", **OTHER[condition])
    found = find_runs(outputs)

    with pytest.raises(RecordError, match=f"ada on cartpole, seed 0.*allow '{condition}'"):
        check_comparable(found)
    with pytest.raises(RecordError, match=f"allow '{condition}'"):
        check_comparable(load_frames(found))
    (note,) = check_comparable(found, allow={condition})
    assert note.startswith("Mixes ")


def agent(**options: Any) -> AgentIdentity:
    model = options.pop("model", "")
    return AgentIdentity("ada", "command", model, options)


UNLIKE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "agent.sigma": ({"agent": agent(sigma=0.75)}, {"agent": agent(sigma=0.05)}),
    "agent.model": ({"agent": agent(model="one")}, {"agent": agent(model="two")}),
    "feedback.visibility": ({}, {"feedback": FeedbackConfig("score", 10**6, False)}),
    "prompt.text": (
        {"config": {"prompt": {"text": "Do it."}}},
        {"config": {"prompt": {"text": "Do it well."}}},
    ),
    "session.limits.requests": (
        {"config": {"session": {"limits": {"requests": 5}}}},
        {"config": {"session": {"limits": {"requests": None}}}},
    ),
    "execution.agent_network": ({}, {"agent_network": "open"}),
    "versions.mujoco": ({"versions": {"mujoco": "3.9.0"}}, {"versions": {"mujoco": "3.11.0"}}),
}
"""By setting two records of one entry that differ in it."""


@pytest.mark.parametrize(
    "place", [{"seed": 1}, {"seed": 0}, {"slug": "pendulum"}], ids=["seed", "same", "benchmark"]
)
@pytest.mark.parametrize("setting", UNLIKE)
def test_unlike_runs_are_no_one_entry(
    lay_run: Lay, outputs: Path, setting: str, place: dict[str, Any]
) -> None:
    one, two = UNLIKE[setting]
    lay_run("ada", "cartpole", **one)
    lay_run("ada", **{"slug": "cartpole", **place}, tag="other", **two)
    found = find_runs(outputs)

    # Two Runs of one cell are refused as what they are, before anything is said of duplicates.
    for source in (found, load_frames(found)):
        with pytest.raises(
            RecordError, match=f"entry 'ada' mixes Runs that differ in {setting} .*allow={setting}$"
        ):
            check_comparable(source, allow=["duplicates"])
    for allowed in (setting, setting.partition(".")[0]):
        assert (
            f"mixes Runs that differ in {setting} "
            in check_comparable(found, allow=[allowed, "duplicates"])[0]
        )
    table = rank_table(found, allow=[setting, "duplicates"])
    (row,) = table.entries
    assert row.entry.startswith(f"ada {setting}=") and "|" in row.entry
    config = TableConfig(
        title="t",
        kind="heldout",
        columns=("entries",),
        rows="benchmarks",
        allow=(setting, "duplicates"),
    )
    sheet = paper_table(config, load_frames(found))
    assert (
        f"ada {setting}=" in sheet.columns[1].title and "mixes Runs that differ" in sheet.notes[1]
    )


def test_what_goes_with_a_benchmark_may_differ_between_two(lay_run: Lay, outputs: Path) -> None:
    limits = [{"config": {"execution": {"limits": {"act_seconds": seconds}}}} for seconds in (1, 2)]
    lay_run("ada", "cartpole", **limits[0])
    lay_run("ada", "pendulum", **limits[1])
    assert check_comparable(find_runs(outputs)) == []

    lay_run("ada", "pendulum", 1, **limits[0])
    with pytest.raises(
        RecordError, match=r"differ in execution\.limits\.act_seconds \(2 for .*; 1 for "
    ):
        check_comparable(find_runs(outputs))


def test_entries_of_one_benchmark_were_measured_with_the_same_versions(
    lay_run: Lay, outputs: Path
) -> None:
    lay_run("ada", "cartpole", versions={"mujoco": "3.9.0", "codex": "1"})
    lay_run("bob", "cartpole", versions={"mujoco": "3.11.0"})

    with pytest.raises(
        RecordError, match=r"package versions on cartpole: mujoco \(3.9.0 for .*'versions'"
    ):
        check_comparable(find_runs(outputs))
    assert len(check_comparable(find_runs(outputs), allow=["versions"])) == 1


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ([("a", ""), ("b", "a")], "2 Runs of ada on cartpole, seed 0, one a regrade of the other"),
        (
            [("a", ""), ("b", "a"), ("c", "a")],
            "3 Runs of ada on cartpole, seed 0, 2 of them regrades of another",
        ),
        (
            [("b", "a"), ("c", "a")],
            "2 Runs of ada on cartpole, seed 0, all of them regrades of one Run",
        ),
        (
            [("b", "a"), ("x", "")],
            "2 Runs of ada on cartpole, seed 0, 1 of them regrades of a Run that is not among",
        ),
        ([("a", ""), ("b", "")], "2 Runs of ada on cartpole, seed 0;"),
    ],
)
def test_a_regrade_beside_its_parent_is_called_one(
    lay_run: Lay, outputs: Path, keys: list[tuple[str, str]], words: str
) -> None:
    lay_run("ada", "cartpole")
    (score,) = cell_scores(find_runs(outputs))
    with pytest.raises(RecordError, match=words):
        check_comparable([replace(score, result_key=key, parent=parent) for key, parent in keys])


def test_frames_know_regrades_too(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole")
    lay_run("ada", "cartpole", tag="again", parent="r" * 64)
    with pytest.raises(RecordError, match="one a regrade of the other; compare them apart"):
        check_comparable(load_frames(find_runs(outputs)))


def test_uniform_runs_are_comparable(lay_run: Lay, outputs: Path) -> None:
    for name in ("ada", "bob"):
        lay_run(name, "cartpole")
        lay_run(name, "pendulum")

    assert check_comparable(find_runs(outputs)) == []


def test_pools_and_budgets_may_differ_between_benchmarks(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole")
    lay_run("ada", "pendulum", **OTHER["budget"], **OTHER["pool"])

    assert check_comparable(find_runs(outputs)) == []


def test_isolation_levels_may_not_differ_between_benchmarks_either(
    lay_run: Lay, outputs: Path
) -> None:
    lay_run("ada", "cartpole")
    lay_run("ada", "pendulum", isolation="none")

    with pytest.raises(RecordError, match=r"isolation levels: 'landlock'.*'none'"):
        check_comparable(find_runs(outputs))


@pytest.mark.parametrize(
    ("condition", "axis"),
    [
        ("budget", "budget.episodes"),
        ("budget", "protocol"),
        ("pool", "pool.assessment"),
        ("isolation", "execution.isolation"),
        ("selection", "selection"),
        ("selection", "protocol"),
    ],
)
def test_a_swept_difference_is_asked_for(
    lay_run: Lay, outputs: Path, condition: str, axis: str
) -> None:
    lay_run("ada", "cartpole", axes={axis: "one"})
    lay_run("ada", "cartpole", tag="other", **{**OTHER[condition], "axes": {axis: "two"}})

    assert check_comparable(find_runs(outputs)) == []


def test_two_tasks_of_one_name_are_not_ranked_together_even_where_that_was_swept(
    lay_run: Lay, outputs: Path
) -> None:
    """A sweep of benchmark.max_steps ranked Episodes of 20 steps below those of 50."""
    lay_run("ada", "cartpole", axes={"benchmark.max_steps": "20"})
    lay_run(
        "ada",
        "cartpole",
        tag="other",
        **{**OTHER["parameters"], "axes": {"benchmark.max_steps": "50"}},
    )

    with pytest.raises(RecordError, match="Benchmark parameters on cartpole"):
        check_comparable(find_runs(outputs))


def test_a_difference_within_one_value_of_a_swept_axis_is_refused(
    lay_run: Lay, outputs: Path
) -> None:
    lay_run("ada", "cartpole", axes={"protocol": "one"})
    lay_run("bob", "cartpole", axes={"protocol": "one"}, **OTHER["budget"])

    with pytest.raises(RecordError, match="budgets on cartpole"):
        check_comparable(find_runs(outputs))


def test_runs_that_are_left_out_do_not_count(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole")
    lay_run("bob", "cartpole", upto="session", isolation="none")
    lay_run("eve", "cartpole", valid=False, reasons=["provider"], isolation="none")

    assert check_comparable(find_runs(outputs)) == []


def test_an_unknown_condition_is_named_with_the_near_one(lay_run: Lay, outputs: Path) -> None:
    lay_run("ada", "cartpole")

    with pytest.raises(ConfigError, match="Did you mean 'isolation'"):
        check_comparable(find_runs(outputs), allow=["isolaton"])


def test_statuses_and_reasons(lay_run: Lay, lay_sweep: Lay, plan: Callable[..., Cell]) -> None:
    lay_run("ada", "cartpole", 0)
    lay_run("ada", "cartpole", 1, valid=False, reasons=["provider"])
    lay_run("ada", "cartpole", 2, upto="session")
    lay_run("ada", "cartpole", 3, upto="session")
    lay_run("ada", "cartpole", 4, upto="opened")
    cells = [
        plan("ada", "cartpole", 0),
        plan("ada", "cartpole", 1),
        plan("ada", "cartpole", 2, "running"),
        plan("ada", "cartpole", 3, "failed", "disk full"),
        plan("ada", "cartpole", 4, "pending"),
        plan("ada", "cartpole", 5, "pending"),
        plan("ada", "cartpole", 6, "failed", "no such agent"),
        plan("ada", "cartpole", 7, "finished"),
    ]
    scores = cell_scores(find_runs(lay_sweep(cells)))

    assert [score.seed for score in scores] == list(range(8))
    assert [score.status for score in scores] == [
        "done", "invalid", "running", "failed", "unfinished", "pending", "failed", "unreadable",
    ]  # fmt: skip
    assert [scores[i].reason for i in (1, 3, 6)] == ["provider", "disk full", "no such agent"]
    assert "is missing" in scores[7].reason
    assert [score.mean for score in scores] == [2.0, *[None] * 7]


def test_a_sweep_names_the_entries_of_the_runs_it_reuses(lay_run: Lay, lay_sweep: Lay) -> None:
    folder = lay_run("ada", "cartpole", axes={"protocol": "small"})
    path = f"runs/cartpole/ada/{folder.name}"
    (score,) = cell_scores(
        find_runs(lay_sweep([Cell(path, "ada", "cartpole", 0, status="reused")]))
    )

    assert score.entry == "ada"
