"""Copies staged settings into the agent's home, then becomes the agent: `home.py PLACES PROGRAM
ARGUMENT...`.

PLACES is a JSON file, staged file by path below the home. A JSON file that is there already is
merged: what is staged wins. Any other file that is there stays as it is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def install(places: dict[str, str], staging: Path, home: Path) -> None:
    for name, staged in places.items():
        target, text = home / name, (staging / staged).read_text(encoding="utf-8")
        if target.exists() and target.suffix != ".json":
            continue
        if target.exists():
            text = json.dumps(merged(read(target), json.loads(text)), indent=2)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one where it holds none, or comments, which JSON has
    not."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        print(
            f"{path.name} of the configuration is not plain JSON and is replaced", file=sys.stderr
        )
        return {}
    return value if isinstance(value, dict) else {}


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = dict(old)
    for key, value in new.items():
        inner = isinstance(value, dict) and isinstance(old.get(key), dict)
        both[key] = merged(old[key], value) if inner else value
    return both


if __name__ == "__main__":
    plan = Path(sys.argv[1])
    install(json.loads(plan.read_text(encoding="utf-8")), plan.parent, Path.home())
    os.execvp(sys.argv[2], sys.argv[2:])
