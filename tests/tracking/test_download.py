"""An MLflow experiment brought back as folders of Runs: what is read from them is what the records
say."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evopolicy.analysis.records.frames import COLUMNS, Frames
from evopolicy.analysis.records.load import find_runs, load_frames
from evopolicy.kernel.errors import ConfigError, TrackingError
from evopolicy.kernel.files.program import ProgramStore, capture, link_program
from evopolicy.kernel.ports.outcome import Graded, Outcome, PolicyFailure
from evopolicy.kernel.run.result import graded_path
from evopolicy.kernel.run.sweep import sweep_folder
from evopolicy.kernel.session.record import load_run
from evopolicy.kernel.session.selection import Measurement
from evopolicy.kernel.session.submission import OUTCOMES, submission_folder, write_graded
from evopolicy.tracking import artifacts as reading
from evopolicy.tracking.artifacts import Artifacts, checked
from evopolicy.tracking.download import DOWNLOADS, STAMP, Downloaded, download
from evopolicy.tracking.follow import track
from evopolicy.tracking.store import Store, Tracking

EXPERIMENT = "evopolicy"
OWN = Tracking()
Lay = Callable[..., Path]


def graded(indices: range, score: float, failed: int = 0) -> list[Graded]:
    found = []
    for place, index in enumerate(indices):
        failure = PolicyFailure("exception", "it broke", step=3) if place < failed else None
        outcome = Outcome(
            index,
            score,
            10 + place,
            "failed" if failure else "truncated",
            failure,
            {"angle": place / 2},
        )
        found.append(Graded(score + place, outcome))
    return found


def heldout(told: Measurement | None) -> list[Graded]:
    """The two Episodes that come to `told`, where there is a result."""
    assert told is None or told.episodes == 2
    spread = (told.standard_error or 0.0) if told else 0.0
    scores = [told.mean - spread, told.mean + spread] if told else [60.0, 61.0]
    first, second = graded(range(2), 0.0, failed=told.failed if told else 0)
    return [replace(first, score=scores[0]), replace(second, score=scores[1])]


@pytest.fixture
def lay(records: Any, output: Path, lay_attempt: Callable[..., Path]) -> Lay:
    """`lay(agent, seed, **options)`: a Run with everything a Host leaves: Episodes, its first
    Program, a transcript."""

    def make(agent: str = "cma_es", seed: int = 0, **options: Any) -> Path:
        source = output / "initial"
        source.mkdir(exist_ok=True)
        (source / "policy.py").write_text("def make_policy(context):\n    return None\n")
        (source / "page.html.txt").write_text("its own name")
        programs = ProgramStore(output / "programs")
        initial = programs.put(capture(source)).name
        record = records.a_record(
            agent, "cartpole", seed, initial_program=initial, axes={"selection": "a"}
        )
        folder: Path = records.write_run(output, record, **options)
        link_program(folder, programs, initial)
        run = load_run(folder)
        for submission in run.state.published:
            written = graded(range(len(submission.indices)), submission.score or 0.0, failed=2)
            write_graded(submission_folder(folder, submission.id) / OUTCOMES, written)
        for program in run.result.validation:
            write_graded(graded_path(folder, "validation", program), graded(range(4), 50.0))
        if run.result.selected:
            write_graded(
                graded_path(folder, "assessment", run.result.selected),
                heldout(run.result.assessment),
            )
        asked = {
            "time": run.state.submissions[0].time,
            "model": "m-1",
            "input_tokens": 30,
            "output_tokens": 12,
        }
        lay_attempt(folder, proxy=json.dumps(asked) + "\n")
        return folder

    return make


@pytest.fixture
def plan(records: Any, output: Path) -> Callable[..., Path]:
    """`plan(name, *folders)`: a sweep of these Runs; its folder."""

    def make(name: str, *folders: Path, more: tuple[Any, ...] = ()) -> Path:
        records.write_cells(
            output, name, [*(records.cell_of(output, folder) for folder in folders), *more]
        )
        return sweep_folder(output, name)

    return make


def frames_of(*sources: Path) -> Frames:
    return load_frames(find_runs(*sources))


def assert_same(one: Frames, other: Frames) -> None:
    """Every frame, but for where the Runs lie."""
    for name in COLUMNS:
        left, right = (getattr(frames, name).drop(columns="run") for frames in (one, other))
        pd.testing.assert_frame_equal(left, right, obj=name)


def fetched(found: Downloaded) -> tuple[int, int, int]:
    return found.fetched, found.kept, len(found.skipped)


def of_run(store: Store, agent: str = "cma_es") -> Any:
    """The MLflow run of the agent's Run."""
    runs = store.client.search_runs([store.experiment_id])
    return next(r for r in runs if r.data.tags["kind"] == "cell" and r.data.tags["agent"] == agent)


def artifact_root(store: Store, agent: str = "cma_es") -> Path:
    return Path(of_run(store, agent).info.artifact_uri.removeprefix("file://"))


