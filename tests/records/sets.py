"""The sets of records that are kept: one for each set of versions that was ever written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SETS = sorted(
    (path for path in HERE.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)
)


def told(folder: Path) -> dict[str, Any]:
    """What each Run of the set in `folder` came to when it was made, by its place."""
    numbers: dict[str, Any] = json.loads((folder / "numbers.json").read_text())
    return numbers
