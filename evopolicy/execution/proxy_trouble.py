"""Why a provider did not answer, by its status and its own words."""

from __future__ import annotations

import re

from evopolicy.kernel.transcript import ErrorKind

# In this order: a provider says of a prompt that is too long that a limit on tokens was passed.
_WORDS: tuple[tuple[ErrorKind, str], ...] = (
    (
        "context",
        r"context.{0,3}(length|window)|maximum context|(prompt|input).{0,20}too long|too many (input )?tokens"
        r"|token count.{0,40}exceeds|string_above_max_length",
    ),
    (
        "authentication",
        r"api.?key.{0,20}(not valid|invalid)|invalid.{0,12}(api.?key|x-api-key)|authentication_error|unauthenticated"
        r"|permission_(error|denied)|credit balance|insufficient_quota|billing",
    ),
    ("rate_limit", r"rate.?limit|resource.?exhausted|too many requests|quota"),
    ("overload", r"overload|server.?error|internal|unavailable|api_error|high demand"),
    ("network", r"time.?out|timed out|connection"),
)


def trouble_of(status: int, words: str) -> ErrorKind:
    """What an answer of `status`, with `words` in its body, tells of; a status of 0: the words alone."""
    if status in (401, 402, 403):
        return "authentication"
    if status == 429:
        return "rate_limit"
    if status == 408:
        return "network"
    if status >= 500:
        return "overload"
    found = next((kind for kind, pattern in _WORDS if re.search(pattern, words, re.IGNORECASE)), None)
    if found is None or (status and found not in ("context", "authentication")):
        return "context" if status == 413 else "other"
    return found
