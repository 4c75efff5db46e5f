"""Public packages of Environments: each id runs, or is refused before anything is spent. Asked for
by a variable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ASKED = "EVOPOLICY_PUBLIC_ENVIRONMENTS"
SCRIPT = Path(__file__).parents[2] / "scripts" / "check_public_environments.py"


@pytest.mark.timeout(14_400)
def test_public_environments_run_or_are_refused_in_a_sentence(tmp_path: Path) -> None:
    """The folder that the variable names keeps what was installed; packages after it, separated by
    commas, limit it."""
    if not os.environ.get(ASKED):
        pytest.skip(f"it installs dozens of packages: asked for by {ASKED}=FOLDER")
    folder, *packages = os.environ[ASKED].split(",")
    found = tmp_path / "found.json"
    command = [sys.executable, str(SCRIPT), *packages, "--folder", folder, "--json", str(found)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    rows = [row for row in json.loads(found.read_text()) if row["ended"] != "skipped"]
    assert packages or len({row["package"] for row in rows}) >= 25
    for row in rows:
        assert row["ended"] == "runs" or (row["ended"] == "refused" and row["id"] in row["said"]), (
            row
        )
        assert "\n" not in row["said"], row