def test_frames_of_a_downloaded_sweep_are_those_of_its_records(
    output: Path, lay: Lay, plan: Callable[..., Path], records: Any, rank: Any
) -> None:
    folders = [lay("baseline"), lay("cma_es", heldout=(300.0, 310.0))]
    absent = records.cell_of(output, folders[1])
    pending = replace(absent, run="runs/cartpole/cma_es/s7", seed=7, status="pending")
    failed = replace(
        absent, run="runs/cartpole/cma_es/s8", seed=8, status="failed", error="no such model"
    )
    sweep = plan("quick", *folders, more=(pending, failed))
    track(sweep, output, OWN, rank)
    shutil.copytree(output, moved := output.parent / f"{output.name}-moved", symlinks=True)
    shutil.rmtree(output / "runs")
    shutil.rmtree(output / "programs")

    found = download(f"{EXPERIMENT}/quick", output, OWN)
    assert fetched(found) == (2, 0, 0)
    ours = frames_of(*found.sources)
    assert_same(ours, frames_of(moved / "sweeps" / "quick"))
    assert {name: len(getattr(ours, name)) for name in COLUMNS} == {
        "runs": 2, "submissions": 4, "episodes": 2 * (16 + 8 + 2), "programs": 6, "candidates": 4, "usage": 2,
        "gaps": 2,
    }  # fmt: skip
    assert ours.programs.archived.all()
    assert ours.submissions.tokens.tolist() == [42.0] * 4
    first = find_runs(*found.sources).runs[0]
    transcript = Path("agent/attempt-1/transcript.json")
    recorded = moved / folders[0].relative_to(output) / transcript
    assert (first.folder / transcript).read_bytes() == recorded.read_bytes()
    assert (first.feedback(1) / "episodes" / "0000.csv").read_text() == "step,reward\n0,1.0\n"
    for digest in {first.record.initial_program, *(s.program for s in first.state.submissions)}:
        assert capture(first.program(digest)).digest == digest

    whole = download(EXPERIMENT, output, OWN)
    assert fetched(whole) == (0, 2, 0)
    assert_same(frames_of(*whole.sources), frames_of(moved / "runs"))


def test_only_what_changed_is_downloaded_again_and_each_sweep_keeps_the_result_of_its_rule(
    output: Path, lay: Lay, plan: Callable[..., Path], records: Any, rank: Any
) -> None:
    shared, other = lay("cma_es", heldout=(190.0, 210.0)), lay("baseline")
    # One file cannot come to the results of two rules that differ, and these do without their
    # Episodes' scores.
    shutil.rmtree(shared / "evaluations" / "assessment")
    before = plan("before", shared, other)
    track(before, output, OWN, rank)
    assert fetched(download(EXPERIMENT, output, OWN)) == (2, 0, 0)
    assert fetched(download(f"{EXPERIMENT}/before", output, OWN)) == (0, 2, 0)

    records.follow_rule(shared, "another", heldout=(10.0, 30.0))
    after = plan("after", shared)
    track(after, output, OWN, rank)
    whole = download(EXPERIMENT, output, OWN)
    assert fetched(whole) == (1, 1, 0)
    assert sorted(frames_of(*whole.sources).runs.heldout_mean) == [20.0, 200.0]
    for name, folder in (("before", before), ("after", after)):
        found = download(f"{EXPERIMENT}/{name}", output, OWN)
        assert found.fetched == 0
        assert_same(frames_of(*found.sources), frames_of(folder))


def test_runs_that_have_not_ended_are_left_out_and_named(
    output: Path, lay: Lay, rank: Any, records: Any
) -> None:
    running, gone, done = (
        lay("running", until="agent_ended"),
        lay("gone", until="agent_ended"),
        lay("done"),
    )
    failed = records.cell_of(output, gone, "failed", "it was killed")
    cells = [
        replace(records.cell_of(output, running), status="running"),
        failed,
        records.cell_of(output, done),
    ]
    records.write_cells(output, "quick", cells)
    track(sweep_folder(output, "quick"), output, OWN, rank)
    found = download(f"{EXPERIMENT}/quick", output, OWN)
    assert fetched(found) == (1, 0, 2)
    text = "\n".join(found.skipped)
    assert "running selection=a · cartpole · s0: has not ended yet" in text
    assert "gone selection=a · cartpole · s0: its journal.jsonl is not in MLflow" in text
    gaps = frames_of(*found.sources).gaps
    assert dict(zip(gaps.entry.str.split().str[0], gaps.status, strict=True)) == {
        "running": "running",
        "gone": "failed",
    }


