"""Feedback: what each level shows, what is refused, how it is laid and what is evicted."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evopolicy.kernel.errors import BenchmarkError
from evopolicy.kernel.files.host_paths import host_paths
from evopolicy.kernel.ports import feedback as feedback_module
from evopolicy.kernel.ports.benchmark import Artifact
from evopolicy.kernel.ports.evaluation import Evaluation
from evopolicy.kernel.ports.feedback import (
    MAX_ARTIFACT_BYTES,
    MAX_ARTIFACTS,
    VISIBILITIES,
    check_artifacts,
    compose,
    copy_feedback,
    discard,
    publish,
)
from evopolicy.kernel.ports.outcome import EpisodeResult, Graded, Outcome, Output, PolicyFailure
from evopolicy.kernel.session import shelf as shelf_module
from evopolicy.kernel.session.record import feedback_folder
from evopolicy.kernel.session.shelf import Shelf
from evopolicy.kernel.values import ValueRefused

PATHS = host_paths()
TRACEBACK = 'File "policy.py", line 9, in act\nZeroDivisionError'
FAILED = Outcome(
    7, 1.0, 3, "failed", PolicyFailure("exception", "division by zero", "act", 3, TRACEBACK), {"speed": np.float64(2)},
    Output("printed by seven"), 2,
)  # fmt: skip
FINE = Outcome(3, 5.0, 9, "truncated", measures={"speed": 4.0}, output=Output("x" * 3_000, 17))
EVALUATION = Evaluation(
    (Graded(-1.0, FAILED), Graded(5.0, FINE)), (EpisodeResult(7, FAILED), EpisodeResult(3, FINE)), 0
)
SUMMARY = {"mean_speed": 3.0}


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    path = tmp_path / "made-here"
    path.write_bytes(b"t,x\n0,1\n")
    return Artifact("episodes/0007.csv", path, "text/csv", "bulk", 7)


def composed(visibility: str, *artifacts: Artifact) -> dict[str, Any]:
    return compose(visibility, 2, "digest", EVALUATION, SUMMARY, artifacts)


# --- levels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visibility", "keys"),
    [
        ("score", []),
        ("summary", ["summary"]),
        ("episodes", ["summary", "by_episode"]),
        ("full", ["summary", "by_episode", "artifacts"]),
    ],
)
def test_each_level_shows_exactly_what_it_says(
    visibility: str, keys: list[str], artifact: Artifact
) -> None:
    content = composed(visibility, artifact)
    assert list(content) == ["submission", "program", "score", "episodes", "failed_episodes", *keys]
    assert content["score"] == 2.0
    assert content["episodes"] == 2
    assert content["failed_episodes"] == {"exception": 1}


@pytest.mark.parametrize("visibility", ["score", "summary"])
def test_below_episodes_nothing_of_a_single_episode_is_told(
    visibility: str, artifact: Artifact, tmp_path: Path
) -> None:
    publish(
        tmp_path / "0002",
        composed(visibility, artifact),
        EVALUATION,
        [artifact] if visibility == "full" else [],
        PATHS,
    )
    (only,) = [path for path in (tmp_path / "0002").rglob("*") if path.is_file()]
    text = only.read_text()
    for secret in (
        "division by zero",
        "policy.py",
        "printed by seven",
        "xxx",
        '"index"',
        'speed": 2',
        "truncated",
    ):
        assert secret not in text


def test_episodes_shows_return_length_ending_measures_traceback_and_output() -> None:
    failed, fine = composed("episodes")["by_episode"]
    assert failed == {
        "index": 7, "score": -1.0, "return": 1.0, "length": 3, "ending": "failed", "measures": {"speed": 2.0},
        "clipped_actions": 2, "output": "printed by seven",
        "failure": {"kind": "exception", "message": "division by zero", "phase": "act", "step": 3,
                    "traceback": TRACEBACK},
    }  # fmt: skip
    assert fine == {
        "index": 3, "score": 5.0, "return": 5.0, "length": 9, "ending": "truncated", "measures": {"speed": 4.0},
        "output": "x" * 2_000 + "...", "output_file": "output/0003.txt", "output_omitted_bytes": 17,
    }  # fmt: skip


def test_full_names_each_artifact_with_its_size_and_episode(artifact: Artifact) -> None:
    (row,) = composed("full", artifact)["artifacts"]
    assert row == {
        "file": "episodes/0007.csv", "media_type": "text/csv", "retention": "bulk", "bytes": 8, "episode": 7,
    }  # fmt: skip


@pytest.mark.parametrize("visibility", VISIBILITIES)
def test_feedback_names_public_indices_and_no_seed(visibility: str) -> None:
    assert "seed" not in json.dumps(composed(visibility))


def test_content_is_plain_json_even_where_a_benchmark_gave_numpy() -> None:
    given: dict[str, Any] = {
        "speeds": np.array([1.5, 2.0], np.float32),
        "steps": np.int64(3),
        "fast": np.bool_(True),
    }
    content = compose("episodes", 2, "digest", EVALUATION, given)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["summary"] == {"speeds": [1.5, 2.0], "steps": 3, "fast": True}
    assert [type(value) for value in content["summary"].values()] == [list, int, bool]
    assert type(content["by_episode"][0]["measures"]["speed"]) is float


def test_a_submission_of_thousands_of_episodes_is_no_fault() -> None:
    graded = tuple(
        Graded(0.0, replace(FINE, index=i, measures={f"m{n}": 1.0 for n in range(20)}))
        for i in range(5_000)
    )
    content = compose("episodes", 1, "digest", Evaluation(graded, (), 0), SUMMARY)
    assert len(content["by_episode"]) == 5_000


def test_what_is_not_public_in_a_summary_is_refused_with_its_path() -> None:
    with pytest.raises(ValueRefused, match=r"feedback\.summary\.speed: nan is not finite"):
        compose("summary", 1, "p", EVALUATION, {"speed": math.nan})
    bad = replace(FINE, measures={"where": object()})  # type: ignore[dict-item]
    with pytest.raises(ValueRefused, match=r"feedback\.by_episode\[0\]\.measures\.where"):
        compose("episodes", 1, "p", Evaluation((Graded(1.0, bad),), (), 0), {})


# --- artifacts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", "./a", ".hidden", "a/.hidden", "a b", "a\\b", "a\nb", "é",
     "feedback.json", "output", "output/0007.txt", "x" * 201],
)  # fmt: skip
def test_names_that_are_not_portable_or_ours_are_refused(artifact: Artifact, name: str) -> None:
    with pytest.raises(BenchmarkError, match="feedback: "):
        check_artifacts([replace(artifact, name=name)], {7})


def test_two_artifacts_may_not_share_a_name_or_lie_inside_each_other(artifact: Artifact) -> None:
    with pytest.raises(BenchmarkError, match="is taken or not a portable"):
        check_artifacts([artifact, artifact], {7})
    with pytest.raises(BenchmarkError, match="'a' is the name of a file and of a folder"):
        check_artifacts([replace(artifact, name="a"), replace(artifact, name="a/b/c")], {7})


def test_an_artifact_of_an_episode_that_was_not_asked_for_is_refused(artifact: Artifact) -> None:
    with pytest.raises(BenchmarkError, match="names Episode 7, which was not submitted on"):
        check_artifacts([artifact], {3})


def test_an_artifact_that_was_never_written_is_the_benchmarks_fault(artifact: Artifact) -> None:
    artifact.path.unlink()
    with pytest.raises(BenchmarkError, match=r"episodes/0007\.csv was named and not written"):
        check_artifacts([artifact], {7})


def test_count_and_size_are_bounded(artifact: Artifact) -> None:
    many = [replace(artifact, name=f"a/{n}") for n in range(MAX_ARTIFACTS + 1)]
    check_artifacts(many[:-1], {7})
    with pytest.raises(BenchmarkError, match="4097 artifacts, at most 4096"):
        check_artifacts(many, {7})
    os.truncate(artifact.path, MAX_ARTIFACT_BYTES + 1)
    with pytest.raises(BenchmarkError, match=r"0007\.csv exceeds 64 MiB"):
        check_artifacts([artifact], {7})


# --- publication ----------------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_published_feedback_holds_content_output_and_artifacts(
    artifact: Artifact, tmp_path: Path
) -> None:
    target = tmp_path / "submissions" / "feedback"
    publish(target, composed("full", artifact), EVALUATION, [artifact], PATHS)
    files = tree(target)
    assert json.loads(files.pop("feedback.json")) == {"schema": 1, **composed("full", artifact)}
    assert files == {"episodes/0007.csv": b"t,x\n0,1\n", "output/0003.txt": b"x" * 3_000}
    assert [path.name for path in target.parent.iterdir()] == ["feedback"]


def test_publishing_again_replaces_what_a_killed_host_left(
    artifact: Artifact, tmp_path: Path
) -> None:
    target = tmp_path / "feedback"
    (tmp_path / ".feedback.staging" / "half").mkdir(parents=True)
    publish(target, composed("full", artifact), EVALUATION, [artifact], PATHS)
    publish(target, composed("score"), EVALUATION, [], PATHS)
    assert list(tree(target)) == ["feedback.json"]
    assert not (tmp_path / ".feedback.staging").exists()


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_feedback_is_whole_or_absent_when_the_disk_fills(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    write = feedback_module._write
    done: list[Path] = []

    def full(path: Path, content: bytes) -> None:
        if len(done) == writes:
            raise OSError(28, "No space left on device")
        done.append(path)
        write(path, content)

    monkeypatch.setattr(feedback_module, "_write", full)
    with pytest.raises(OSError, match="No space"):
        publish(tmp_path / "feedback", composed("full", artifact), EVALUATION, [artifact], PATHS)
    assert not (tmp_path / "feedback").exists()


# --- the agent's copy -----------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path, artifact: Artifact) -> Path:
    folder = tmp_path / "run" / "feedback"
    publish(folder, composed("full", artifact), EVALUATION, [artifact], PATHS)
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "feedback"
    folder.mkdir(parents=True)
    return folder


def test_the_agent_gets_a_copy_of_its_own(source: Path, workspace: Path) -> None:
    copy_feedback(source, workspace, "0002")
    assert tree(workspace / "0002") == tree(source)
    (workspace / "0002" / "feedback.json").write_text("mine")
    assert json.loads((source / "feedback.json").read_text())["submission"] == 2
    assert [path.name for path in source.parent.iterdir()] == ["feedback"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "0002" / "episodes").mkdir(parents=True)
    (folder / "0002" / "episodes" / "0007.csv").write_text("the Host's own")
    return folder


def spoil_with_link(workspace: Path, outside: Path) -> None:
    workspace.rmdir()
    workspace.symlink_to(outside)


SPOILS: dict[str, Any] = {
    "feedback is a link": spoil_with_link,
    "feedback is a file": lambda workspace, _: (workspace.rmdir(), workspace.write_text("")),
    "feedback is gone": lambda workspace, _: workspace.rmdir(),
    "feedback is a pipe": lambda workspace, _: (workspace.rmdir(), os.mkfifo(workspace)),
    "the copy's place is a link": lambda workspace, outside: (workspace / "0002").symlink_to(
        outside / "0002"
    ),
    "the copy's place is a dangling link": lambda workspace, _: (workspace / "0002").symlink_to(
        "nowhere"
    ),
    "the copy's place is a file": lambda workspace, _: (workspace / "0002").write_text("mine"),
    "the copy's place is a folder": lambda workspace, _: (workspace / "0002" / "own").mkdir(
        parents=True
    ),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_spoiled_workspace_gets_no_copy_and_nothing_outside_changes(
    source: Path, workspace: Path, outside: Path, spoil: str
) -> None:
    SPOILS[spoil](workspace, outside)
    before = tree(outside)
    copy_feedback(source, workspace, "0002")
    discard(workspace, "0002", "episodes/0007.csv")
    assert tree(outside) == before
    assert [path.name for path in source.parent.iterdir()] == ["feedback"]


@pytest.mark.not_as_root
def test_a_workspace_folder_nobody_may_enter_is_opened_and_gets_its_copy(
    source: Path, workspace: Path
) -> None:
    workspace.chmod(0)
    copy_feedback(source, workspace, "0002")
    assert [path.name for path in workspace.iterdir()] == ["0002"]


def test_a_full_disk_while_copying_is_told_and_leaves_no_half_copy(
    source: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copytree", full)
    with pytest.raises(OSError, match="No space"):
        copy_feedback(source, workspace, "0002")
    assert list(workspace.iterdir()) == []


def test_an_evicted_artifact_leaves_the_agents_copy_too(
    source: Path, workspace: Path, outside: Path
) -> None:
    copy_feedback(source, workspace, "0002")
    discard(workspace, "0002", "episodes/0007.csv")
    assert not (workspace / "0002" / "episodes" / "0007.csv").exists()
    (workspace / "0002" / "episodes").rmdir()
    (workspace / "0002" / "episodes").symlink_to(outside / "0002" / "episodes")
    discard(workspace, "0002", "episodes/0007.csv")
    assert (outside / "0002" / "episodes" / "0007.csv").exists(), "no link is followed"


# --- retention ------------------------------------------------------------------------------------


def published(tmp_path: Path, number: int, **sizes: int) -> Path:
    """A Feedback folder whose artifacts are bulk, but for those named `keep...`."""
    artifacts = []
    for name, size in sizes.items():
        path = tmp_path / f"made-{number}-{name}"
        path.write_bytes(b"x" * size)
        artifacts.append(
            Artifact(name, path, "text/plain", "permanent" if name.startswith("keep") else "bulk")
        )
    folder = feedback_folder(tmp_path, number)
    publish(folder, composed("full", *artifacts), EVALUATION, artifacts, PATHS)
    return folder


def shelf(folders: Sequence[Path], budget: int) -> tuple[Shelf, list[tuple[str, str]]]:
    """The shelf after each Feedback has come, and what had to go meanwhile."""
    workspace = folders[0].parents[2] / "workspace"
    (workspace / "feedback").mkdir(parents=True, exist_ok=True)
    made, gone = Shelf(folders[0].parents[2], workspace, budget), []
    for folder in folders:
        made.add(int(folder.parent.name))
        gone += made.over()
    return made, gone


def test_bulk_goes_oldest_first_until_it_fits_and_permanent_stays(tmp_path: Path) -> None:
    folders = [published(tmp_path, n, a=100, b=100, keep=1_000) for n in (1, 2, 3)]
    assert shelf(folders, 600)[1] == []
    made, gone = shelf(folders, 450)
    assert gone == [("0001", "a"), ("0001", "b")]
    assert made.over() == [], "what has gone is not counted again"


def test_the_newest_is_never_touched(tmp_path: Path) -> None:
    folders = [published(tmp_path, n, a=100) for n in (1, 2)]
    assert shelf(folders, 0)[1] == [("0001", "a")]


def test_each_feedback_is_looked_at_once_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, look = [], shelf_module._bulk
    monkeypatch.setattr(
        shelf_module,
        "_bulk",
        lambda folder, content: looked.append(folder) or look(folder, content),
    )
    folders = [published(tmp_path, n, a=100) for n in range(1, 30)]
    assert len(shelf(folders, 250)[1]) == 27
    assert looked == folders


@pytest.mark.parametrize(
    ("submission", "artifact"),
    [("../0001", "a"), ("0001", "../../a"), ("0001", "/a"), ("..", "a"), ("0001", "b/../a")],
)
def test_a_name_that_leads_elsewhere_removes_nothing(
    tmp_path: Path, submission: str, artifact: str
) -> None:
    for name in ("a", "0001/a", "here/0001/a", "here/0001/b/a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    discard(tmp_path / "here", submission, artifact)
    discard(tmp_path / "here", "0001", str(tmp_path / "a"))
    assert len([path for path in tmp_path.rglob("a") if path.is_file()]) == 4


def test_feedback_keeps_naming_what_was_evicted(tmp_path: Path) -> None:
    folders = [published(tmp_path, n, a=100) for n in (1, 2)]
    made, gone = shelf(folders, 0)
    made.discard(gone)
    assert not (folders[0] / "a").exists()
    assert json.loads((folders[0] / "feedback.json").read_text())["artifacts"][0]["file"] == "a"
