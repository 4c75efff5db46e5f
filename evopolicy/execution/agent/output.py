"""What an agent prints, on its way to a file: its secrets masked, bounded, and when its lines
came."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from pathlib import Path

from evopolicy.kernel.secrecy.masking import Masking
from evopolicy.kernel.secrecy.secrets import Masker

TAIL_BYTES = 4 << 20
QUIET_SECONDS = 0.2
"""After which the beginning of a line is written without its end."""
MAX_TIMES = 100_000
_CHUNK = 1 << 16


class Times:
    """The file that says when lines of a stream came: to a tenth of a second, of a very long stream
    to a second."""

    def __init__(self, path: Path, started: float) -> None:
        """`started`: of `time.monotonic()`."""
        self._file = path.open("wb", buffering=0)
        self._started = started
        self._line = 0
        self._told = -1
        self._entries = 0

    def came(self, data: bytes, *, last: bool = False) -> None:
        """`data` is being written; with `last` it is the end of a line, whatever it ends with."""
        lines = data.count(b"\n") + (last and data[-1:] not in (b"", b"\n"))
        if not lines:
            return
        tenths = int(10 * (time.monotonic() - self._started))
        step = 1 if self._entries < MAX_TIMES // 2 else 10
        if tenths // step != self._told // step and self._entries < MAX_TIMES:
            self._told = tenths
            self._entries += 1
            with contextlib.suppress(OSError):
                self._file.write(f"{self._line} {tenths / 10:.1f}\n".encode())
        self._line += lines

    def close(self) -> None:
        self._file.close()


class Stream:
    """One stream of output going to a file: its head as it comes, its tail at the end, the middle
    counted."""

    def __init__(
        self, fd: int, path: Path, limit: int, mask: Masker, times: Times | None = None
    ) -> None:
        self.fd = fd
        self._file = path.open("wb", buffering=0)
        self._left = limit
        self._masking = Masking(mask)
        self._times = times
        self._heard = 0.0
        self._tail: deque[bytes] = deque()
        self._held = 0
        self._dropped = 0

    def pump(self) -> bool:
        """Take what has come. False at the stream's end."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        self._heard = time.monotonic()
        self._keep(self._masking.feed(data))
        return True

    def look(self) -> None:
        """Write the beginning of a line whose end is not coming."""
        if (
            self._heard
            and self._masking.pending
            and time.monotonic() - self._heard >= QUIET_SECONDS
        ):
            self._heard = 0.0
            self._keep(self._masking.begun())

    def _keep(self, data: bytes) -> None:
        head, rest = data[: self._left], data[self._left :]
        if head:
            self._write(head)
            self._left -= len(head)
        else:
            # The file does not grow, its time does: someone is still talking.
            with contextlib.suppress(OSError):
                os.utime(self._file.fileno())
        if rest:
            self._tail.append(rest)
            self._held += len(rest)
            while self._held - len(self._tail[0]) >= TAIL_BYTES:
                gone = len(self._tail.popleft())
                self._held -= gone
                self._dropped += gone

    def _write(self, data: bytes, *, last: bool = False) -> None:
        """Write all of it; on a full disk the rest is lost and counted, since an agent is
        supervised to its end."""
        if self._times is not None:
            self._times.came(data, last=last)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file.fileno(), rest) :]
        except OSError:
            self._dropped += len(rest)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.fd, _CHUNK):
                self._keep(self._masking.feed(data))
        if left := self._masking.end():
            self._keep(left) if len(left) > self._left else self._write(left, last=True)
        if self._dropped:
            self._write(f"\n... {self._dropped} bytes left out ...\n".encode())
        for data in self._tail:
            self._write(data)
        self._file.close()
        os.close(self.fd)
        if self._times is not None:
            self._times.close()
