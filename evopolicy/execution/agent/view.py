"""What an agent sees of this machine: the system's programs and libraries, not the packages beside
a Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evopolicy.execution.sandbox import landlock, packages
from evopolicy.kernel.errors import AgentError

FOLDERS = (
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/libexec",
    "/usr/share",
    "/usr/include",
    "/usr/local/bin",
)
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
# Not the rest of /etc: it may hold keys of this machine.
SETTINGS = (  # noqa: SIM905
    "ld.so.cache ld.so.conf ld.so.conf.d localtime alternatives ssl/certs ssl/openssl.cnf "
    "pki/tls/certs pki/ca-trust/extracted ca-certificates.conf mime.types terminfo"
).split()
NAMES = ("passwd", "group", "nsswitch.conf", "hosts")
"""Settings that a sandbox with users and a network of its own is given in its own words."""
RESOLVING = ("resolv.conf", "hosts", "nsswitch.conf", "services", "protocols", "gai.conf")
_WORKSPACE = landlock.CHANGE | landlock.EXECUTE | landlock.MAKE_SOCK | landlock.MAKE_FIFO
_DEVICES = (
    ("/dev/null", landlock.READ | landlock.WRITE_FILE),
    ("/dev/zero", landlock.READ),
    ("/dev/full", landlock.READ | landlock.WRITE_FILE),
    ("/dev/urandom", landlock.READ),
    ("/dev/random", landlock.READ),
)


def readable(paths: tuple[Path, ...], private: Path) -> tuple[Path, ...]:
    """`paths`, absolute, not resolved. Raises AgentError for one that is missing or would show
    `private`."""
    for path in paths:
        if not path.exists():
            raise AgentError(
                f"the agent is to read '{path}', which is not there; install it or name another "
                "path"
            )
        real = path.resolve()
        if private == real or real in private.parents:
            raise AgentError(
                f"the agent is to read '{path}', which holds the Run's own record; name a folder "
                "below it"
            )
    return tuple(path.absolute() for path in paths)


def landlock_rules(
    workspace: Path, home: Path, held: Path, allowed: tuple[Path, ...], imported: packages.Packages
) -> Iterator[tuple[str, int]]:
    """Path and rights of everything an agent at `landlock` may touch; `held` is its temporary
    folder."""
    yield str(workspace), _WORKSPACE
    for folder in (home, held / "tmp"):
        yield str(folder), _WORKSPACE
    for name in ("staging", "bin", "lib", "packages"):
        yield str(held / name), landlock.RUN
    runtime = packages.runtime()
    yield str(runtime.python), landlock.RUN
    for path in (
        *runtime.readable,
        *_system(),
        *imported.links.values(),
        *(path.resolve() for path in allowed),
    ):
        yield str(path), landlock.RUN
    yield from _DEVICES


def _system() -> Iterator[Path]:
    """The system's programs and libraries; of an installed Python the standard library, not the
    packages beside it."""
    yield from (Path(name) for name in FOLDERS)
    yield from (Path("/etc") / name for name in (*SETTINGS, *NAMES))
    for library in dict.fromkeys(Path(name).resolve() for name in LIBRARIES):
        for entry in sorted(library.iterdir()) if library.is_dir() else ():
            if not entry.name.startswith("python"):
                yield entry
            elif entry.is_dir():
                yield from (part for part in entry.iterdir() if not part.name.endswith("-packages"))
