"""The clock that stands still for an agent while its own calls wait for an Evaluation."""

from __future__ import annotations

import threading
import time


class BlockedClock:
    """Adds up the time during which at least one thread is inside it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._since = 0.0
        self._total = 0.0

    @property
    def seconds(self) -> float:
        with self._lock:
            return self._total + (time.monotonic() - self._since if self._inside else 0.0)

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._since = time.monotonic()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._total += time.monotonic() - self._since
