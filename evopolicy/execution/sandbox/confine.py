"""Confines the fork server and each Episode's process. Runs inside them; only `isolation` chooses a
level."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evopolicy.execution.sandbox import landlock, process, seccomp, seccomp_notify

OPEN_FILES = 256
THREADS = 64
"""Of an Episode at once; as many again may be about to start."""
_REPORT_ROOM = 64 << 20
_FEWEST_NAMES = 4096
_DEVICES = (
    ("/dev/null", landlock.READ | landlock.WRITE_FILE),
    ("/dev/zero", landlock.READ),
    ("/dev/urandom", landlock.READ),
    ("/dev/random", landlock.READ),
)


@dataclass(frozen=True)
class SandboxConfig:
    """What the Host settled for all fork servers of an engine. Paths are as the fork server sees
    them."""

    level: str
    """One of `ports.ISOLATIONS`."""
    landlock_abi: int
    """0: Landlock is not used."""
    readable: tuple[str, ...]
    """Files and folders of the runtime and of the allowed packages."""
    roots: tuple[str, ...]
    """Folders that hold them: what an Episode's own domain grants again, few so that it is applied
    fast."""
    memory_bytes: int
    scratch_bytes: int
    cpu_seconds: float
    """The kernel's own stop, behind the worker's count of the Episode's CPU seconds."""


@dataclass(frozen=True)
class Confinement:
    """What a fork server keeps for its children."""

    config: SandboxConfig
    open_roots: tuple[tuple[int, int], ...]
    """Open paths and the rights on them."""
    filter: seccomp.Filter | None
    listener: int = 0
    """Descriptor that asks for each new thread; 0: there is none, and no thread can be started."""


def confine_fork_server(
    config: SandboxConfig,
    reading: Sequence[str],
    changing: Sequence[str],
    load: Callable[[int], None] = lambda _listener: None,
) -> Confinement:
    """Confine this fork server and all it will fork to the runtime and to what it may read and
    change. Raises OSError.

    Its children may read all of `reading`, and change what `own_domain` names out of `changing`.
    `load` is called once it is confined, with what `Confinement.listener` will be: the memory it
    takes is the fork server's, and no Policy's."""
    confinement = _confine(config, reading, changing)
    load(confinement.listener)
    _apply_limits(config)
    return confinement


def _confine(config: SandboxConfig, reading: Sequence[str], changing: Sequence[str]) -> Confinement:
    roots: list[tuple[int, int]] = []
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
        return Confinement(config, tuple(roots), None)
    child_filter = seccomp.Filter(seccomp.child_filter(seccomp.NOBODY))
    return Confinement(config, tuple(roots), child_filter, _listened(seccomp.fork_server_filter()))


def _listened(code: bytes) -> int:
    try:
        return seccomp_notify.install(code, listening=True)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # This machine's own sandbox listens, and there can be one listener: who is not counted
        # starts no threads.
        return seccomp_notify.install(code)


def _opened(rules: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    opened = []
    for path, rights in rules:
        try:
            opened.append((os.open(path, os.O_PATH | os.O_CLOEXEC), rights))
        except OSError:
            continue
    return opened


def _apply_limits(config: SandboxConfig) -> None:
    """The fork server itself uses next to nothing: what it may use, each of its children may."""
    room = process.virtual_bytes() + config.memory_bytes
    process.limit(resource.RLIMIT_AS, room, room + _REPORT_ROOM)
    process.limit(resource.RLIMIT_FSIZE, config.scratch_bytes)
    process.limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    process.limit(resource.RLIMIT_CORE, 0)
    # Queued signals and timers are counted for all of a user's processes: who may have none neither
    # takes nor sees any.
    process.limit(resource.RLIMIT_SIGPENDING, 0)


def scratch_names(scratch_bytes: int) -> int:
    """How many files, folders and links a bounded scratch folder may hold: those with contents take
    4 KiB each."""
    return max(_FEWEST_NAMES, scratch_bytes // 4096)


def bound_scratches(folders: Sequence[str], scratch_bytes: int) -> None:
    """Bound the names in mounted scratch folders, and give up the capability that takes. Raises
    OSError."""
    for folder in folders:
        process.bound_files(folder, scratch_bytes, scratch_names(scratch_bytes))
    process.give_up_privileges()


def file_limits(config: SandboxConfig) -> dict[str, int]:
    """Limits on files that hold at this level, by name."""
    limits = {"file_bytes": config.scratch_bytes, "open_files": OPEN_FILES}
    if config.level != "bubblewrap":
        return limits
    return limits | {
        "scratch_bytes": config.scratch_bytes,
        "scratch_names": scratch_names(config.scratch_bytes),
    }


def own_domain(confinement: Confinement) -> landlock.Ruleset | None:
    """The rules of the next child, gathered in its fork server, where it costs less: what all read.

    The child adds the one folder it may change.
    """
    if not confinement.config.landlock_abi:
        return None
    ruleset = landlock.Ruleset(confinement.config.landlock_abi)
    for fd, rights in confinement.open_roots:
        ruleset.allow_fd(fd, rights)
    return ruleset


def confine_child(confinement: Confinement, domain: landlock.Ruleset | None) -> None:
    """Confine this process, an Episode's own, by its `own_domain`; no new processes, a stop to its
    CPU time."""
    seconds = int(confinement.config.cpu_seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    if domain is not None:
        domain.restrict()
    if confinement.filter is not None:
        confinement.filter.install(os.getpid())


def make_room_to_report() -> None:
    """Raise the soft memory limit by what was held back, so that an Episode out of memory can still
    say so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
