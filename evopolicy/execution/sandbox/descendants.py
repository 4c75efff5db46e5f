"""What a process has started, and how it is ended. By `/proc`: where there is none, nothing is
found."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def children() -> dict[int, list[int]]:
    """The processes of this machine, by that which started each of them, or adopted it."""
    found: dict[int, list[int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    # The name, in parentheses, may hold anything: the parent is the second word
                    # after the last one.
                    fields = (
                        Path(entry.path, "stat")
                        .read_text(errors="replace")
                        .rpartition(")")[2]
                        .split()
                    )
                    found.setdefault(int(fields[1]), []).append(int(entry.name))
    return found


def descendants(root: int) -> list[int]:
    """Every process below `root` that is not reaped, parents before children."""
    below = children()
    found = [root]
    for pid in found:
        found.extend(below.get(pid, ()))
    return found[1:]


def send(pid: int, number: int) -> None:
    """The signal `number` to `pid`, where it is there and ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_descendants() -> None:
    """Kill everything this process started."""
    for pid in descendants(os.getpid()):
        send(pid, signal.SIGKILL)
