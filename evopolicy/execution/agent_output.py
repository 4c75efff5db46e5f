"""What an agent prints, on its way to a file: its secrets masked, bounded, and when its lines came."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import deque
from pathlib import Path

from evopolicy.kernel.secrets import Masker

TAIL_BYTES = 4 << 20
PENDING_BYTES = 4 << 20
"""Of one line, held until it ends; a longer one is written in pieces."""
QUIET_SECONDS = 0.2
"""After which the beginning of a line is written without its end."""
MAX_TIMES = 100_000
_CHUNK = 1 << 16
_KEY_BYTES = 4096
"""Longest key that is known by its looks alone, but for private ones."""
_PRIVATE_KEY_BYTES = 64 << 10
_KEY_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+/=-"
_PRIVATE_KEY_BEGUN = re.compile(rb"-----BEGIN(?:[A-Z -]*|[A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\n]*(?:-[A-Z -]*)?)\Z")


class Masking:
    """Masks bytes that come in pieces. It cuts them where no secret is cut apart, whole or begun."""

    def __init__(self, mask: Masker) -> None:
        self._mask = mask
        self._pending = bytearray()
        longest = max(map(len, mask.written), default=0)
        self._reach = max(longest, _PRIVATE_KEY_BYTES)

    @property
    def pending(self) -> int:
        """Bytes that were taken and not given back yet."""
        return len(self._pending)

    def feed(self, data: bytes) -> bytes:
        """Take `data`; returns, masked, whole lines, and pieces of one that is longer than PENDING_BYTES."""
        before = len(self._pending)
        self._pending += data
        end = data.rfind(b"\n") + 1
        if end:
            return self._taken(before + end)
        return self.begun() if len(self._pending) >= PENDING_BYTES else b""

    def begun(self) -> bytes:
        """The beginning of a line, masked, but for what may be the beginning of a secret."""
        return self._taken(len(self._pending))

    def end(self) -> bytes:
        """All that is left, masked."""
        data = bytes(self._pending)
        self._pending.clear()
        return self._mask.data(data)

    def _taken(self, end: int) -> bytes:
        cut, floor = end, max(0, end - 2 * self._reach)
        while cut > floor and (held := self._secret_begun(cut)):
            cut -= held
        cut = max(cut, floor)
        data = bytes(self._pending[:cut])
        del self._pending[:cut]
        return self._mask.data(data)

    def _secret_begun(self, end: int) -> int:
        """How many bytes before `end` may be the beginning of a secret, at most."""
        before = bytes(self._pending[max(0, end - self._reach) : end])
        found = max((_overlap(before, form) for form in self._mask.written), default=0)
        key = before[-_KEY_BYTES:]
        rest = key.rstrip(_KEY_LETTERS)
        login = rest[-7:].lower()
        found = max(found, len(key) - len(rest) + (7 if login == b"bearer " else 6 if login[-6:] == b"basic " else 0))
        place = before.rfind(b"-----BEGIN")
        if place >= 0 and _PRIVATE_KEY_BEGUN.match(before, place):
            found = max(found, len(before) - place)
        return found


def _overlap(text: bytes, form: bytes) -> int:
    """The length of the longest beginning of `form`, not all of it, that `text` ends with."""
    last = text[-1:]
    place = min(len(form) - 1, len(text))
    while (place := form.rfind(last, 0, place) + 1) > 0:
        if text.endswith(form[:place]):
            return place
        place -= 1
    return 0


class Times:
    """The file that says when lines of a stream came: to a tenth of a second, of a very long stream to a second."""

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
    """One stream of output going to a file: its head as it comes, its tail at the end, the middle counted."""

    def __init__(self, fd: int, path: Path, limit: int, mask: Masker, times: Times | None = None) -> None:
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
        if self._heard and self._masking.pending and time.monotonic() - self._heard >= QUIET_SECONDS:
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
        """Write all of it; on a full disk the rest is lost and counted, since an agent is attended to its end."""
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