def test_a_download_that_is_cut_leaves_what_was_there_and_is_made_good(
    output: Path, lay: Lay, rank: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lay()
    track(folder, output, OWN, rank)
    (root,) = download(EXPERIMENT, output, OWN).sources
    (stamp,) = root.glob(f"runs/*/*/*/{STAMP}")
    stamp.write_text("{}")  # what is there is an older state
    before = sorted(stamp.parent.rglob("*"))
    whole = Artifacts.fetch

    def cut(artifacts: Artifacts, wanted: Any) -> None:
        whole(artifacts, wanted[:2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Artifacts, "fetch", cut)
        with pytest.raises(KeyboardInterrupt):
            download(EXPERIMENT, output, OWN)
    assert sorted(stamp.parent.rglob("*")) == before
    (root / ".staging-killed").mkdir()
    assert fetched(download(EXPERIMENT, output, OWN)) == (1, 0, 0)
    assert sorted(path.name for path in root.iterdir()) == [".lock", "runs"]


def test_a_run_that_the_store_has_no_more_is_dropped(
    output: Path, store: Store, lay: Lay, plan: Callable[..., Path], rank: Any
) -> None:
    track(plan("quick", lay("cma_es"), lay("baseline")), output, OWN, rank)
    found = download(EXPERIMENT, output, OWN)
    store.client.delete_run(of_run(store).info.run_id)
    assert fetched(download(EXPERIMENT, output, OWN)) == (0, 1, 0)
    assert [run.record.agent.label for run in find_runs(*found.sources)] == ["baseline"]


@pytest.mark.parametrize(
    "place", ["record.json", "programs/0001/policy.py", "feedback", "evaluations/more"]
)
def test_a_link_among_the_artifacts_is_never_followed(
    place: str, output: Path, store: Store, lay: Lay, rank: Any, tmp_path: Path
) -> None:
    track(lay(), output, OWN, rank)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("the key")
    planted = artifact_root(store) / place
    shutil.rmtree(planted) if planted.is_dir() else planted.unlink(missing_ok=True)
    planted.symlink_to(secret if "." not in planted.name else secret / "key")
    with pytest.raises(TrackingError, match="is a link or a special file"):
        download(EXPERIMENT, output, OWN)
    assert not [
        path for path in (output / DOWNLOADS).rglob("*") if path.name == "key" or path.is_symlink()
    ]


def test_what_is_too_large_or_of_another_run_is_left_out(
    output: Path,
    store: Store,
    lay: Lay,
    plan: Callable[..., Path],
    rank: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    track(plan("quick", lay("cma_es"), lay("baseline"), lay("random")), output, OWN, rank)
    shutil.copyfile(
        artifact_root(store, "baseline") / "record.json", artifact_root(store) / "record.json"
    )
    os.truncate(artifact_root(store, "random") / "feedback" / "0001" / "feedback.json", 1 << 20)
    monkeypatch.setattr(reading, "FILE_BYTES", 1 << 19)
    found = download(EXPERIMENT, output, OWN)
    assert fetched(found) == (1, 0, 2)
    text = "\n".join(found.skipped)
    assert "cma_es" in text and "record.json is of another Run than its tags say" in text
    assert "random" in text and "'feedback/0001/feedback.json' has 1,048,576 bytes" in text


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("../record.json", ""), ("/etc/passwd", ""), ("feedback/../../x", "feedback"), ("other/x", "feedback"),
        ("feedback/..", "feedback"), ("a\\..\\b", ""), ("", ""), ("feedback/", "feedback"), ("a\nb", ""),
        ("n" * 256, ""), ("feedback//x", "feedback"),
    ],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(path: str, folder: str) -> None:
    with pytest.raises(TrackingError, match="leads out of its folder"):
        checked(path, folder)


def test_a_server_that_lists_hostile_paths_is_given_up() -> None:
    class Info:
        path, is_dir, file_size = "../../escaped", False, 3

    class Client:
        def list_artifacts(self, *_: object) -> list[Any]:
            return [Info()]

    with pytest.raises(TrackingError, match="leads out of its folder"):
        Artifacts("http://host", Client(), "r", None).files(["record.json"])


def test_a_wrong_name_is_told_the_near_one_and_nothing_is_made(
    output: Path, lay: Lay, rank: Any
) -> None:
    with pytest.raises(ConfigError, match="names no experiment"):
        download("/", output, OWN)
    with pytest.raises(TrackingError, match="there is no database"):
        download(EXPERIMENT, output / "elsewhere", OWN)
    assert not (output / "elsewhere").exists()
    track(lay(), output, Tracking(experiment="team/paper"), rank)
    with pytest.raises(TrackingError, match="Did you mean 'team/paper'"):
        download("team/papr", output, OWN)
    with pytest.raises(TrackingError, match="has no sweep 'quick'"):
        download("team/paper/quick", output, OWN)
    assert fetched(download("team/paper", output, OWN)) == (1, 0, 0)


def test_a_sweep_comes_back_from_a_server_as_it_was(
    output: Path,
    lay: Lay,
    plan: Callable[..., Path],
    rank: Any,
    tracking_server: Callable[..., Any],
) -> None:
    sweep = plan("quick", lay("cma_es"))
    with tracking_server() as uri:
        tracking = Tracking(uri)
        track(sweep, output, tracking, rank)
        found = download(f"{EXPERIMENT}/quick", output / "fresh", tracking)
        again = download(f"{EXPERIMENT}/quick", output / "fresh", tracking)
    assert (fetched(found), fetched(again)) == ((1, 0, 0), (0, 1, 0))
    assert_same(frames_of(*found.sources), frames_of(sweep))
