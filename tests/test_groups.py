"""Tests that share what is dear to set up run in one worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("dear")


@pytest.fixture(scope="module")
def dear():
    with (Path(__file__).parent / "setups").open("a") as file:
        file.write("once\\n")


@pytest.mark.parametrize("number", range(6))
def test_uses_it(dear, number):
    pass
"""


@pytest.mark.slow
def test_a_groups_fixture_is_set_up_once_for_all_workers(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (tmp_path / "test_dear.py").write_text(MODULE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-p",
        "no:cacheprovider",
        ".",
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
    assert (tmp_path / "setups").read_text() == "once\n"
