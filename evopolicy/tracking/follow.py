"""Keeping MLflow up to date with a sweep while it runs, and rebuilding it from records afterwards.

A tracker is a process of its own: it reads what the Hosts wrote, so that a slow or dead server costs no cell anything.
What it has logged is in the store itself and, in short, in `sweeps/<name>/mlflow.json`; killed at any point it goes
on where it was.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evopolicy.kernel.errors import RecordError, TrackingError
from evopolicy.kernel.record import RECORD
from evopolicy.kernel.sweep import SWEEP, Sweep, read_sweep, sweep_folder
from evopolicy.tracking.compare import SETTLED, Rank
from evopolicy.tracking.masking import mask_uri
from evopolicy.tracking.store import Tracking, connect
from evopolicy.tracking.tracker import CellTracker, SweepTracker

TRACKER_LOCK = ".tracker.lock"
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class Report:
    """What a tracker leaves behind."""

    logged: int
    """Runs whose whole record is in the store."""
    missing: tuple[str, ...] = ()
    """One line for each thing that is not, and why."""
    command: str = ""
    """What logs it later."""

    def text(self) -> str:
        """For people: nothing where nothing is missing."""
        if not self.missing:
            return ""
        shown = [f"  {line}" for line in self.missing[:10]]
        if len(self.missing) > 10:
            shown.append(f"  and {len(self.missing) - 10} more")
        head = "MLflow does not have everything (the records do, nothing is lost):"
        return "\n".join([head, *shown, f"Log it later with: {self.command}"])


def follow_sweep(
    output: Path,
    name: str,
    rank: Rank,
    *,
    stop: Callable[[], bool] = lambda: False,
    poll_seconds: float = 1.0,
    patience_seconds: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Log the sweep `name` as its cells go on, until `sweep.json` says that all are settled and all is logged.

    Where and how is `Sweep.tracking`. Once settled, or when `stop()` says so, a store that cannot be reached is tried
    for `patience_seconds` more; the report then says what is missing. Raises RecordError for a sweep that cannot be
    read.
    """
    folder = sweep_folder(output, name)
    sweep = read_sweep(folder)
    tracker = SweepTracker(output, folder, Tracking.from_mapping(sweep.tracking), rank)
    give_up: float | None = None
    pause = poll_seconds
    with _only_tracker(folder, wait=True, stop=stop, sleep=sleep):
        while True:
            last = stop()
            sweep = _reread(folder, sweep)
            missing = tracker.step(sweep)
            ending = last or all(cell.status in SETTLED for cell in sweep.cells)
            if ending and (not missing or not tracker.worth_retrying):
                break
            if ending:
                give_up = clock() + patience_seconds if give_up is None else give_up
                if clock() >= give_up:
                    break
            else:
                give_up = None
            pause = min(2 * pause, _LONGEST_PAUSE) if tracker.worth_retrying else poll_seconds
            _pause(pause, poll_seconds, stop, last, sleep)
    return Report(tracker.logged, missing, _command(folder, Tracking.from_mapping(sweep.tracking)))


def track(source: Path, output: Path, tracking: Tracking, rank: Rank) -> Report:
    """Log the Run or the sweep whose folder is `source`, or every sweep and Run of an output folder, from its records.

    Into an empty store or one that has parts of it: what is there is completed, never doubled. Raises RecordError for
    a folder that is none of these, TrackingError where the store cannot be opened or a tracker is still at work on
    the sweep. What could not be logged after that is in the report.
    """
    if (source / SWEEP).is_file():
        sweeps, runs = [source], []
    elif (source / RECORD).is_file():
        sweeps, runs = [], [source]
    else:
        sweeps = sorted(path.parent for path in source.glob(f"sweeps/*/{SWEEP}"))
        runs = sorted(path.parent for path in source.glob(f"runs/*/*/*/{RECORD}"))
    if not sweeps and not runs:
        raise RecordError(f"source: {source} is no folder of a Run, a sweep or an output; name one of these")
    connect(tracking, output)
    logged, missing, in_sweeps = 0, list[str](), set[Path]()
    for folder in sweeps:
        sweep = read_sweep(folder)
        in_sweeps.update((output / cell.run).resolve() for cell in sweep.cells)
        tracker = SweepTracker(output, folder, tracking, rank, rebuild=True)
        with _only_tracker(folder, wait=False):
            missing.extend(tracker.step(sweep))
        logged += tracker.logged
    cells = CellTracker(output, tracking, rebuild=True)
    for folder in runs:
        if folder.resolve() not in in_sweeps:
            missing.extend(cells.step(folder))
    return Report(logged + cells.logged, tuple(missing), _command(source, tracking))


def _reread(folder: Path, before: Sweep) -> Sweep:
    """The sweep as it is now; as it was, where its file is being replaced or was spoiled meanwhile."""
    try:
        return read_sweep(folder)
    except RecordError:
        return before


def _pause(
    seconds: float, poll_seconds: float, stop: Callable[[], bool], stopping: bool, sleep: Callable[[float], None]
) -> None:
    """Sleep, in short pieces, so that a stop is seen soon."""
    left = seconds
    while left > 0 and (stopping or not stop()):
        sleep(min(left, poll_seconds))
        left -= poll_seconds


@contextmanager
def _only_tracker(
    folder: Path,
    *,
    wait: bool,
    stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Be the one tracker of the sweep in `folder`."""
    with (folder / TRACKER_LOCK).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if not wait or stop():
                    raise TrackingError(
                        f"tracking: another tracker is at work on the sweep {folder.name}; try again when it has ended"
                    ) from None
                sleep(0.2)
        yield


def _command(source: Path, tracking: Tracking) -> str:
    uri = f" 'tracking.uri={mask_uri(tracking.uri)}'" if tracking.uri else ""
    return f"evopolicy track source={source}{uri}"
