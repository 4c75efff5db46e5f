"""A green run means that all of it ran: what is skipped is counted, and the README's command is the
one that is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN = ROOT / ".ci" / "run"
TESTS = """
import pytest

@pytest.mark.parametrize("n", range(4))
def test_fine(n):
    pass

@pytest.mark.skip(reason="isolation 'none' does not hold back 'sockets'")
def test_allowed():
    pass

@pytest.mark.not_as_root
def test_of_another_user():
    pass
"""
SKIPPED = """
import pytest

@pytest.mark.skipif(True, reason="bubblewrap: the probe says it does not work on this machine")
def test_in_bubblewrap():
    pass
"""
ABSENT = """
import pytest

pytest.importorskip("no_such_package")
"""


def run(folder: Path, ci: str, **files: str) -> subprocess.CompletedProcess[str]:
    """The tests in `files` by two workers, with the conftest of this repository."""
    (folder / "conftest.py").write_bytes((ROOT / "conftest.py").read_bytes())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = not_as_root\n")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "."]
    return subprocess.run(
        command,
        cwd=folder,
        env={**environment, "CI": ci},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_what_may_not_be_skipped_fails_the_run_where_ci_is_true(tmp_path: Path) -> None:
    done = run(tmp_path, "true", test_fine=TESTS, test_skipped=SKIPPED, test_absent=ABSENT)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOT RUN: test_skipped.py" in done.stdout and "NOT RUN: test_absent.py" in done.stdout
    assert "CI=true: 2 tests may not be skipped" in done.stdout


def test_what_was_skipped_is_named_and_fails_nothing_elsewhere(tmp_path: Path) -> None:
    done = run(tmp_path, "", test_fine=TESTS, test_skipped=SKIPPED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT RUN: test_skipped.py::test_in_bubblewrap: bubblewrap: the probe" in done.stdout


def test_what_may_be_skipped_is_named_with_its_reason(tmp_path: Path) -> None:
    done = run(tmp_path, "true", test_fine=TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "skipped: isolation 'none' does not hold back 'sockets': 1, test_fine.py::test_allowed"
        in done.stdout
    )


def test_the_tests_are_run_by_the_readmes_command() -> None:
    told = re.search(r"^The tests: `(.+)`$", (ROOT / "README.md").read_text(), re.M)
    assert told is not None
    assert f"'{told[1]}'" in RUN.read_text()
