"""The secret of an output folder's pools, made by the Host once and kept in a file that no agent
can open."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from pathlib import Path

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.files.durable import make_folder, sync_folder

POOL_SECRET = "pool-secret"
"""File in the output folder."""
_BYTES = 32
_FORM = re.compile(rb"[0-9a-f]{64}\n")


def pool_secret(output: Path, *, make: bool) -> bytes:
    """The secret in `output`, 64 hex digits: the same for every command that writes there.

    `make`: where there is none. Raises ConfigError where it cannot be made or read, is not there,
    or was changed."""
    path = output / POOL_SECRET
    try:
        if make:
            make_folder(output)
        # Two commands may begin at once: whoever locks it first writes it.
        fd = os.open(
            path,
            os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if make else 0),
            0o600,
        )
    except FileNotFoundError:
        raise ConfigError(
            f"secret.generated: '{path}' is not there, which holds the secret this pool was drawn "
            "with; bring it back, or name a copy of it: secret.file=FILE"
        ) from None
    except OSError as error:
        raise _unusable(path, f"cannot be opened ({error.strerror})") from None
    try:
        return _locked_secret(path, fd, make)
    except OSError as error:
        raise _unusable(path, f"cannot be read or written ({error.strerror})") from None
    finally:
        os.close(fd)


def _locked_secret(path: Path, fd: int, make: bool) -> bytes:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise _unusable(path, "is not a file")
    if stat.S_IMODE(found.st_mode) != 0o600:
        os.fchmod(fd, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    text = os.pread(fd, 2 * _BYTES + 2, 0)
    if not text and make:
        text = secrets.token_hex(_BYTES).encode() + b"\n"
        if os.pwrite(fd, text, 0) != len(text):
            os.ftruncate(fd, 0)
            raise _unusable(path, "could not be written whole")
        os.fsync(fd)
        sync_folder(path.parent)
    if not _FORM.fullmatch(text):
        raise _unusable(path, f"does not hold {2 * _BYTES} hex digits")
    return text.strip()


def _unusable(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"secret.generated: '{path}' {why}; bring back the file that was made there (the Runs "
        "made with it need it)"
    )
