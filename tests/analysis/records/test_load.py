"""Finding Runs and sweeps on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.analysis import check_comparable, load_frames
from evopolicy.analysis.records.load import cell_of, find_runs, read_episodes, read_program
from evopolicy.analysis.records.scores import cell_scores
from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.run.sweep import Cell
from evopolicy.kernel.session.submission import read_graded, write_graded

Lay = Callable[..., Path]
Plan = Callable[..., Cell]


def names(folders: object) -> list[str]:
    return [run.folder.name for run in folders]  # type: ignore[attr-defined]


def test_a_run_folder_or_its_record_is_found(lay_run: Lay) -> None:
    folder = lay_run("ada", "cartpole")

    assert [run.folder for run in find_runs(folder)] == [folder]
    assert [run.folder for run in find_runs(folder / "record.json")] == [folder]


def test_an_output_or_runs_folder_holds_every_run_in_a_stable_order(
    lay_run: Lay, tmp_path: Path
) -> None:
    lay_run("bob", "pendulum")
    lay_run("ada", "pendulum")
    lay_run("ada", "cartpole")
    found = find_runs(tmp_path / "outputs")

    assert [(run.record.benchmark.slug, run.record.entry) for run in found] == [
        ("cartpole", "ada"),
        ("pendulum", "ada"),
        ("pendulum", "bob"),
    ]
    assert len(find_runs(tmp_path / "outputs" / "runs")) == 3
    assert len(find_runs(tmp_path / "outputs" / "runs" / "pendulum")) == 2


def test_a_run_named_twice_is_loaded_once(lay_run: Lay, tmp_path: Path) -> None:
    folder = lay_run("ada", "cartpole")

    assert len(find_runs(folder, tmp_path / "outputs")) == 1


def test_a_record_planted_inside_a_run_is_no_run(lay_run: Lay, tmp_path: Path) -> None:
    folder = lay_run("ada", "cartpole")
    planted = folder / "workspace" / "runs" / "fake"
    planted.mkdir(parents=True)
    for name in ("record.json", "journal.jsonl"):
        (planted / name).write_bytes((folder / name).read_bytes())

    assert [run.folder for run in find_runs(tmp_path / "outputs")] == [folder]
    assert [run.folder for run in find_runs(folder)] == [folder]


def test_a_corrupt_run_is_named_and_the_others_load(lay_run: Lay, tmp_path: Path) -> None:
    good, bad, old = (
        lay_run("ada", "cartpole"),
        lay_run("bob", "cartpole"),
        lay_run("eve", "cartpole"),
    )
    (bad / "journal.jsonl").write_text("{not json\n")
    value = json.loads((old / "record.json").read_text())
    (old / "record.json").write_text(json.dumps({**value, "schema": 99}))
    found = find_runs(tmp_path / "outputs")

    assert [run.folder for run in found] == [good]
    assert [item.folder for item in found.unreadable] == [bad, old]
    assert "line 1 is corrupt" in found.unreadable[0].reason
    assert "schema 99" in found.unreadable[1].reason


def test_a_folder_with_a_journal_and_no_record_is_named(lay_run: Lay, tmp_path: Path) -> None:
    folder = lay_run("ada", "cartpole")
    (folder / "record.json").unlink()

    assert [item.folder for item in find_runs(tmp_path / "outputs").unreadable] == [folder]


def test_unfinished_runs_are_found_too(lay_run: Lay) -> None:
    (run,) = find_runs(lay_run("ada", "cartpole", upto="session"))

    assert not run.finished


def test_a_sweep_reports_every_planned_cell(lay_run: Lay, lay_sweep: Lay, plan: Plan) -> None:
    folder = lay_run("ada", "cartpole")
    lay_run("bob", "cartpole")  # not of this sweep
    sweep = lay_sweep([plan("ada", "cartpole"), plan("ada", "pendulum", status="pending")])
    found = find_runs(sweep)

    assert [run.folder.resolve() for run in found] == [folder.resolve()]
    assert [cell.benchmark for cell in found.cells] == ["cartpole", "pendulum"]
    assert len(find_runs(sweep / "sweep.json")) == 1


def test_a_sweep_that_has_not_begun_is_no_error(lay_sweep: Lay, plan: Plan) -> None:
    found = find_runs(lay_sweep([plan("ada", "cartpole", status="pending")]))

    assert len(found) == 0
    assert len(found.cells) == 1


def test_a_sweep_works_from_inside_its_own_folder(
    lay_run: Lay, lay_sweep: Lay, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_run("ada", "cartpole")
    monkeypatch.chdir(lay_sweep([plan("ada", "cartpole")]))

    assert len(find_runs(Path())) == 1


@pytest.mark.parametrize("run", ["../../elsewhere", "/etc"])
def test_a_cell_outside_the_output_folder_is_refused(lay_sweep: Lay, run: str) -> None:
    sweep = lay_sweep([Cell(run, "ada", "cartpole", 0)])

    with pytest.raises(RecordError, match="outside the output folder"):
        find_runs(sweep)


def test_sweeps_of_other_rules_name_different_results_of_a_run(
    records: Any, tmp_path: Path
) -> None:
    folder = records.write_run(tmp_path, heldout=(190.0, 210.0))
    records.write_cells(tmp_path, "first", [records.cell_of(tmp_path, folder)])
    records.follow_rule(folder, "another", heldout=(10.0, 30.0))
    records.write_cells(tmp_path, "second", [records.cell_of(tmp_path, folder)])
    first, second = (tmp_path / "sweeps" / name for name in ("first", "second"))

    def found(*sources: Path) -> list[tuple[float, str]]:
        runs = find_runs(*sources)
        return [
            (run.result.assessment.mean if run.result.assessment else 0, run.record.selection.rule)
            for run in runs
        ]

    assert (
        found(first) == found(first, folder) == found(folder, first) == [(200.0, "validation_mean")]
    )
    assert found(second) == found(folder) == [(20.0, "last")]
    both = find_runs(first, second)
    assert [score.mean for score in cell_scores(both)] == [200.0, 20.0]
    assert load_frames(both).runs["selection"].tolist() == [
        "validation_mean, ties by fewer_failures",
        "last",
    ]
    with pytest.raises(RecordError, match="selection rules on cartpole"):
        check_comparable(both)
    with pytest.raises(RecordError, match="several Runs of one cell"):
        check_comparable(both, allow=["selection"])


def test_a_cell_whose_result_is_still_to_come_shows_no_other(records: Any, tmp_path: Path) -> None:
    folder = records.write_run(tmp_path)
    cell = replace(records.cell_of(tmp_path, folder, "running"), result_key="to-come")
    records.write_cells(tmp_path, "next", [cell])

    assert [(s.status, s.mean) for s in cell_scores(find_runs(tmp_path / "sweeps" / "next"))] == [
        ("running", None)
    ]


def test_episodes_that_only_another_rule_measured_are_left_out(lay_run: Lay) -> None:
    folder = lay_run("ada", "cartpole", heldout=[1.0, 2.0], pool=PoolConfig("derived", 16, 2, 2, 0))
    for path in folder.glob("evaluations/*/*.jsonl"):
        first = read_graded(path)
        write_graded(
            path, [*first, replace(first[0], outcome=replace(first[0].outcome, index=len(first)))]
        )
    other = folder / "evaluations" / "assessment" / f"{'e' * 64}.jsonl"
    other.write_bytes(next(other.parent.glob("*.jsonl")).read_bytes())
    (run,) = find_runs(folder)
    private = [file for file in read_episodes(run)[0] if file.submission is None]

    assert [(file.split, len(file.graded)) for file in private] == [
        ("validation", 2),
        ("assessment", 2),
    ]
    assert private[1].program == run.result.selected


def test_a_missing_source_is_named_with_the_near_one(tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()

    with pytest.raises(RecordError, match="Did you mean 'outputs'"):
        find_runs(tmp_path / "output")


def test_a_missing_source_with_none_near_lists_no_unrelated_folders(tmp_path: Path) -> None:
    for name in ("music", "letters"):
        (tmp_path / name).mkdir()

    with pytest.raises(RecordError, match=r"output is not a folder\. Check the path\.$"):
        find_runs(tmp_path / "output")


def test_a_folder_without_runs_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no Run; name a Run's folder"):
        find_runs(tmp_path)


def test_the_folder_of_all_sweeps_lists_them(lay_sweep: Lay, plan: Plan) -> None:
    sweeps = lay_sweep([plan("ada", "cartpole")]).parent

    with pytest.raises(RecordError, match="name one of them: trial"):
        find_runs(sweeps)


def test_a_cell_is_matched_by_whole_folder_names() -> None:
    cells = [Cell("runs/x/ada/s0-a", "ada", "x", 0)]

    assert cell_of(Path("/out/runs/x/ada/s0-a"), cells) is cells[0]
    assert cell_of(Path("/out/runs/x/ada/ss0-a"), cells) is None
    assert cell_of(Path("s0-a"), cells) is None


def test_episodes_of_every_split_are_read(lay_run: Lay) -> None:
    (run,) = find_runs(lay_run("ada", "cartpole", heldout=[1.0, 2.0, 3.0], failed=1))
    files, broken = read_episodes(run)

    assert not broken
    assert [(file.split, file.submission, len(file.graded)) for file in files] == [
        ("training", 1, 2),
        ("training", 2, 2),
        ("validation", None, 2),
        ("assessment", None, 3),
    ]
    assert files[-1].program == run.result.selected


def test_pruned_episodes_are_left_out_and_corrupt_ones_named(lay_run: Lay) -> None:
    (run,) = find_runs(lay_run("ada", "cartpole"))
    (run.folder / "submissions" / "0001" / "outcomes.jsonl").unlink()
    (run.folder / "submissions" / "0002" / "outcomes.jsonl").write_text('{"score": "high"}\n')
    files, broken = read_episodes(run)

    assert [file.split for file in files] == ["validation", "assessment"]
    assert len(broken) == 1
    assert "0002/outcomes.jsonl: is corrupt" in broken[0].reason


def test_a_program_is_read_with_its_modules(lay_run: Lay) -> None:
    (run,) = find_runs(lay_run("ada", "cartpole"))
    files = read_program(run, run.record.initial_program)

    assert files is not None
    assert dict(files.source) == {"policy.py": "# ada first\n"}
    assert (files.files, files.bytes) == (1, 12)
    assert read_program(run, "0" * 64) is None
