"""`live.json` in a Run's folder: where the Run is right now, for the launcher and for `evopolicy
status`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.received import read_part
from evopolicy.kernel.files.versioned import LIVE_FORMAT, parse_object
from evopolicy.kernel.ports.protocols import Progress
from evopolicy.kernel.session.record import load_run

LIVE = LIVE_FORMAT.name
_SECONDS = 0.2
"""Written at most five times a second, and at every change of phase."""


@dataclass(frozen=True)
class Live:
    phase: str
    """As `Progress.phase`."""
    episodes_done: int
    """In the session: units of the whole budget. Later: Episodes of this phase."""
    episodes_total: int
    submissions: int
    best_score: float | None
    """Best training score so far."""
    started: float
    """Unix seconds: when this process began with the Run."""
    updated: float
    """Unix seconds."""
    pid: int
    entry: str
    benchmark: str
    seed: int
    schema: int = LIVE_FORMAT.newest


class LiveFile:
    """An Observer that keeps `folder/live.json` up to date."""

    def __init__(self, folder: Path, entry: str, benchmark: str, seed: int, units: int) -> None:
        self._path = folder / LIVE
        now = time.time()
        self._live = Live(
            "starting", 0, units, 0, None, now, now, os.getpid(), entry, benchmark, seed
        )
        self._units = units
        self._spent = 0
        """Units of the Submissions before the current one."""
        self._current = 0
        """Units of the current one."""
        self._last = ("", 0.0)

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Some phases begin long before their first Episode: an agent may think for minutes."""
        kind = event["event"]
        if kind == "resumed":
            self._take_up()
        elif kind == "agent_started":
            self._show(phase="session")
        elif kind == "reserved":
            self._spent, self._current = self._spent + self._current, event["units"]
            self._show(submissions=event["submission"], episodes_done=self._spent)
        elif kind == "published":
            best = self._live.best_score
            score = event["score"] if best is None else max(best, event["score"])
            self._show(best_score=score, episodes_done=self._spent + self._current)

    def on_progress(self, progress: Progress) -> None:
        session = progress.phase == "session"
        self._show(
            phase=progress.phase,
            episodes_done=progress.episodes_done + (self._spent if session else 0),
            episodes_total=self._units if session else progress.episodes_total,
            submissions=progress.submissions,
            best_score=progress.best_score,
        )

    def remove(self) -> None:
        """The Run is not running any more."""
        self._path.unlink(missing_ok=True)

    def _take_up(self) -> None:
        """What the Run had spent before this process went on with it."""
        submissions = load_run(self._path.parent).state.submissions
        scores = [s.score for s in submissions if s.score is not None]
        self._current = submissions[-1].units_used if submissions else 0
        self._show(
            submissions=len(submissions),
            best_score=max(scores, default=None),
            episodes_done=self._spent + self._current,
        )

    def _show(self, **changes: Any) -> None:
        self._live = replace(self._live, **changes, updated=time.time())
        phase, at = self._last
        now = time.monotonic()
        if self._live.phase == phase and now - at < _SECONDS:
            return
        self._last = (self._live.phase, now)
        staging = self._path.with_name(f".{LIVE}.staging")
        staging.write_bytes(msgspec.json.encode(self._live))
        staging.replace(self._path)


def read_live(folder: Path) -> Live | None:
    """What the Run in `folder` says of itself; None where it says nothing readable. Whether it
    runs, its lock tells."""
    try:
        value = parse_object(read_part(folder, LIVE, LIVE_FORMAT.bytes))
        return msgspec.convert(LIVE_FORMAT.upgraded(value, LIVE), Live)
    except (OSError, ValueError, RecordError, msgspec.ValidationError):
        return None
