"""How the scripted provider fails, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["status", "stall", "drop", "cut", "end", "malformed", "context", "refusal"]
FAULT_KINDS: tuple[FaultKind, ...] = (
    "status",
    "stall",
    "drop",
    "cut",
    "end",
    "malformed",
    "context",
    "refusal",
)


@dataclass(frozen=True)
class Fault:
    """One way to fail. Side calls, which offer the model no shell, are not touched by it."""

    kind: FaultKind
    """`status`: an HTTP error; `stall`: silence after the head; `drop`: reset before the head;
    `cut`: reset in the middle; `end`: closed in the middle, as if all was said; `malformed`: events
    that are no JSON; `context`: the conversation is too long; `refusal`: the model declines."""
    status: int = 500
    retry_after: float | None = None
    """Seconds, said with the status; None: nothing is said."""
    after: int = 0
    """Requests that are answered well before it."""
    times: int | None = None
    """Requests it fails then; None: all of them."""

    def meets(self, number: int) -> bool:
        """Whether request `number`, from 0, fails."""
        return number >= self.after and (self.times is None or number < self.after + self.times)


def status(
    code: int, *, after: int = 0, times: int | None = None, retry_after: float | None = None
) -> Fault:
    """The HTTP error `code`."""
    return Fault("status", code, retry_after, after, times)


WORDS = {
    400: ("invalid_request_error", "Unsupported value: 'effort'."),
    401: ("invalid_api_key", "Incorrect API key provided."),
    403: ("permission_denied", "Your key may not use this model."),
    404: ("not_found", "There is no such model."),
    429: ("rate_limit_exceeded", "Rate limit reached."),
    500: ("server_error", "The server had an error."),
    529: ("overloaded", "Overloaded."),
}
"""Kind and message, as providers put them."""
