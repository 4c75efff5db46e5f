"""`live.json` in a Run's folder: where the Run is right now, for the launcher and for `evopolicy status`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.ports import Progress

LIVE = "live.json"
_SECONDS = 0.2
"""Written at most five times a second, and at every change of phase."""


@dataclass(frozen=True)
class Live:
    phase: str
    """As `Progress.phase`."""
    episodes_done: int
    episodes_total: int
    submissions: int
    best_score: float | None
    started: float
    """Unix seconds: when this process began with the Run."""
    updated: float
    """Unix seconds."""
    pid: int
    entry: str
    benchmark: str
    seed: int


class LiveFile:
    """An Observer that keeps `folder/live.json` up to date."""

    def __init__(self, folder: Path, entry: str, benchmark: str, seed: int) -> None:
        self._path = folder / LIVE
        self._names = {"entry": entry, "benchmark": benchmark, "seed": seed, "pid": os.getpid(), "started": time.time()}
        self._last = ("", 0.0)

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Progress says it all."""

    def on_progress(self, progress: Progress) -> None:
        phase, at = self._last
        now = time.monotonic()
        if progress.phase == phase and now - at < _SECONDS:
            return
        self._last = (progress.phase, now)
        text = json.dumps({**asdict(progress), **self._names, "updated": time.time()})
        staging = self._path.with_name(f".{LIVE}.staging")
        staging.write_text(text)
        staging.replace(self._path)

    def remove(self) -> None:
        """The Run is not running any more."""
        self._path.unlink(missing_ok=True)


def read_live(folder: Path) -> Live | None:
    """What the Run in `folder` says of itself; None where it is not running or says nothing readable."""
    try:
        return msgspec.json.decode((folder / LIVE).read_bytes(), type=Live)
    except (OSError, msgspec.MsgspecError):
        return None


def is_alive(live: Live) -> bool:
    """Whether the process that wrote it still runs on this machine."""
    try:
        os.kill(live.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
