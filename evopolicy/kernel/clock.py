"""The clock that stands still for an agent while its own calls wait for an Evaluation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class BlockedClock:
    """Adds up the time during which at least one thread is inside it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._since = 0.0
        self._total = 0.0

    @property
    def stands(self) -> bool:
        """Whether a thread is inside it now."""
        return self._inside > 0

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


class AgentClock:
    """What one attempt's agent has used of its time, from now on."""

    def __init__(self, blocked: Callable[[], float]) -> None:
        """`blocked`: seconds for which its own calls have waited for Evaluations so far."""
        self._blocked = blocked
        self._before = blocked()
        self._started = time.monotonic()

    @property
    def evaluating(self) -> float:
        """Seconds its calls have waited for Evaluations."""
        return self._blocked() - self._before

    @property
    def thinking(self) -> float:
        """All other seconds since it was started."""
        return time.monotonic() - self._started - self.evaluating

    def reading(self) -> dict[str, float]:
        """As a journal's event holds it, to the millisecond."""
        evaluating = self.evaluating
        passed = time.monotonic() - self._started
        return {"thinking": round(passed - evaluating, 3), "evaluating": round(evaluating, 3)}
