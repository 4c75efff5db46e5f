"""What is known of every cell while a command runs: filled by the scheduler, shown by a display."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path

from evopolicy.kernel.run.waiting import Waiting, waiting
from evopolicy.kernel.shown import clean
from evopolicy.sweeps.live import Live
from evopolicy.sweeps.text import duration

ENDED = frozenset({"finished", "reused", "failed"})


@dataclass
class CellState:
    """One cell. `status` is as of `kernel.run.sweep.Cell`."""

    entry: str
    benchmark: str
    seed: int
    folder: Path
    """The Run's folder."""
    status: str = "pending"
    error: str = ""
    score: float | None = None
    standard_error: float | None = None
    live: Live | None = None
    waiting: Waiting | None = None
    """What holds it up while it runs."""
    started: float | None = None
    """`time.monotonic()`, of the latest attempt."""
    ended: float | None = None
    _looked: float = -math.inf

    @property
    def title(self) -> str:
        return f"{self.entry} on {self.benchmark}, seed {self.seed}"

    def look(self, live: Live | None) -> None:
        """Take `live` for what it says of itself, and see what holds it up: once a second, since
        that reads files."""
        self.live = live or self.live
        if time.monotonic() - self._looked >= 1.0:
            self._looked = time.monotonic()
            in_session = self.live is not None and self.live.phase == "session"
            self.waiting = waiting(self.folder, time.time()) if in_session else None

    @property
    def held_up(self) -> str:
        """By what and for how long; '' where it is not."""
        if self.waiting is None or self.status != "running":
            return ""
        seconds = time.time() - self.waiting.since
        return clean(self.waiting.what, 400) + (
            f", for {duration(seconds)}" if seconds >= 1 else ""
        )

    @property
    def seconds(self) -> float | None:
        """Since it was started, up to its end."""
        return None if self.started is None else (self.ended or time.monotonic()) - self.started


@dataclass
class Board:
    cells: list[CellState]
    name: str = ""
    """Of the sweep; '' for a single Run."""
    started: float = field(default_factory=time.monotonic)

    def count(self, *statuses: str) -> int:
        return sum(cell.status in statuses for cell in self.cells)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """A guess from the cells that have ended so far; None before the first."""
        spent = [
            cell.seconds or 0.0
            for cell in self.cells
            if cell.status in ("finished", "failed") and cell.seconds is not None
        ]
        running = [cell for cell in self.cells if cell.status == "running"]
        if not spent or not running:
            return None
        mean = sum(spent) / len(spent)
        left = mean * self.count("pending") + sum(
            max(mean - (cell.seconds or 0.0), 0.0) for cell in running
        )
        return left / len(running)
