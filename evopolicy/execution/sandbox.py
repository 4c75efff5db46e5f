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

    open_roots: tuple[tuple[int, int], ...]
    """Open paths and the rights on them."""
    address_space: int
    """Bytes of address space an Episode's process may have: the template's own and the limit."""


def lay_template(config: SandboxConfig, program: str, scratches: str) -> Laid:
    """Confine this template and all it will fork to the runtime, `program` and `scratches`. Raises OSError."""
    roots: list[tuple[int, int]] = []
    # Asked before /proc is out of sight.
    address_space = process.virtual_bytes() + config.memory_bytes
    if config.level != "none":
        process.give_up_privileges()
    if config.landlock_abi:
        reading = [(path, landlock.READ) for path in (*config.readable, program)]
        rules = [*reading, (scratches, landlock.CHANGE), *_DEVICES]
        coarse = [(path, landlock.READ) for path in dict.fromkeys((*config.roots, program))]
        roots = _opened([*coarse, *_DEVICES])
        landlock.restrict(config.landlock_abi, rules)
    if config.level != "none":
        seccomp.lay(seccomp.template_filter())
    return Laid(tuple(roots), address_space)


def _opened(rules: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    opened = []
    for path, rights in rules:
        try:
            opened.append((os.open(path, os.O_PATH | os.O_CLOEXEC), rights))
        except OSError:
            continue
    return opened


def lay_child(config: SandboxConfig, laid: Laid, scratch: str) -> None:
    """Confine this process, an Episode's own, to its scratch folder; no new processes, limits on what it may use."""
    lay_limits(config, laid)
    process.leave_no_core()
    if config.landlock_abi:
        ruleset = landlock.Ruleset(config.landlock_abi)
        for fd, rights in laid.open_roots:
            ruleset.allow_fd(fd, rights)
        ruleset.allow(scratch, landlock.CHANGE)
        ruleset.restrict()
    if config.level != "none":
        seccomp.lay(seccomp.child_filter(os.getpid()))


def lay_limits(config: SandboxConfig, laid: Laid) -> None:
    seconds = int(config.cpu_seconds) + 2
    process.limit(resource.RLIMIT_AS, laid.address_space, laid.address_space + _REPORT_ROOM)
    process.limit(resource.RLIMIT_FSIZE, config.scratch_bytes)
    process.limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    process.limit(resource.RLIMIT_CORE, 0)
    process.limit(resource.RLIMIT_CPU, seconds, seconds + 1)


def make_room_to_report() -> None:
    """Raise the soft memory limit by what was held back, so that an Episode out of memory can still say so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
