"""The tracker's process: `python -m evopolicy.sweeps.tracker`, told on its standard input what to
follow.

It logs what the cells write, and ends when all is logged or when its standard input ends: the
command is over, or gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from evopolicy.kernel.errors import EvoPolicyError

if TYPE_CHECKING:
    from evopolicy.tracking.follow import Report

_POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Order:
    """What to follow."""

    output: str
    tracking: Mapping[str, str]
    """As `Sweep.tracking`."""
    sweep: str = ""
    """Name of a sweep, or"""
    run: str = ""
    """the folder of a single Run."""


def main() -> int:
    """0: all is logged; 1: something is missing, and standard error says what and how to log it
    later."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(19)  # the cells come first
    order = msgspec.json.decode(_read_line(), type=Order)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
    from evopolicy.execution.sandbox.descendants import kill_descendants

    try:
        text = _follow(order, over).text()
    except EvoPolicyError as error:
        text = str(error)
    finally:
        kill_descendants()
    if text:
        print(text, file=sys.stderr)
    return 1 if text else 0


def _read_line() -> bytes:
    """From the descriptor itself: a buffer that a waiting thread holds would abort the interpreter
    at its end."""
    line = b""
    while not line.endswith(b"\n") and (more := os.read(0, 65536)):
        line += more
    return line


def _wait_for_end(over: threading.Event) -> None:
    while os.read(0, 65536):
        pass
    over.set()


def _follow(order: Order, over: threading.Event) -> Report:
    from evopolicy.analysis import entry_ranks
    from evopolicy.tracking.follow import follow_sweep
    from evopolicy.tracking.store import Tracking

    if order.sweep:
        where = Tracking.from_mapping(order.tracking)
        return follow_sweep(Path(order.output), order.sweep, entry_ranks, where, stop=over.is_set)
    return follow_run(Path(order.run), Path(order.output), order.tracking, over.is_set)


def follow_run(
    folder: Path, output: Path, tracking: Mapping[str, str], stop: Callable[[], bool]
) -> Report:
    """Log a single Run while it goes on, and once more at its end."""
    from evopolicy.analysis import entry_ranks
    from evopolicy.kernel.session.record import RECORD
    from evopolicy.tracking.cells import CellTracker
    from evopolicy.tracking.follow import track
    from evopolicy.tracking.store import Tracking

    where = Tracking.from_mapping(tracking)
    tracker = CellTracker(output, where)
    while not stop():
        if (folder / RECORD).exists():
            tracker.step(folder)
        time.sleep(_POLL_SECONDS)
    report = track(folder, output, where, entry_ranks, rebuild=False)
    return replace(report, left_out=tuple(dict.fromkeys((*tracker.left_out, *report.left_out))))


if __name__ == "__main__":
    sys.exit(main())
