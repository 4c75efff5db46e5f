"""Which records were made here: a seal on what a record would have started again, by a key that
never leaves.

A record's config says which programs are started, which files are read and where results are sent.
In a record of one's own that is what one typed; in somebody else's it is what they want this
machine to do. The key is a file of the user's on this machine, outside every output folder: whoever
sends a record cannot have it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.files.received import read_part

_KEY = "owner.key"
_BYTES = 32
_LEFT_OUT = ("output",)
"""Where a record lies is said by whoever goes on with it: a folder may be moved."""


def seal(content: Mapping[str, Any]) -> str:
    """64 hex digits that this user can make on this machine alone; '' where no key can be kept."""
    key = _key(make=True)
    return _sealed(key, content) if key else ""


def is_ours(content: Mapping[str, Any], sealed: str) -> bool:
    """Whether `sealed` was made of `content` by this user on this machine."""
    key = _key(make=False)
    if not key or not sealed.isascii():
        return False
    try:
        return hmac.compare_digest(_sealed(key, content), sealed)
    except (ValueError, TypeError, RecursionError):
        return False


def _sealed(key: bytes, content: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in content.items() if name not in _LEFT_OUT}
    text = json.dumps(plain, sort_keys=True, allow_nan=False).encode()
    return hmac.new(key, b"evopolicy/seal/1" + text, hashlib.sha256).hexdigest()


def key_folder() -> Path | None:
    """Where the key is kept: `$XDG_STATE_HOME/evopolicy`, by default `~/.local/state/evopolicy`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        return (
            Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
        ) / "evopolicy"
    except RuntimeError:  # a user without a home
        return None


def _key(*, make: bool) -> bytes:
    """The user's key; b'' where there is none, or it is not this user's alone."""
    folder = key_folder()
    if folder is None:
        return b""
    try:
        if make and not (folder / _KEY).exists():
            _make_key(folder)
        status = (folder / _KEY).lstat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return b""
        key = read_part(folder, _KEY, _BYTES)
    except (OSError, RecordError):
        return b""
    return key if len(key) == _BYTES else b""


def _make_key(folder: Path) -> None:
    """Whole or not at all, and by one of those that try at once."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    staging = folder / f".{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(staging, flags, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        os.link(staging, folder / _KEY)
    except FileExistsError:
        pass
    finally:
        staging.unlink(missing_ok=True)
