"""A workspace that an agent rearranged before its Host was killed: laying it again never leaves the
workspace."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.ports.protocols import Limits
from evopolicy.kernel.session.budget import Budget
from evopolicy.session.task_text import TaskTerms
from evopolicy.session.workspace import prepare_workspace, write_session_file
from tests.kernel.bench import Tally

TERMS = TaskTerms(
    budget=Budget(4, 8, None, "allow_early", "all"),
    pool_size=6,
    visibility="episodes",
    limits=Limits(1.0, 10.0, 2**30, 4_096, 2**20, 10.0, 10.0),
    packages=("numpy",),
    block_seconds=50.0,
    wall_seconds=None,
)


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Somewhere of the Host's user, with the names the Host writes."""
    folder = tmp_path / "home"
    for file in ("session.json", "skill/notes.md", "0001/feedback.json", "policy.py", "TASK.md"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("the user's own")
    return folder


@pytest.fixture
def prepare(tmp_path: Path) -> Callable[[], Path]:
    initial, skill = tmp_path / "initial", tmp_path / "skill"
    for folder in (initial, skill):
        folder.mkdir()
        (folder / "policy.py").write_text("ours")

    def lay() -> Path:
        workspace = tmp_path / "workspace"
        prepare_workspace(
            workspace,
            spec=Tally().spec,
            terms=TERMS,
            initial_program=initial,
            skills=[skill],
            socket=Path("/s/s.sock"),
        )
        return workspace

    return lay


def replace(path: Path, target: Path | str) -> None:
    aside = path.with_name(f"{path.name}-aside")
    if path.exists():
        path.rename(aside)
    path.symlink_to(target)


SPOILS: dict[str, Callable[[Path, Path], Any]] = {
    "the Host's folder is a link": lambda workspace, home: replace(workspace / ".evopolicy", home),
    "session.json is a link": lambda workspace, home: replace(
        workspace / ".evopolicy/session.json", home / "session.json"
    ),
    "skills is a link": lambda workspace, home: replace(workspace / "skills", home),
    "a skill is a link": lambda workspace, home: replace(
        workspace / "skills/skill", home / "skill"
    ),
    "feedback is a link": lambda workspace, home: replace(workspace / "feedback", home),
    "analysis is a link": lambda workspace, home: replace(workspace / "analysis", home),
    "TASK.md is a link": lambda workspace, home: replace(workspace / "TASK.md", home / "TASK.md"),
    "program is a link": lambda workspace, home: replace(workspace / "program", home),
    "program is a dangling link": lambda workspace, _: replace(workspace / "program", "nowhere"),
    "feedback is a dangling link": lambda workspace, _: replace(workspace / "feedback", "nowhere"),
    "feedback is a file": lambda workspace, _: (
        (workspace / "feedback").rmdir(),
        (workspace / "feedback").touch(),
    ),
    "the Host's folder is a pipe": lambda workspace, _: (
        (workspace / ".evopolicy").rename(workspace / "aside"),
        os.mkfifo(workspace / ".evopolicy"),
    ),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_nothing_outside_is_written_or_removed_and_the_workspace_is_whole_again(
    prepare: Callable[[], Path], outside: Path, spoil: str
) -> None:
    workspace = prepare()
    before = tree(outside)
    SPOILS[spoil](workspace, outside)
    prepare()
    assert tree(outside) == before
    for name in (".evopolicy", "feedback", "analysis", "skills", "skills/skill"):
        assert (workspace / name).is_dir()
        assert not (workspace / name).is_symlink()
    assert '"/s/s.sock"' in (workspace / ".evopolicy" / "session.json").read_text()
    assert (workspace / "skills" / "skill" / "policy.py").read_text() == "ours"
    assert not (workspace / "TASK.md").is_symlink()


def test_the_session_file_alone_is_laid_as_carefully(
    prepare: Callable[[], Path], outside: Path
) -> None:
    workspace = prepare()
    before = tree(outside)
    replace(workspace / ".evopolicy", outside)
    write_session_file(workspace, Path("/t/t.sock"))
    assert tree(outside) == before
    assert '"/t/t.sock"' in (workspace / ".evopolicy" / "session.json").read_text()
