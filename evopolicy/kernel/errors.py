"""What can fail, one class per boundary.

Every message says which key or file, which rule, what was found and what to do.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from difflib import get_close_matches

HOST_ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}
)
"""What the Host's machine is to blame for, whoever's code met it."""


class EvoPolicyError(Exception):
    """Base of every error EvoPolicy raises on purpose; its text is one sentence a person can act
    on."""


class ConfigError(EvoPolicyError):
    """A config that cannot be run: unknown name, wrong type or range, impossible combination."""


class ProgramError(EvoPolicyError):
    """A source tree that is refused at capture. Costs the agent nothing."""


class BenchmarkError(EvoPolicyError):
    """A Benchmark that breaks its contract: spec, plan, Feedback or artifact out of bounds."""


class ExecutionError(EvoPolicyError):
    """The engine or an Environment failed; never the fault of the Policy."""


class IsolationError(ExecutionError):
    """The asked isolation level does not work on this machine."""


class AgentError(EvoPolicyError):
    """An agent that cannot be started: missing CLI, missing login, refused option."""


class RecordError(EvoPolicyError):
    """A Run's folder that cannot be read or written: missing file, unknown schema, corrupt
    journal."""


class TrackingError(EvoPolicyError):
    """The tracking server cannot be reached or refuses. Never ends a Run."""


class Refused(EvoPolicyError):
    """The Host refuses what the agent asked for. Nothing is charged.

    `code` is one snake_case word for programs; the text is for the agent, `remedy` says what to do
    instead."""

    def __init__(self, code: str, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.remedy = remedy


class InvalidAction(EvoPolicyError):
    """A Policy's Action that is no member of the action space."""


def wrong_type(error: Exception, root: str) -> ConfigError:
    """msgspec's "Expected `int`, got `str` - at `$.population`" as a ConfigError that names the key
    under `root`."""
    what, _, where = str(error).partition(" - at `$")
    key = f"{root}{where.rstrip('`')}".lstrip(".") or "config"
    return ConfigError(f"{key}: {what[:1].lower()}{what[1:]}".replace("`", "'"))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`" Did you mean 'codex'?"`, or the sorted list of what there is, ready to end a message."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f" Did you mean '{near[0]}'?"
    return f" Known: {', '.join(names)}." if names else ""
