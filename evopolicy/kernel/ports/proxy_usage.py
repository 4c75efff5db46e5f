"""What the Host's proxy tells of an attempt's requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from evopolicy.kernel.ports.transcript import ErrorKind, Usage


@dataclass(frozen=True)
class ProxyUsage:
    """What the Host's proxy has passed on between one attempt's agent and its provider."""

    usage: Usage
    """Requests, and tokens as the provider reported them; the proxy's estimate where it did not."""
    estimated: bool = False
    """Whether some of the tokens are the proxy's own estimate."""
    trouble: ErrorKind = ""
    """How the newest answer failed; '' where it did not."""
    over: Literal["", "requests", "tokens", "cost"] = ""
    """The limit for which a request was refused."""
    responses: Mapping[str, int] = field(default_factory=dict)
    """Tokens of each answer by the provider's id for it; of those that have one."""
    answers: int | None = None
    """Answers with something of a model's in them; None where they pass by unread."""
    words: str = ""
    """Where the newest answer failed: the provider's address, its status and its own words."""
    refused: str = ""
    """What the proxy itself has said to the newest request it refused."""
    failing_seconds: float = 0.0
    """For how long it has failed up to now, without an answer between."""
    waited_seconds: float = 0.0
    """All such time together: the agent could do nothing with it."""
