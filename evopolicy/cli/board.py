"""What is known of every cell while a command runs: filled by the scheduler, shown by a display."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from evopolicy.cli.live import Live

ENDED = frozenset({"finished", "reused", "failed"})


@dataclass
class CellState:
    """One cell. `status` is one of `kernel.sweep.CELL_STATUSES`."""

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
    started: float | None = None
    """`time.monotonic()`, of the latest attempt."""
    ended: float | None = None

    @property
    def title(self) -> str:
        return f"{self.entry} on {self.benchmark}, seed {self.seed}"

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
        left = mean * self.count("pending") + sum(max(mean - (cell.seconds or 0.0), 0.0) for cell in running)
        return left / len(running)
