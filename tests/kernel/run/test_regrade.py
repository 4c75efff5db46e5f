"""Grading a Run's Programs again: no agent, no Episode twice, a record of its own that names its
parent."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.ports.pool import plan_pool
from evopolicy.kernel.run.regrade import adopt, lay_regrade, regrade
from evopolicy.kernel.run.result import Grading, graded_path
from evopolicy.kernel.run.run import run
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.kernel.session.submission import Bench, read_graded
from tests.kernel.bench import POOL, SELECTION, AgentCalls, Stage, events

SPLITS: tuple[Any, ...] = ("validation", "assessment")


def good(call: AgentCalls) -> None:
    call.submit(5, "0:3")
    call.submit(2, "3:6")
    call.submit(5, "1:2")
    call("finish")


def again(made: Stage, parent: Run, folder: Path, *, adopted: bool = True, **changes: Any) -> Run:
    pool = replace(POOL, **changes.pop("pool", {}))
    record = replace(
        parent.record, parent=parent.record.result_key, result_key="again", pool=pool,
        selection=replace(SELECTION, **changes.pop("selection", {})),
    )  # fmt: skip
    lay_regrade(parent, folder, record)
    for split in SPLITS if adopted else ():
        for program in {s.program for s in parent.state.submissions}:
            adopt(folder, split, program, [graded_path(parent.folder, split, program)])
    bench = Bench(made.benchmark, made.executor, made.feedback, 1, folder)
    return regrade(
        Grading(record, folder, bench, plan_pool(pool, made.benchmark, b"secret"), made.store),
        SPLITS,
    )


@pytest.fixture
def made(tmp_path: Path) -> Stage:
    return Stage(tmp_path, (good,))


def test_every_program_is_measured_on_both_splits_and_another_rule_selects(
    made: Stage, tmp_path: Path
) -> None:
    parent = run(made.plan())
    graded = again(
        made, parent, tmp_path / "again", selection={"rule": "last"}, pool={"assessment": 9}
    )
    assert (graded.finished, graded.valid, graded.record.parent) == (
        True,
        True,
        parent.record.result_key,
    )
    assert graded.result.selected_submission == 3
    first, second = dict.fromkeys(s.program for s in parent.state.submissions)
    for program in (first, second, parent.record.initial_program):
        assert graded.result.validation[program].episodes == 3
        assert len(read_graded(graded_path(graded.folder, "assessment", program))) == 9
    assert graded.result.assessment is not None
    assert graded.result.assessment.episodes == 9
    assert graded.state.submissions == parent.state.submissions
    assert graded.feedback(1).is_dir(), "what the agent saw is found from here too"
    assert load_run(parent.folder) == parent, "the parent is as it was"


def test_no_episode_is_run_twice(made: Stage, tmp_path: Path) -> None:
    parent = run(made.plan())
    before = len(made.executor.ran)
    graded = again(made, parent, tmp_path / "again", pool={"assessment": 7})
    # Two Programs were validated before and one of them assessed on five; the initial one never
    # was.
    assert len(made.executor.ran) - before == (7 - 5) + 7 + (3 + 7)
    before = len(made.executor.ran)
    assert again(made, parent, tmp_path / "again", pool={"assessment": 7}) == graded
    assert len(made.executor.ran) == before


def test_a_regrade_that_was_cut_goes_on(
    made: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = run(made.plan())
    evaluate, calls = made.executor.evaluate, []

    def dies(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(*arguments, **options)

    monkeypatch.setattr(made.executor, "evaluate", dies)
    with pytest.raises(KeyboardInterrupt):
        again(made, parent, tmp_path / "again", adopted=False)
    graded = again(made, parent, tmp_path / "again", adopted=False)
    assert graded.finished
    assert len(calls) == 1 + 6, "the one that was cut, and three Programs on two splits"
    assert graded.result.assessment == parent.result.assessment


def test_a_run_that_has_not_handed_off_is_refused(made: Stage, tmp_path: Path) -> None:
    parent = run(made.plan())
    whole = (parent.folder / "journal.jsonl").read_text().splitlines(keepends=True)
    place = next(n for n, event in enumerate(events(parent.folder)) if event["event"] == "handoff")
    (parent.folder / "journal.jsonl").write_text("".join(whole[:place]))
    with pytest.raises(RecordError, match="has not handed off"):
        again(made, load_run(parent.folder), tmp_path / "again")


def test_another_regrade_in_its_place_is_refused(made: Stage, tmp_path: Path) -> None:
    parent = run(made.plan())
    again(made, parent, tmp_path / "again")
    with pytest.raises(RecordError, match="another record"):
        lay_regrade(parent, tmp_path / "again", replace(parent.record, result_key="a third"))


def test_an_output_folder_may_be_moved_with_its_regrades(made: Stage, tmp_path: Path) -> None:
    parent = run(made.plan())
    again(made, parent, tmp_path / "regrades" / "a" / "again")
    moved = tmp_path.with_name(tmp_path.name + "-moved")
    shutil.copytree(tmp_path, moved, symlinks=True)
    shutil.rmtree(tmp_path)
    graded = load_run(moved / "regrades" / "a" / "again")
    assert graded.program(graded.record.initial_program).is_dir()
    assert graded.feedback(1).is_dir()
    moved.rename(tmp_path)
