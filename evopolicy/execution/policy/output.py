"""What a Policy prints, kept within bounds: the head and the tail, the middle counted."""

from __future__ import annotations

import contextlib
import os

from evopolicy.kernel.ports.outcome import Output

_CHUNK = 1 << 16
# One turn takes at most this much, so that a Policy that prints for ever does not keep others
# waiting.
_TURN = 64


class Capture:
    """The worker's end of one Episode's output pipe."""

    def __init__(self, fd: int, limit: int) -> None:
        """`limit` bytes are kept, half from each end."""
        os.set_blocking(fd, False)
        self.fd = fd
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted = 0
        self._kept: Output | None = None

    def drain(self) -> bool:
        """Take what is there now; False once nothing can come any more."""
        for _ in range(_TURN):
            try:
                data = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            self._keep(data)
        return True

    def _keep(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._half + _CHUNK:
                self._trim()

    def _trim(self) -> None:
        extra = len(self._tail) - self._half
        if extra > 0:
            del self._tail[:extra]
            self._omitted += extra

    def close(self) -> Output:
        """What was kept; the pipe is drained a last time and closed. Idempotent."""
        if self._kept is None:
            self.drain()
            with contextlib.suppress(OSError):
                os.close(self.fd)
            self._trim()
            self._kept = self._output()
        return self._kept

    def _output(self) -> Output:
        if not self._omitted:
            # The two halves may part inside a character.
            return Output(bytes(self._head + self._tail).decode("utf-8", "replace"))
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return Output(f"{head}\n[... {self._omitted} bytes left out ...]\n{tail}", self._omitted)
