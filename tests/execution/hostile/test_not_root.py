"""The hostile Programs once more by a Host that is not root: as root the suite starts itself as another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicy.kernel.ports import Isolation
from tests.execution.conftest import LEVELS

ROOT = Path(__file__).parents[3]
USER = 65534
# Gives the Python that runs here to every user, where it lies in a folder of root's own, for this process alone.
OPEN = """
set -e
python="$1" closed="$2" prefix="$3" temporary="$4"
shift 4
if [ -n "$closed" ]; then
    mkdir "$temporary/kept"
    mount --bind "$prefix" "$temporary/kept"
    mount -t tmpfs -o mode=755 none "$closed"
    mkdir -p "$prefix"
    mount --bind "$temporary/kept" "$prefix"
fi
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$python" -m pytest "$@"
"""


def _closed(path: Path) -> str:
    """The first folder on the way to `path` that only its owner may enter."""
    return next((str(folder) for folder in [*reversed(path.parents), path] if not folder.stat().st_mode & 1), "")


@pytest.fixture
def owned() -> Iterator[Path]:
    """A temporary folder of the other user's."""
    folder = Path(tempfile.mkdtemp(prefix="evopolicy-not-root-"))
    os.chown(folder, USER, USER)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the whole suite runs as a user who is not root already")
@pytest.mark.skipif(not (shutil.which("setpriv") and shutil.which("unshare")), reason="needs setpriv and unshare")
@pytest.mark.parametrize("level", [level for level in LEVELS if level != "none"])
def test_the_hostile_programs_are_held_back_for_a_user_who_is_not_root(level: Isolation, owned: Path) -> None:
    prefix = Path(sys.base_prefix).resolve()
    closed = _closed(prefix)
    if _closed(ROOT) or _closed(Path(sys.executable).parent):
        pytest.skip("this checkout or its environment lies in a folder that only root may enter")
    suite = str(Path(__file__).with_name("test_hostile.py"))
    chosen = f"{level} and not sleeps_in_every_call"  # Twelve seconds of sleep, whoever sleeps them.
    pytest_arguments = [suite, "-n", "0", "-p", "no:cacheprovider", "-k", chosen, f"--basetemp={owned}/pytest", "-rs"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", OPEN, "sh", sys.executable, closed, str(prefix), str(owned)]
        + pytest_arguments,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(owned), "TMPDIR": str(owned), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and f"isolation '{level}' does not" not in done.stdout
