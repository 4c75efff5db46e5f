"""Lays isolation on the template and on each Episode's process. Runs inside them; only `isolation` chooses a level."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass

from evopolicy.execution import landlock, process, seccomp

OPEN_FILES = 256
_REPORT_ROOM = 64 << 20
_DEVICES = (
    ("/dev/null", landlock.READ | landlock.WRITE_FILE),
    ("/dev/zero", landlock.READ),
    ("/dev/urandom", landlock.READ),
    ("/dev/random", landlock.READ),
)


@dataclass(frozen=True)
class SandboxConfig:
    """What the Host settled for all templates of an engine. Paths are as the template sees them."""

    level: str
    """One of `ports.ISOLATIONS`."""
    landlock_abi: int
    """0: Landlock is not used."""
    readable: tuple[str, ...]
    """Files and folders of the runtime and of the allowed packages."""
    roots: tuple[str, ...]
    """Folders that hold them: what an Episode's own domain grants again, few so that it is laid fast."""
    memory_bytes: int
    scratch_bytes: int
    cpu_seconds: float
    """The kernel's own stop, behind the worker's count of the Episode's CPU seconds."""


@dataclass(frozen=True)
class Laid:
    """What a template keeps for its children."""

    config: SandboxConfig
    open_roots: tuple[tuple[int, int], ...]
    """Open paths and the rights on them."""
    filter: seccomp.Filter | None


def lay_template(config: SandboxConfig, reading: Sequence[str], changing: Sequence[str]) -> Laid:
    """Confine this template and all it will fork to the runtime and to what it may read and change. Raises OSError.

    Its children may read all of `reading`, and change what `own_domain` names out of `changing`.
    """
    roots: list[tuple[int, int]] = []
    _lay_limits(config)
    process.leave_no_core()
    if config.level != "none":
        process.give_up_privileges()
    if config.landlock_abi:
        rules = [(path, landlock.READ) for path in (*config.readable, *reading)]
        rules += [(path, landlock.CHANGE) for path in changing]
        coarse = [(path, landlock.READ) for path in dict.fromkeys((*config.roots, *reading))]
        roots = _opened([*coarse, *_DEVICES])
        landlock.restrict(config.landlock_abi, [*rules, *_DEVICES])
    if config.level == "none":
        return Laid(config, tuple(roots), None)
    child_filter = seccomp.Filter(seccomp.child_filter(seccomp.NOBODY))
    seccomp.lay(seccomp.template_filter())
    return Laid(config, tuple(roots), child_filter)


def _opened(rules: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    opened = []
    for path, rights in rules:
        try:
            opened.append((os.open(path, os.O_PATH | os.O_CLOEXEC), rights))
        except OSError:
            continue
    return opened


def _lay_limits(config: SandboxConfig) -> None:
    """The template itself uses next to nothing: what it may use, each of its children may."""
    room = process.virtual_bytes() + config.memory_bytes
    process.limit(resource.RLIMIT_AS, room, room + _REPORT_ROOM)
    process.limit(resource.RLIMIT_FSIZE, config.scratch_bytes)
    process.limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    process.limit(resource.RLIMIT_CORE, 0)


def file_limits(config: SandboxConfig) -> dict[str, int]:
    """Limits on files that hold at this level, by name."""
    limits = {"file_bytes": config.scratch_bytes, "open_files": OPEN_FILES}
    return limits | ({"scratch_bytes": config.scratch_bytes} if config.level == "bubblewrap" else {})


def own_domain(laid: Laid, scratch: str) -> landlock.Ruleset | None:
    """The rules of the next child, gathered in its template, where it costs less: what all read, and its scratch."""
    if not laid.config.landlock_abi:
        return None
    ruleset = landlock.Ruleset(laid.config.landlock_abi)
    for fd, rights in laid.open_roots:
        ruleset.allow_fd(fd, rights)
    ruleset.allow(scratch, landlock.CHANGE)
    return ruleset


def lay_child(laid: Laid, domain: landlock.Ruleset | None) -> None:
    """Confine this process, an Episode's own, to its scratch folder; no new processes, a stop to its CPU time."""
    seconds = int(laid.config.cpu_seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    if domain is not None:
        domain.restrict()
    if laid.filter is not None:
        laid.filter.lay(os.getpid())


def make_room_to_report() -> None:
    """Raise the soft memory limit by what was held back, so that an Episode out of memory can still say so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
