"""What holds up a Run that goes on, read from what its agent's attempt has left so far."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.received import open_part, read_part
from evopolicy.kernel.files.versioned import parse_object
from evopolicy.kernel.run.stream import INVOCATION, PROXY_LOG, STDOUT, attempts_in
from evopolicy.kernel.session.failures import PROVIDER
from evopolicy.kernel.session.journal import JOURNAL

SILENT_SECONDS = 120.0
_TAIL = 1 << 16
"""Bytes of the end of a file that are looked at."""
_SIGNS = (STDOUT, "stderr.log", PROXY_LOG)


@dataclass(frozen=True)
class Waiting:
    what: str
    """One sentence without its end; it stays the same while it lasts."""
    since: float
    """Unix seconds."""


def waiting(run: Path, now: float) -> Waiting | None:
    """What the agent of the Run in `run` waits for at `now` (Unix seconds); None where nothing is
    known of it."""
    try:
        events, moved = _tail(run, JOURNAL)
        last = events[-1] if events else {}
        if last.get("event") == "agent_ended" and last.get("reason") == PROVIDER:
            error = " ".join(str(last.get("error", "")).split())[:300]
            return Waiting(f"its provider failed, and is asked again soon ({error})", moved)
        whole = [e["event"] for e in events if e.get("event") in ("agent_started", "agent_ended")]
        if whole[-1:] == ["agent_ended"] or last.get("event") == "reserved":
            return None
        attempts = attempts_in(run)
        return _of_attempt(run, f"agent/attempt-{attempts[-1]}", moved, now) if attempts else None
    except (OSError, RecordError, ValueError):
        return None


def _of_attempt(run: Path, logs: str, moved: float, now: float) -> Waiting | None:
    if _by_hand(run, logs):
        command = Path(sys.executable).with_name("evopolicy-session")
        return Waiting(
            f"it is a person's turn: cd {run / 'workspace'}; read TASK.md; {command} status", moved
        )
    first: dict[str, Any] = {}
    latest: dict[str, Any] = {}
    for name in _SIGNS:
        with suppress(FileNotFoundError):
            lines, at = _tail(run, f"{logs}/{name}", parsed=name == PROXY_LOG)
            moved = max(moved, at)
            for entry in reversed(lines):
                if entry.get("trouble"):
                    first, latest = entry, latest or entry
                elif isinstance(status := entry.get("status"), int) and status < 300:
                    break
    if latest:
        status = latest.get("status")
        answer = (
            f"{status}, {latest['trouble']}" if isinstance(status, int) else str(latest["trouble"])
        )
        begun = first.get("time")
        since = float(begun) if isinstance(begun, int | float) else moved
        return Waiting(
            f"its provider does not answer ({answer[:60]}), and its agent asks again", since
        )
    if now - moved >= SILENT_SECONDS:
        return Waiting("nothing is heard of its agent or its provider", moved)
    return None


def _by_hand(run: Path, logs: str) -> bool:
    with suppress(FileNotFoundError):
        return parse_object(read_part(run, f"{logs}/{INVOCATION}", _TAIL)).get("by_hand") is True
    return False


def _tail(run: Path, name: str, *, parsed: bool = True) -> tuple[list[dict[str, Any]], float]:
    """The last whole JSON lines of a file, and when it was written last."""
    with open_part(run, name) as file:
        file_status = os.fstat(file.fileno())
        start = max(0, file_status.st_size - _TAIL)
        data = os.pread(file.fileno(), _TAIL, start) if parsed else b""
    return list(_objects(data.splitlines()[start > 0 :])), file_status.st_mtime


def _objects(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        with suppress(ValueError):
            yield parse_object(line)
