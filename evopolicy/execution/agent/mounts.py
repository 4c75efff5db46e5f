"""What the Host prepares for an agent beside its workspace: the integration's files, a Python, the
session command."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from evopolicy.execution.agent.home import inside
from evopolicy.execution.sandbox import packages
from evopolicy.kernel.ports.protocols import Invocation


def prepare(held: Path, invocation: Invocation) -> None:
    """What any level needs in the agent's temporary folder `held`. Raises AgentError."""
    for name in ("staging", "home", "login", "tmp"):
        (held / name).mkdir()
    for name, text in invocation.files.items():
        _staged(held, name).write_text(text, encoding="utf-8")
    for name, folder in invocation.folders.items():
        shutil.copytree(folder, _staged(held, name), symlinks=True)
    (held / "stdin").write_text(invocation.stdin, encoding="utf-8")


def _staged(held: Path, name: str) -> Path:
    path = held / "staging" / inside(name, "staging folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def prepare_beside(
    held: Path, imported: packages.Packages, code: Sequence[Path], command: str
) -> None:
    """Where the agent uses this machine's own paths: its Python, packages and session command in
    its folder."""
    (held / "bin").mkdir()
    imported.link_into(held / "packages")
    _link_python(held)
    write_commands(held, code, command)


def write_commands(held: Path, code: Iterable[Path], command: str) -> None:
    """Into `held`'s folder bin, which is there: the files `code`, and `evopolicy-session`, which
    runs `command`."""
    for path in code:
        shutil.copyfile(path, held / "bin" / path.name)
    (held / "bin" / "evopolicy-session").write_text(f"#!/bin/sh\n{command}\n")
    (held / "bin" / "evopolicy-session").chmod(0o755)


def _link_python(held: Path) -> None:
    """A Python home of links: its folder can be listed, and what is installed beside the real one
    is not in it."""
    runtime = packages.runtime()
    for name in ("python3", "python"):
        (held / "bin" / name).symlink_to(runtime.python)
    home = held / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    home.mkdir(parents=True)
    standard = {Path(entry) for entry in runtime.path}
    for path in runtime.readable:
        if path.parent in standard and not (home / path.name).exists():
            (home / path.name).symlink_to(path)
