"""Keeping MLflow up to date with a sweep while it runs, and rebuilding it from records afterwards.

A tracker is a process of its own: it reads what the Hosts wrote, so that a slow or dead server
costs no cell anything. What it has logged is in the store itself and, in short, in
`sweeps/<name>/mlflow.json`; killed at any point it goes on where it was."""

from __future__ import annotations

import fcntl
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evopolicy.kernel.errors import RecordError, TrackingError
from evopolicy.kernel.files.durable import open_lock
from evopolicy.kernel.files.received import is_inside
from evopolicy.kernel.run.sweep import SWEEP, Sweep, read_sweep, sweep_folder
from evopolicy.kernel.secrecy.secrets import mask_uri
from evopolicy.kernel.session.record import RECORD, read_record
from evopolicy.tracking.cells import CellTracker
from evopolicy.tracking.compare import SETTLED, Rank
from evopolicy.tracking.store import Tracking, connect
from evopolicy.tracking.tracker import SweepTracker

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
    left_out: tuple[str, ...] = ()
    """One sentence for each file that is never logged."""

    def text(self) -> str:
        """For people: nothing where nothing is missing."""
        lines = list[str]()
        if self.missing:
            lines += [
                "MLflow does not have everything (the records do, nothing is lost):",
                *_few(self.missing),
            ]
            lines.append(f"Log it later with: {self.command}")
        if self.left_out:
            lines += ["Left out of MLflow:", *_few(self.left_out)]
        return "\n".join(lines)


def _few(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - 10} more"] if len(lines) > 10 else []
    return [*(f"  {line}" for line in lines[:10]), *more]


def follow_sweep(
    output: Path,
    name: str,
    rank: Rank,
    tracking: Tracking | None = None,
    *,
    stop: Callable[[], bool] = lambda: False,
    poll_seconds: float = 1.0,
    patience_seconds: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Log the sweep `name` as its cells go on, until `sweep.json` says that all are settled and all
    is logged.

    Where and how is `tracking`, else `Sweep.tracking`. Once settled, or when `stop()` says so, a
    store that cannot be reached is tried for `patience_seconds` more; the report then says what is
    missing. Raises RecordError for a sweep that cannot be read."""
    folder = sweep_folder(output, name)
    sweep = read_sweep(folder)
    tracking = tracking or Tracking.from_mapping(sweep.tracking)
    tracker = SweepTracker(output, folder, tracking, rank)
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
    return Report(tracker.logged, missing, _command(folder, tracking), tracker.left_out)


def track(
    source: Path, output: Path, tracking: Tracking, rank: Rank, *, rebuild: bool = True
) -> Report:
    """Log the Run or the sweep whose folder is `source`, or every sweep and Run of an output
    folder, from its records.

    Into an empty store or one that has parts of it: what is there is completed, never doubled, what
    was deleted there is brought back. Without `rebuild` what the store says of itself is believed,
    and what was deleted stays so. Raises RecordError for a folder that is none of these,
    TrackingError where the store cannot be opened or a tracker is still at work on the sweep. What
    could not be logged after that is in the report."""
    if (source / SWEEP).is_file():
        sweeps, runs = [source], []
    elif (source / RECORD).is_file():
        sweeps, runs = [], [source]
    else:
        sweeps = sorted(path.parent for path in source.glob(f"sweeps/*/{SWEEP}"))
        runs = sorted(path.parent for path in source.glob(f"runs/*/*/*/{RECORD}"))
    if not sweeps and not runs:
        raise RecordError(
            f"source: {source} is not a folder of a Run, a sweep or an output; name one of these"
        )
    connect(tracking, output)
    logged, missing, in_sweeps = 0, list[str](), set[tuple[Path, str]]()
    left_out = list[str]()
    for sweep, folder in _in_order(sweeps, source, missing):
        cells_here = [cell for cell in sweep.cells if is_inside(output, output / cell.run)]
        in_sweeps.update(((output / cell.run).resolve(), cell.result_key) for cell in cells_here)
        tracker = SweepTracker(output, folder, tracking, rank, rebuild=rebuild)
        with _only_tracker(folder, wait=False):
            missing.extend(tracker.step(sweep))
        logged += tracker.logged
        left_out.extend(tracker.left_out)
    cells = CellTracker(output, tracking, rebuild=rebuild)
    for folder in runs:
        if not is_inside(source, folder):
            missing.append(
                f"{folder}: a link leads to it, out of the folder that is logged; name the one it "
                "lies in"
            )
            continue
        own, *others = _results(folder)
        shown = {key for run, key in in_sweeps if run == folder.resolve()}
        keys = [] if shown & {"", own} else [own]
        for key in [*keys, *(key for key in others if key not in shown)]:
            missing.extend(cells.step(folder, key))
    if source not in (*sweeps, *runs):
        places = {run.relative_to(output.resolve()).as_posix() for run, _ in in_sweeps}
        missing.extend(cells.push_aside(lambda place: place not in places))
    left_out.extend(cells.left_out)
    return Report(
        logged + cells.logged,
        tuple(missing),
        _command(source, tracking),
        tuple(dict.fromkeys(left_out)),
    )


def _in_order(
    folders: Sequence[Path], source: Path, missing: list[str]
) -> list[tuple[Sweep, Path]]:
    """The sweeps in `folders`, the oldest first: a cell lies under the sweep that made it. One that
    cannot be read is added to `missing`; raises RecordError where it is all that was asked for."""
    found = []
    for folder in folders:
        try:
            found.append((read_sweep(folder), folder))
        except RecordError as error:
            if folder == source:
                raise
            missing.append(str(error))
    return sorted(found, key=lambda pair: pair[0].created)


def _results(folder: Path) -> list[str]:
    """Result keys of the Run in `folder`: its record's own and those of rules it followed
    before."""
    try:
        record = read_record(folder)
    except RecordError:
        return [""]
    return [record.result_key, *record.other_rules]


def _reread(folder: Path, before: Sweep) -> Sweep:
    """The sweep as it is now; as it was, where its file is being replaced or was spoiled
    meanwhile."""
    try:
        return read_sweep(folder)
    except RecordError:
        return before


def _pause(
    seconds: float,
    poll_seconds: float,
    stop: Callable[[], bool],
    stopping: bool,
    sleep: Callable[[float], None],
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
    with open_lock(folder / TRACKER_LOCK) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if not wait or stop():
                    raise TrackingError(
                        f"tracking: another tracker is at work on the sweep {folder.name}; try "
                        "again when it has ended"
                    ) from None
                sleep(0.2)
        yield


def _command(source: Path, tracking: Tracking) -> str:
    uri = f" 'tracking.uri={mask_uri(tracking.uri)}'" if tracking.uri else ""
    return f"{shlex.join(['evopolicy', 'track', f'source={source}'])}{uri}"
