"""The workspace an agent finds, first and after its Host was killed."""

from __future__ import annotations

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.ports.benchmark import BenchmarkSpec
from evopolicy.kernel.ports.protocols import Limits
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.spaces import Discrete
from evopolicy.session.task_text import TaskTerms
from evopolicy.session.workspace import (
    Workspace,
    prepare_workspace,
    skill_digest,
    write_session_file,
)

SPEC = BenchmarkSpec(
    "t/T-v0", "t", "T", "Win.", "Points.", "Soon.", Discrete(2), Discrete(2), 5, 0.0
)
TERMS = TaskTerms(
    Budget(2, 4, None, "allow_early", "all"),
    8,
    "score",
    Limits(1, 6, 2**30, 2**16, 2**26, 6, 20),
    (),
    5,
)


@pytest.fixture
def initial(tmp_path: Path) -> Path:
    folder = tmp_path / "shipped"
    (folder / "lib").mkdir(parents=True)
    (folder / "policy.py").write_text("first")
    (folder / "lib" / "part.py").write_text("part")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "policy.pyc").write_text("")
    for path in (folder / "policy.py", folder / "lib" / "part.py"):
        path.chmod(0o444)
    (folder / "lib").chmod(0o555)
    return folder


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "skills" / "tuning"
    (folder / "more").mkdir(parents=True)
    (folder / "SKILL.md").write_text("how")
    (folder / "more" / "table.csv").write_text("1,2")
    return folder


def prepare(tmp_path: Path, initial: Path, **more: Any) -> Workspace:
    arguments: dict[str, Any] = {"spec": SPEC, "terms": TERMS, "initial_program": initial, **more}
    return prepare_workspace(tmp_path / "run" / "workspace", **arguments)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_an_agent_needs_is_there(tmp_path: Path, initial: Path, skill: Path) -> None:
    made = prepare(tmp_path, initial, skills=[skill], socket=Path("/session/s.sock"))
    files = {str(path.relative_to(made.root)) for path in made.root.rglob("*") if path.is_file()}
    assert files == {
        "TASK.md", ".evopolicy/session.json", "program/policy.py", "program/lib/part.py", "skills/tuning/SKILL.md",
        "skills/tuning/more/table.csv",
    }  # fmt: skip
    assert made.feedback.is_dir()
    assert (made.root / "analysis").is_dir()
    assert json.loads((made.root / ".evopolicy/session.json").read_text()) == {
        "socket": "/session/s.sock",
        "workspace": ".",
    }
    assert "# T" in made.task.read_text()
    assert "`skills/tuning`" in made.task.read_text()


def test_the_program_is_writable_and_the_rest_read_only(
    tmp_path: Path, initial: Path, skill: Path
) -> None:
    made = prepare(tmp_path, initial, skills=[skill])
    assert (mode(made.program / "policy.py"), mode(made.program / "lib")) == (0o644, 0o755)
    assert mode(made.task) == 0o444
    assert (mode(made.root / "skills/tuning/SKILL.md"), mode(made.root / "skills/tuning/more")) == (
        0o444,
        0o555,
    )
    assert mode(made.root / "skills/tuning") == 0o555


def test_a_resumed_run_keeps_what_the_agent_made(
    tmp_path: Path, initial: Path, skill: Path
) -> None:
    made = prepare(tmp_path, initial, skills=[skill], socket=Path("/old"))
    (made.program / "policy.py").write_text("better")
    (made.program / "lib" / "part.py").unlink()
    (made.root / "analysis" / "notes.md").write_text("noted")
    again = prepare(tmp_path, initial, skills=[skill], socket=Path("/new"))
    assert again == made
    assert (made.program / "policy.py").read_text() == "better"
    assert not (made.program / "lib" / "part.py").exists()
    assert (made.root / "analysis" / "notes.md").read_text() == "noted"
    assert json.loads((made.root / ".evopolicy/session.json").read_text())["socket"] == "/new"


def test_a_run_whose_agent_emptied_its_program_is_not_given_it_back(
    tmp_path: Path, initial: Path
) -> None:
    made = prepare(tmp_path, initial)
    (made.program / "policy.py").unlink()
    prepare(tmp_path, initial)
    assert not (made.program / "policy.py").exists()


def test_what_the_host_owns_is_restored(tmp_path: Path, initial: Path, skill: Path) -> None:
    made = prepare(tmp_path, initial, skills=[skill])
    text = made.task.read_text()
    made.task.unlink()
    made.task.symlink_to(tmp_path / "shipped" / "policy.py")
    (made.root / "skills/tuning/SKILL.md").chmod(0o644)
    (made.root / "skills/tuning/SKILL.md").write_text("spoilt")
    prepare(tmp_path, initial, skills=[skill])
    assert (made.task.is_symlink(), made.task.read_text()) == (False, text)
    assert (made.root / "skills/tuning/SKILL.md").read_text() == "how"
    assert (initial / "policy.py").read_text() == "first"


def test_a_host_killed_while_it_copied_leaves_no_half_a_program(
    tmp_path: Path, initial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", cut)
        with pytest.raises(KeyboardInterrupt):
            prepare(tmp_path, initial)
    made = prepare(tmp_path, initial)
    assert (made.program / "policy.py").read_text() == "first"
    assert [path.name for path in made.root.iterdir() if path.name.startswith(".staging")] == []


def test_a_skill_has_the_digest_of_its_content(tmp_path: Path, initial: Path, skill: Path) -> None:
    first = prepare(tmp_path, initial, skills=[skill]).skills
    assert (
        first
        == {"tuning": skill_digest(skill)}
        == {"tuning": skill_digest(tmp_path / "run/workspace/skills/tuning")}
    )
    (skill / "more" / "table.csv").rename(skill / "table.csv")
    assert skill_digest(skill) != first["tuning"]


def test_a_skill_may_be_one_file(tmp_path: Path, initial: Path, skill: Path) -> None:
    made = prepare(tmp_path, initial, skills=[skill / "SKILL.md"])
    assert (made.root / "skills" / "SKILL.md").read_text() == "how"
    assert mode(made.root / "skills" / "SKILL.md") == 0o444


def test_skills_that_cannot_be_laid_are_named(tmp_path: Path, initial: Path, skill: Path) -> None:
    with pytest.raises(ConfigError, match="no file or folder"):
        prepare(tmp_path, initial, skills=[tmp_path / "nothing"])
    twin = tmp_path / "other" / "tuning"
    twin.mkdir(parents=True)
    with pytest.raises(ConfigError, match="same name 'tuning'"):
        prepare(tmp_path, initial, skills=[skill, twin])
    (skill / "link").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="regular files only"):
        prepare(tmp_path, initial, skills=[skill])


def test_session_file_can_be_laid_alone(tmp_path: Path) -> None:
    write_session_file(tmp_path, Path("/s"))
    write_session_file(tmp_path, Path("/t"))
    assert json.loads((tmp_path / ".evopolicy/session.json").read_text())["socket"] == "/t"


def test_task_follows_the_terms_of_the_run(tmp_path: Path, initial: Path) -> None:
    prepare(tmp_path, initial)
    made = prepare(tmp_path, initial, terms=replace(TERMS, pool_size=77))
    assert "indices 0 to 76" in made.task.read_text()
