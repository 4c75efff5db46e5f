"""What a Run tells its observers: journal lines, and how far it is. What they raise is dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from evopolicy.kernel.ports.protocols import Observer, Progress
from evopolicy.kernel.session.journal import Event
from evopolicy.kernel.session.state import RunState


class Notifier:
    """Tells the observers; what they raise is dropped."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self.state: Callable[[], RunState] = RunState
        self.offset = 0
        self.total = 0
        """Where Validation counts over several Programs: what came before this one, and all of
        it."""

    def event(self, event: Event) -> None:
        for observer in self._observers:
            _quietly(observer.on_event, event)

    def progress(
        self,
        phase: Literal["starting", "session", "validation", "assessment", "done"],
        done: int,
        total: int,
    ) -> None:
        published = self.state().published
        best = max((s.score for s in published if s.score is not None), default=None)
        progress = Progress(
            phase, self.offset + done, self.total or total, len(self.state().submissions), best
        )
        for observer in self._observers:
            _quietly(observer.on_progress, progress)


def _quietly(function: Callable[[Any], None], argument: Mapping[str, Any] | Progress) -> None:
    try:
        function(argument)
    except Exception:
        pass
