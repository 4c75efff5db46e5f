"""Whatever somebody lays in a folder of his, and at whatever moment: the Host's work there stays
inside it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evopolicy.execution.agent import home as agent_home
from evopolicy.kernel.files import beneath, folders
from evopolicy.kernel.ports.feedback import copy_feedback, discard
from evopolicy.kernel.secrecy.masked_files import mask_files
from evopolicy.kernel.secrecy.secrets import NO_SECRETS
from evopolicy.session.workspace import prepare_workspace
from tests.session.test_workspace import SPEC, TERMS

KEY = b"sk-0123456789abcdefghijklmnop"
STEPS = (
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.chmod",
    "os.scandir",
    "os.listdir",
    "os.truncate",
)
"""Events of Python's audit, each raised before what it names: between any two of them another
process may come in."""
_at: list[Callable[[], None]] = []
"""Called at each step while it is not empty."""


def _audit(event: str, _: object) -> None:
    if _at and event in STEPS:
        call = _at.pop()
        try:
            call()
        finally:
            _at.append(call)


sys.addaudithook(_audit)


class Swap:
    """At the step of that number a folder changes places with a link that leads out, or comes
    back."""

    def __init__(self, folder: Path, outside: Path, at: int, back: bool) -> None:
        self._folder, self._outside = folder, outside
        self._at = {at, at + 1} if back else {at}
        self.steps = 0

    def __call__(self) -> None:
        if self.steps in self._at:
            aside = self._folder.with_name("aside")
            if self._folder.is_symlink():
                self._folder.unlink()
                aside.rename(self._folder)
            elif self._folder.is_dir():
                self._folder.rename(aside)
                self._folder.symlink_to(self._outside)
        self.steps += 1


def laid(root: Path) -> tuple[Path, Path]:
    """A folder somebody writes to, and one beside it that is the Host's alone."""
    outside, inside = root / "outside", root / "inside"
    for folder in (
        outside / "deep",
        inside / "swapped" / "deep",
        inside / "feedback",
        root / "copies" / "swapped",
    ):
        folder.mkdir(parents=True)
    for name in ("a", "deep/b", "feedback.json", "policy.py"):
        (outside / name).write_bytes(b"theirs " + KEY)
        (outside / name).chmod(0o640)
        (inside / "swapped" / name).write_bytes(KEY)
    (root / "copies" / "swapped" / "a").write_bytes(b"login")
    (outside / "deep").chmod(0o750)
    return inside, outside


def seen(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of everything there."""
    paths = sorted([folder, *folder.rglob("*")])
    return {
        str(p.relative_to(folder)): (p.lstat().st_mode, p.read_bytes() if p.is_file() else b"")
        for p in paths
    }


WORK: dict[str, tuple[str, Callable[[Path, Path], Any]]] = {
    "masking": ("swapped", lambda _, inside: mask_files(inside, NO_SECRETS)),
    "removing": ("swapped", lambda _, inside: folders.remove(inside / "swapped")),
    "giving a login": ("swapped", lambda root, inside: give(root, inside, empty=False)),
    "a place for a login": ("swapped", lambda root, inside: give(root, inside, empty=True)),
    "taking it back": (
        "swapped",
        lambda _, inside: agent_home.take_back(inside, ["swapped/a", "swapped/deep/b"]),
    ),
    "opening a home": ("swapped", lambda _, inside: agent_home.made_removable(inside)),
    "collecting": (
        "swapped",
        lambda root, inside: agent_home.collect(inside, ["**/a"], (), root / "kept", NO_SECRETS),
    ),
    "copying Feedback": (
        "swapped",
        lambda root, inside: copy_feedback(root / "copies", inside / "swapped", "0001"),
    ),
    "evicting": ("swapped", lambda _, inside: discard(inside, "swapped", "deep/b")),
    "writing": ("swapped", lambda _, inside: written(inside)),
    **{
        f"preparing {name}": (name, lambda root, inside: prepared(root, inside))
        for name in (".evopolicy", "skills")
    },
}


def give(root: Path, inside: Path, *, empty: bool) -> None:
    agent_home.give(inside, root / "copies", ["swapped/a"], empty=empty)


def prepared(root: Path, inside: Path) -> None:
    (root / "skill").write_text("how")
    program, skills = root / "copies", [root / "skill"]
    prepare_workspace(
        inside,
        spec=SPEC,
        terms=TERMS,
        initial_program=program,
        skills=skills,
        socket=Path("/run/session.sock"),
    )


def written(inside: Path) -> None:
    with beneath.opened(inside, ("swapped",), make=True) as fd:
        beneath.write("a", fd, b"new", 0o644)


@pytest.mark.parametrize("back", [False, True], ids=["stays", "comes back"])
@pytest.mark.parametrize("work", WORK)
def test_a_folder_that_is_swapped_for_a_link_at_any_step_leads_nowhere(
    tmp_path: Path, work: str, back: bool
) -> None:
    at, steps = 0, 1
    name, call = WORK[work]
    while at < steps:
        root = tmp_path / f"{at}"
        inside, outside = laid(root)
        (inside / name).mkdir(exist_ok=True)
        before = seen(outside)
        swap = Swap(inside / name, outside, at, back)
        _at.append(swap)
        try:
            call(root, inside)
        except OSError:
            pass  # told, and nothing done
        finally:
            _at.clear()
        assert seen(outside) == before, (work, at)
        assert not [
            p for p in (root / "kept").rglob("*") if p.is_file() and b"theirs" in p.read_bytes()
        ]
        at, steps = at + 1, swap.steps
    assert steps > 1


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda place, outside: place.symlink_to(outside / "a"),
    "a link to a folder": lambda place, outside: place.symlink_to(outside),
    "a dangling link": lambda place, outside: place.symlink_to(outside / "none"),
    "a folder": lambda place, _: (place / "full").mkdir(parents=True),
    "a pipe": lambda place, _: os.mkfifo(place),
    "another name": lambda place, outside: os.link(outside / "a", place),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_takes_the_place_of_whatever_is_there(tmp_path: Path, kind: str) -> None:
    inside, outside = laid(tmp_path)
    before = seen(outside)
    KINDS[kind](inside / "x", outside)
    with beneath.opened(inside) as fd:
        beneath.write("x", fd, b"new", 0o640)
    assert ((inside / "x").read_bytes(), stat.S_IMODE((inside / "x").lstat().st_mode)) == (
        b"new",
        0o640,
    )
    assert seen(outside) == before
    assert sorted(path.name for path in inside.iterdir()) == ["feedback", "swapped", "x"], (
        "and nothing else is left"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_read_and_nothing_waits(tmp_path: Path, kind: str) -> None:
    inside, outside = laid(tmp_path)
    KINDS[kind](inside / "x", outside)
    with beneath.opened(inside) as fd:
        if kind == "another name":
            with beneath.reading("x", fd) as file:
                assert beneath.first_bytes(file, 6) == b"theirs"
        else:
            with pytest.raises(OSError):
                beneath.reading("x", fd)


def test_a_file_that_cannot_be_written_leaves_what_was_there_and_nothing_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "x").write_text("old")
    with (
        beneath.opened(tmp_path) as fd,
        pytest.raises(KeyError),
        beneath.replacing("x", fd, 0o600) as file,
    ):
        file.write(b"half")
        raise KeyError
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "old")]
