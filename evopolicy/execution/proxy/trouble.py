"""Why a provider did not answer, by its status and its own words."""

from __future__ import annotations

import json
import re
from typing import Any

from evopolicy.kernel.ports.transcript import ErrorKind

MAX_SAID = 300
"""Characters of a provider's own words that are told on."""

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
    """What an answer of `status`, with `words` in its body, tells of; a status of 0: the words
    alone."""
    if status in (401, 402, 403):
        return "authentication"
    if status == 429:
        return "rate_limit"
    if status == 408:
        return "network"
    if status >= 500:
        return "overload"
    found = next(
        (kind for kind, pattern in _WORDS if re.search(pattern, words, re.IGNORECASE)), None
    )
    if found is None or (status and found not in ("context", "authentication")):
        return "context" if status == 413 else "other"
    return found


def message_of(body: str | bytes) -> str:
    """What an answer that is an error says, in whichever form providers put it; its bare text where
    it has none."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    waiting = [value]
    while waiting:
        inner = waiting.pop(0)
        if isinstance(inner, dict):
            waiting[:0] = [
                inner.get(name) for name in ("error", "message", "detail", "error_description")
            ]
        elif isinstance(inner, list):
            waiting[:0] = inner[:1]
        elif isinstance(inner, str) and inner.strip():
            text = inner
            break
    return " ".join(re.sub(r"(?s)<(style|script).*?</\1>|<[^>]*>", " ", text).split())[:MAX_SAID]
