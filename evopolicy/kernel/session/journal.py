"""The journal: one JSON object a line, append-only, fsynced before what it says is announced to
anyone."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.durable import make_folder, sync_folder
from evopolicy.kernel.files.received import read_part
from evopolicy.kernel.files.versioned import JOURNAL_FORMAT, SCHEMA_KEY, parse_object
from evopolicy.kernel.values import canonical_json

Event = Mapping[str, Any]
JOURNAL = JOURNAL_FORMAT.name


class Journal:
    """Appends events to `folder/journal.jsonl`; one Host at a time holds it.

    Every event has `n` (0, 1, 2, ...), `time` (Unix seconds, never less than that of the event
    before) and `event` (its type); the first one, and the first after those of an older version,
    says the version of all that follow it in `schema`. `listener` is called with each event after
    it is on disk; what it raises is dropped, since a listener may neither fail nor slow a Run.
    `mask` takes secrets out of what an event says."""

    def __init__(
        self,
        folder: Path,
        listener: Callable[[Event], None] = lambda _: None,
        mask: Callable[[Any], Any] = lambda content: content,
    ) -> None:
        make_folder(folder)
        path = folder / JOURNAL
        # Unbuffered: of a write that failed nothing may be left to be written with the next line.
        self._file = _open_to_append(path)
        self._failed = False
        self._listener = listener
        self._mask = mask
        try:
            self._lock(folder)
            self._size = self._drop_cut_line(path)
            self.events: list[Event] = list(read_journal(folder))
            self._stated = any(
                event.get(SCHEMA_KEY) == JOURNAL_FORMAT.newest for event in self.events
            )
            sync_folder(folder)
        except BaseException:
            self._file.close()
            raise

    def _lock(self, folder: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordError(
                f"{folder.name}: another process is running this Run; wait for it or stop it"
            ) from None

    def _drop_cut_line(self, path: Path) -> int:
        """A line the Host was killed inside of was never announced: it never happened. Returns the
        size without it."""
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
            os.fsync(self._file.fileno())
        return whole

    def append(self, event: str, **content: Any) -> Event:
        """Write one event, durable when this returns.

        Raises what the disk raises; then the event did not happen and nothing more is written:
        whether its line reached the disk is only known to whoever opens the journal next."""
        if self._failed:
            raise RecordError(
                "the journal could not be written before; mend that and run the command again"
            )
        last = float(self.events[-1].get("time") or 0.0) if self.events else 0.0
        now = _not_before(last, round(time.time(), 3))
        line: Event = {"n": len(self.events), "time": now, "event": event, **self._mask(content)}
        if not self._stated:
            line = {**line, SCHEMA_KEY: JOURNAL_FORMAT.newest}
        data = canonical_json(line) + b"\n"
        try:
            self._write(data)
        except BaseException:
            self._failed = True
            with suppress(OSError):
                self._file.truncate(self._size)
            raise
        self._stated = True
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


def _not_before(before: float, time: float) -> float:
    """`time`, or that of the event before, where the machine's clock was set back between the
    two."""
    return max(before, time)


def _open_to_append(path: Path) -> io.FileIO:
    """Never through a link, and never something that only looks like a file: a Run's folder may
    come from anybody."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        raise RecordError(f"{path}: is not a regular file; restore it or remove it") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise RecordError(f"{path}: is not a regular file; restore it or remove it")
    return io.FileIO(handle, "ab")


def read_journal(folder: Path) -> Iterator[Event]:
    """The events of a Run's folder in order, as the newest version has them; a cut last line is
    left out.

    Their times never go back: where those of the file do, a clock was set, and what lies between
    two events is taken for no time at all. Raises RecordError for a journal that is corrupt or of
    an unknown version."""
    path = folder / JOURNAL
    try:
        data = read_part(folder, JOURNAL, JOURNAL_FORMAT.bytes)
    except FileNotFoundError:
        raise RecordError(f"{path.parent}: has no {JOURNAL}, so it is not a Run's folder") from None
    version, before = 1, 0.0
    for number, line in enumerate(_whole_lines(data)):
        try:
            event = parse_object(line)
        except ValueError as error:
            raise _corrupt(path, number, f" ({error})") from None
        if (
            type(event.get("n")) is not int
            or event["n"] != number
            or not isinstance(event.get("event"), str)
        ):
            raise _corrupt(path, number)
        if type(event.get("time")) in (int, float):
            event["time"] = before = _not_before(before, event["time"])
        where = f"{path}: line {number + 1}"
        if SCHEMA_KEY in event:
            version = JOURNAL_FORMAT.version(event, where)
        old = version != JOURNAL_FORMAT.newest
        yield JOURNAL_FORMAT.upgraded({**event, SCHEMA_KEY: version}, where) if old else event


def _whole_lines(data: bytes) -> Iterator[bytes]:
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        yield data[begin:end]
        begin = end + 1


def _corrupt(path: Path, number: int, why: str = "") -> RecordError:
    return RecordError(
        f"{path}: line {number + 1} is corrupt{why}; restore the Run's folder from a copy or "
        "delete it"
    )
