"""The folder an agent finds: TASK.md, program/, feedback/, analysis/, skills/ and how to reach the
Host."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.files import beneath
from evopolicy.kernel.ports.benchmark import BenchmarkSpec
from evopolicy.session.task_text import TaskTerms, task_text

TASK, PROGRAM, FEEDBACK, ANALYSIS, SKILLS = "TASK.md", "program", "feedback", "analysis", "skills"
HOST = ".evopolicy"
MAX_SKILL_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Workspace:
    """A prepared workspace."""

    root: Path
    skills: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 digest of each skill's files, by name."""

    @property
    def task(self) -> Path:
        return self.root / TASK

    @property
    def program(self) -> Path:
        return self.root / PROGRAM

    @property
    def feedback(self) -> Path:
        return self.root / FEEDBACK


def prepare_workspace(
    folder: Path,
    *,
    spec: BenchmarkSpec,
    terms: TaskTerms,
    initial_program: Path,
    skills: Sequence[Path] = (),
    socket: Path | None = None,
) -> Workspace:
    """Write what is missing under `folder`. Safe to call again for a resumed Run: what the agent
    made stays.

    `initial_program` is copied, writable, once. Each of `skills` (a folder or a file) becomes
    `skills/<its name>`, read-only; TASK.md and the skills are restored where they differ. `socket`
    is as the agent will see it. Raises ConfigError for a skill that is missing, too large or not
    unique by name."""
    named = _named_skills(skills)
    digests = skill_digests(skills)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (FEEDBACK, ANALYSIS, HOST):
        with beneath.opened(folder, (name,), make=True):
            pass
    with beneath.opened(folder) as fd:
        if beneath.status_of(PROGRAM, fd) is None:
            _lay(initial_program, folder, PROGRAM, fd, writable=True)
        beneath.write(TASK, fd, task_text(spec, terms, tuple(named)).encode(), 0o444)
    if named:
        with beneath.opened(folder, (SKILLS,), make=True) as fd:
            for name, source in named.items():
                beneath.remove(name, fd)
                _lay(source, folder, name, fd, writable=False)
    if socket is not None:
        write_session_file(folder, socket)
    return Workspace(folder, digests)


def write_session_file(folder: Path, socket: Path) -> None:
    """Tell the session client in the workspace `folder` where the Host's socket is, as the agent
    sees it."""
    # The workspace is named relative to where the file lies: the same text is right inside a
    # sandbox.
    text = json.dumps({"socket": os.fspath(socket), "workspace": "."}) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    with beneath.opened(folder, (HOST,), make=True) as fd:
        beneath.write("session.json", fd, text.encode(), 0o444)


def skill_digests(skills: Sequence[Path]) -> dict[str, str]:
    """Digest of each skill by the name it will have. Raises ConfigError as `prepare_workspace`
    does."""
    return {name: skill_digest(path) for name, path in _named_skills(skills).items()}


def skill_digest(path: Path) -> str:
    """SHA-256 over the relative paths and contents of a skill, a folder or one file. Raises
    ConfigError."""
    hasher = hashlib.sha256(b"evopolicy/skill/1")
    total = 0
    for file in _skill_files(path):
        content = file.read_bytes()
        total += len(content)
        if total > MAX_SKILL_BYTES:
            raise ConfigError(
                f"prompt.skills: '{path}' is larger than {MAX_SKILL_BYTES // 2**20} MiB; make it "
                "smaller"
            )
        for part in (file.relative_to(path).as_posix().encode(), content):
            hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.hexdigest()


def _named_skills(skills: Sequence[Path]) -> dict[str, Path]:
    named: dict[str, Path] = {}
    for path in skills:
        if not path.exists():
            raise ConfigError(
                f"prompt.skills: there is no file or folder '{path}'; name one that is there"
            )
        name = path.resolve().name
        if name in named:
            raise ConfigError(
                f"prompt.skills: '{named[name]}' and '{path}' have the same name '{name}'; rename "
                "one"
            )
        named[name] = path.resolve()
    return named


def _skill_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_symlink() or not file.is_dir())
    for file in files:
        if file.is_symlink() or not file.is_file():
            raise ConfigError(
                f"prompt.skills: '{file}' is a symlink or special file; a skill holds regular "
                "files only"
            )
    return files


def _lay(source: Path, workspace: Path, name: str, fd: int, *, writable: bool) -> None:
    """Put a copy of the file or folder `source` at `name` in the folder `fd` of the workspace.

    It is made beside the workspace, where no agent reaches, and moved in whole: a Host killed
    meanwhile leaves no half of it there."""
    staging = workspace.with_name(f".{workspace.name}.staging")
    _clear(staging)
    staging.mkdir()
    try:
        copy = staging / "copy"
        if source.is_dir():
            shutil.copytree(
                source, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".git")
            )
        else:
            shutil.copyfile(source, copy)
        for path in sorted([copy, *copy.rglob("*")], reverse=True):
            path.chmod((0o755 if path.is_dir() else 0o644) & (0o777 if writable else 0o555))
        if not copy.is_dir():
            beneath.move_in(copy, name, fd)
            return
        handle = os.open(copy, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fchmod(handle, 0o755)  # a folder has to be writable to be moved
            beneath.move_in(copy, name, fd)
            os.fchmod(handle, 0o755 if writable else 0o555)
        finally:
            os.close(handle)
    finally:
        _clear(staging)


def _clear(staging: Path) -> None:
    with beneath.opened(staging.parent) as fd:
        beneath.remove(staging.name, fd)
