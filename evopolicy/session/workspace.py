"""The folder an agent finds: TASK.md, program/, feedback/, analysis/, skills/ and how to reach the Host."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evopolicy.kernel.benchmark import BenchmarkSpec
from evopolicy.kernel.errors import ConfigError
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
    """Lay what is missing under `folder`. Safe to call again for a resumed Run: what the agent made stays.

    `initial_program` is copied, writable, once. Each of `skills` (a folder or a file) becomes `skills/<its name>`,
    read-only; TASK.md and the skills are restored where they differ. `socket` is as the agent will see it.
    Raises ConfigError for a skill that is missing, too large or not unique by name.
    """
    named = _named_skills(skills)
    for name in (FEEDBACK, ANALYSIS, HOST, *((SKILLS,) if named else ())):
        _own_folder(folder / name)
    if not os.path.lexists(folder / PROGRAM):
        _copy_whole(initial_program, folder / PROGRAM, writable=True)
    digests = {name: _lay_skill(source, folder / SKILLS / name) for name, source in named.items()}
    _write(folder / TASK, task_text(spec, terms, tuple(named)), 0o444)
    if socket is not None:
        write_session_file(folder, socket)
    return Workspace(folder, digests)


def write_session_file(folder: Path, socket: Path) -> None:
    """Tell the session client in the workspace `folder` where the Host's socket is, as the agent sees it."""
    _own_folder(folder / HOST)
    # The workspace is named relative to where the file lies: the same text is right inside a sandbox.
    text = json.dumps({"socket": os.fspath(socket), "workspace": "."}) + "\n"
    _write(folder / HOST / "session.json", text, 0o444)


def skill_digests(skills: Sequence[Path]) -> dict[str, str]:
    """Digest of each skill by the name it will have. Raises ConfigError as `prepare_workspace` does."""
    return {name: skill_digest(path) for name, path in _named_skills(skills).items()}


def skill_digest(path: Path) -> str:
    """SHA-256 over the relative paths and contents of a skill, a folder or one file. Raises ConfigError."""
    hasher = hashlib.sha256(b"evopolicy/skill/1")
    total = 0
    for file in _skill_files(path):
        content = file.read_bytes()
        total += len(content)
        if total > MAX_SKILL_BYTES:
            raise ConfigError(f"prompt.skills: '{path}' is larger than {MAX_SKILL_BYTES // 2**20} MiB; make it smaller")
        for part in (file.relative_to(path).as_posix().encode(), content):
            hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.hexdigest()


def _own_folder(path: Path) -> None:
    """A real folder at `path`. What an agent laid in its place, a link above all, is removed and never followed."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink()
    path.mkdir(parents=True, exist_ok=True)


def _named_skills(skills: Sequence[Path]) -> dict[str, Path]:
    named: dict[str, Path] = {}
    for path in skills:
        if not path.exists():
            raise ConfigError(f"prompt.skills: there is no file or folder '{path}'; name one that is there")
        name = path.resolve().name
        if name in named:
            raise ConfigError(f"prompt.skills: '{named[name]}' and '{path}' have the same name '{name}'; rename one")
        named[name] = path.resolve()
    return named


def _skill_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_symlink() or not file.is_dir())
    for file in files:
        if file.is_symlink() or not file.is_file():
            raise ConfigError(f"prompt.skills: '{file}' is a symlink or special file; a skill holds regular files only")
    return files


def _lay_skill(source: Path, target: Path) -> str:
    digest = skill_digest(source)
    if target.exists() and not target.is_symlink() and _same(target, digest):
        return digest
    _remove(target)
    _copy_whole(source, target, writable=False)
    return digest


def _same(target: Path, digest: str) -> bool:
    try:
        return skill_digest(target) == digest
    except (ConfigError, OSError):
        return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for folder in [path, *(inner for inner in path.rglob("*") if inner.is_dir() and not inner.is_symlink())]:
            folder.chmod(0o755)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy_whole(source: Path, target: Path, *, writable: bool) -> None:
    """Copy file or folder under another name first, so that a Host killed meanwhile leaves no half of it."""
    staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=target.parent))
    try:
        copy = staging / target.name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".git"))
        else:
            shutil.copyfile(source, copy)
        for path in sorted([copy, *copy.rglob("*")], reverse=True):
            path.chmod((0o755 if path.is_dir() else 0o644) & (0o777 if writable else 0o555))
        if copy.is_dir():
            copy.chmod(0o755)  # a folder has to be writable to be moved
        copy.rename(target)
        if target.is_dir() and not writable:
            target.chmod(0o555)
    finally:
        _remove(staging)


def _write(path: Path, text: str, mode: int) -> None:
    """Replace `path` whole: a reader sees the old or the new text, and a link laid there is not followed."""
    if path.is_dir() and not path.is_symlink():
        _remove(path)
    handle, name = tempfile.mkstemp(prefix=".staging-", dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(mode)
    Path(name).replace(path)
