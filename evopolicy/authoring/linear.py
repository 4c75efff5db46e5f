"""The parametric Program of a task nobody wrote one for: linear in the observation, as large as its
spaces ask."""

from __future__ import annotations

import atexit
import json
import math
import os
import shutil
from functools import cache
from pathlib import Path

from evopolicy.kernel.files.folders import HeldFolder
from evopolicy.kernel.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

MOST = 1_000
"""Numbers of its params.json: an optimizer that learns how they go together can take no more."""
_SOURCE = Path(__file__).parent / "programs" / "parametric" / "linear.py"


def linear_program(observation: Space, action: Space) -> Path | None:
    """A folder with the Program, which lasts as long as this process; None for spaces of another
    kind or too large."""
    seen, answered = (
        _numbers(observation),
        0 if isinstance(action, Dict | Tuple) else _scores(action),
    )
    return _folder(seen, answered) if seen and answered and (seen + 1) * answered <= MOST else None


def _numbers(space: Space) -> int:
    """How many features `space` has; 0 where it has text."""
    match space:
        case Discrete():
            return space.n
        case Dict() | Tuple():
            parts = space.spaces.values() if isinstance(space, Dict) else space.spaces
            counts = [_numbers(part) for part in parts]
            return sum(counts) if all(counts) else 0
        case Box() | MultiDiscrete() | MultiBinary():
            return math.prod(space.shape)
    return 0


def _scores(space: Space) -> int:
    """How many numbers an Action is read from."""
    match space:
        case Discrete():
            return space.n
        case MultiDiscrete():
            return int(space.nvec.sum())
        case Box() | MultiBinary():
            return math.prod(space.shape)
    return 0


@cache
def _folder(seen: int, answered: int) -> Path:
    folder = _home() / f"linear-{seen}-{answered}"
    folder.mkdir()
    shutil.copyfile(_SOURCE, folder / "policy.py")
    parameters = {"bias": [0.0] * answered, "weights": [[0.0] * seen] * answered}
    (folder / "params.json").write_text(json.dumps(parameters) + "\n", encoding="utf-8")
    return folder


@cache
def _home() -> Path:
    held, owner = HeldFolder("programs"), os.getpid()
    atexit.register(lambda: held.close() if os.getpid() == owner else None)
    return held.path
