"""The hostile Programs once more by a Host that is not root, and what root may do anyway: as root,
by another user."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evopolicy.kernel.ports.protocols import Isolation
from tests.execution.conftest import LEVELS

ROOT = Path(__file__).parents[3]
SUITES = (
    *("test_hostile.py", "test_hostile_agents.py", "test_channels.py", "test_process_limits.py"),
    "../agent/test_launcher.py",
)


def _nobodys() -> int:
    """A user's number that nobody has: no account, no process, and so nothing of anybody's counts
    for it."""
    taken = {account.pw_uid for account in pwd.getpwall()}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            taken.add(entry.stat().st_uid)
    return next(
        number for number in range(70_000 + os.getpid() % 1000, 90_000) if number not in taken
    )


USER = _nobodys()
MARKED = "@pytest.mark.not_as_root"
pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0, reason="the whole suite runs as a user who is not root already"
    ),
    pytest.mark.skipif(
        not (shutil.which("setpriv") and shutil.which("unshare")),
        reason="needs setpriv and unshare",
    ),
]
AS_ANOTHER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def _closed(path: Path) -> str:
    """The first folder on the way to `path` that only its owner may enter."""
    return next(
        (
            str(folder)
            for folder in [*reversed(path.parents), path]
            if not folder.stat().st_mode & 1
        ),
        "",
    )


def _opening(paths: Sequence[Path], kept: Path) -> str:
    """A shell's commands that show every user the folders `paths`, where they lie in one of root's
    own, for their process alone: each is kept at another place, what is closed is covered, and each
    laid back over the cover."""
    closed = {path: _closed(path) for path in paths if _closed(path)}
    keep, lay = [], []
    for number, path in enumerate(closed):
        aside = kept / str(number)
        keep += [f"mkdir -p {aside}", f"mount --bind '{path}' {aside}"]
        for place in [path] if path.stat().st_mode & 1 else sorted(path.iterdir()):
            made = (
                f"mkdir -p '{place}'" if place.is_dir() else f"mkdir -p '{path}'; touch '{place}'"
            )
            lay += [made, f"mount --bind '{aside / place.relative_to(path)}' '{place}'"]
    cover = [
        f"mount -t tmpfs -o mode=755 none '{folder}'" for folder in sorted(set(closed.values()))
    ]
    return "\n".join(["set -e", *keep, *cover, *lay, 'exec "$@"'])


@pytest.fixture
def owned() -> Iterator[Path]:
    """A temporary folder of the other user's."""
    folder = Path(tempfile.mkdtemp(prefix="evopolicy-not-root-"))
    os.chown(folder, USER, USER)
    yield folder
    shutil.rmtree(folder)


def as_another_user(owned: Path, *arguments: str) -> str:
    """What pytest prints, started with `arguments` by the other user; it has to pass."""
    needed = [Path(sys.base_prefix).resolve(), ROOT, Path(sys.prefix)]
    opening = _opening(
        [path for path in needed if not set(path.parents) & set(needed)], owned / "kept"
    )
    started = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        opening,
        "sh",
        *AS_ANOTHER,
        sys.executable,
        "-m",
        "pytest",
    ]
    more = ["-n", "0", "-p", "no:cacheprovider", f"--basetemp={owned}/pytest", "-rs"]
    done = subprocess.run(
        [*started, *arguments, *more],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(owned),
            "TMPDIR": str(owned),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("level", [level for level in LEVELS if level != "none"])
def test_the_hostile_programs_are_held_back_for_a_user_who_is_not_root(
    level: Isolation, owned: Path
) -> None:
    suites = [str((Path(__file__).parent / name).resolve()) for name in SUITES]
    chosen = (
        f"{level} and not sleeps_in_every_call"  # Twelve seconds of sleep, whoever sleeps them.
    )
    said = as_another_user(owned, *suites, "-k", chosen)
    assert " passed" in said and f"isolation '{level}' does not" not in said


@pytest.mark.slow
@pytest.mark.timeout(1600)
def test_what_root_may_do_anyway_is_refused_to_a_user_who_is_not_root(owned: Path) -> None:
    files = {*ROOT.glob("tests/*/test_*.py"), *ROOT.glob("tests/*/*/test_*.py")} - {Path(__file__)}
    suites = [str(path) for path in sorted(files) if MARKED in path.read_text()]
    said = as_another_user(owned, *suites, "-m", "not_as_root")
    passed = re.search(r"^(\d+) passed", said, re.M)
    assert (
        passed
        and int(passed[1]) == sum(Path(suite).read_text().count(MARKED) for suite in suites) > 0
    ), said
