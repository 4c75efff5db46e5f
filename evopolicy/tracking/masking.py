"""Keeping secrets out of what is logged: by the name of a key, and by the value of a secret variable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

MASK = "***"
_SECRET_KEY = re.compile(r"(^|_)(api_?key|access_?key|secret|token|password|passwd|credentials?)$", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"(KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_SHORTEST = 8
"""A shorter value is a word, not a secret: replacing it would spoil every text that holds it."""


def mask(value: Any, environment: Mapping[str, str] | None = None) -> Any:
    """A copy of a JSON value without secrets.

    A text under a key that names a secret (`api_key`, `token`; not `secret_file`, which names where one lies) becomes
    `***`, and so does every occurrence, anywhere, of the value of an environment variable that is named like one.
    """
    return _mask(value, secret_values(os.environ if environment is None else environment))


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values of the variables whose name ends like a secret's, the longest first."""
    found = {v for k, v in environment.items() if _SECRET_VARIABLE.search(k) and len(v) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


def _mask(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {
            _mask(str(key), secrets): MASK
            if isinstance(item, str) and item and _SECRET_KEY.search(str(key))
            else _mask(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_mask(item, secrets) for item in value]
    return value


def mask_uri(uri: str) -> str:
    """`uri` without user and password."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=f"{MASK}@{parts.netloc.rpartition('@')[2]}"))
