"""The journal: one JSON object a line, append-only, fsynced before what it says is announced to anyone."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.values import canonical_json

Event = Mapping[str, Any]
JOURNAL = "journal.jsonl"


class Journal:
    """Appends events to `folder/journal.jsonl`; one Host at a time holds it.

    Every event has `n` (0, 1, 2, ...), `time` (Unix seconds) and `event` (its type). `listener` is called with each
    event after it is on disk; what it raises is dropped, since a listener may neither fail nor slow a Run. `mask` takes
    secrets out of what an event says.
    """

    def __init__(
        self,
        folder: Path,
        listener: Callable[[Event], None] = lambda _: None,
        mask: Callable[[Any], Any] = lambda content: content,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / JOURNAL
        # Unbuffered: of a write that failed nothing may be left to be written with the next line.
        self._file = path.open("ab", buffering=0)
        self._failed = False
        self._listener = listener
        self._mask = mask
        try:
            self._lock(folder)
            self._size = self._drop_cut_line(path)
            self.events: list[Event] = list(read_journal(folder))
            sync_folder(folder)
        except BaseException:
            self._file.close()
            raise

    def _lock(self, folder: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordError(f"{folder.name}: another process is running this Run; wait for it or stop it") from None

    def _drop_cut_line(self, path: Path) -> int:
        """A line the Host was killed inside of was never announced: it never happened. Returns the size without it."""
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
            os.fsync(self._file.fileno())
        return whole

    def append(self, event: str, **content: Any) -> Event:
        """Write one event, durable when this returns.

        Raises what the disk raises; then the event did not happen and nothing more is written: whether its line
        reached the disk is only known to whoever opens the journal next.
        """
        if self._failed:
            raise RecordError("the journal could not be written before; mend that and run the command again")
        line: Event = {"n": len(self.events), "time": round(time.time(), 3), "event": event, **self._mask(content)}
        data = canonical_json(line) + b"\n"
        try:
            self._write(data)
        except BaseException:
            self._failed = True
            with suppress(OSError):
                self._file.truncate(self._size)
            raise
        self._size += len(data)
        self.events.append(line)
        try:
            self._listener(line)
        except Exception:
            pass
        return line

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) or 0 :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_journal(folder: Path) -> Iterator[Event]:
    """The events of a Run's folder in order; a cut last line is left out. Raises RecordError for a corrupt one."""
    path = folder / JOURNAL
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise RecordError(f"{path.parent}: has no {JOURNAL}, so it is no Run's folder") from None
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); restore the Run's folder") from None
    for number, line in enumerate(data.split(b"\n")[:-1]):
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or event.get("n") != number or not isinstance(event.get("event"), str):
            raise RecordError(
                f"{path}: line {number + 1} is corrupt; restore the Run's folder from a copy or delete it"
            )
        yield event


def write_durably(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, whole or not at all."""
    staging = path.with_name(f".{path.name}.staging")
    try:
        with staging.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
    except BaseException:
        with suppress(OSError):
            staging.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
