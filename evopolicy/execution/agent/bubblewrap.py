"""An agent's sandbox at `bubblewrap`: what is mounted where, and which sockets its processes may
open.

Paths in it are fixed: nothing an agent reads of its place names a folder of this machine, but for
what its integration has asked to be readable."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicy.execution.agent import view as agent_view
from evopolicy.execution.agent.mounts import write_commands
from evopolicy.execution.sandbox import bubblewrap, packages, seccomp
from evopolicy.execution.sandbox.seccomp import ALLOW, Rule

OWN = Path("/opt/evopolicy")
WORKSPACE, HOME, STAGING = Path("/workspace"), Path("/home/agent"), OWN / "staging"
PYTHON, PACKAGES = OWN / "bin" / "python3", OWN / "packages"
SESSION, PROXY, PLAN = (
    Path("/run/evopolicy") / name for name in ("session.sock", "proxy.sock", "agent.json")
)
PORT = 8100
"""Where the agent finds the Host's proxy, on the loopback of its own network."""
USER = 1000
TEMPORARY_BYTES = 1 << 30
"""Of /tmp and of /dev/shm, each."""
PROCESSES = 4096
"""At once, threads included."""
SIGNALS = 4096
"""Queued, and timers, at once: all of a user's share one limit."""
REPORT_FD, FILTER_FDS = 3, (4, 5)
"""Descriptors `bwrap` is started with: where the sandbox's first process reports, and the
filters."""
KEPT = ("TASK.md", "feedback", "skills", ".evopolicy")
"""Of the workspace: the Host's own, read-only to the agent."""
_KERNELS_OWN = (  # noqa: SIM905
    "kcore kmsg keys key-users kpagecount kpageflags kpagecgroup vmallocinfo slabinfo timer_list "
    "sched_debug mtrr sysrq-trigger kallsyms iomem ioports"
).split()
_INTERPRETER = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_LIBRARY = Path("lib")
_UNIX, _INET, _NETLINK, _INET6 = 1, 2, 16, 10


@dataclass(frozen=True)
class Sandbox:
    """What one agent's sandbox is made of. Paths of this machine."""

    held: Path
    """Temporary folder with `bin`, `etc`, `login`, `staging` and `agent.json`."""
    home: Path
    logins: tuple[str, ...]
    """Files in `held/login` that stand at the same places of the home, where there is a file for
    each already."""
    workspace: Path
    socket: Path
    proxy: Path | None
    """Socket of the Host's proxy."""
    readable: tuple[Path, ...]
    packages: packages.Packages
    shares_network: bool


def command(program: str, sandbox: Sandbox) -> list[str]:
    """argv that starts the agent's first process in its sandbox; REPORT_FD and FILTER_FDS have to
    be open."""
    arguments = [
        *bubblewrap.base(program, network=sandbox.shares_network),
        *("--uid", str(USER), "--gid", str(USER), "--as-pid-1", *_proc()),
        *(
            "--size",
            str(TEMPORARY_BYTES),
            "--perms",
            "1777",
            "--tmpfs",
            "/dev/shm",
            "--remount-ro",
            "/dev",
        ),
        *(
            "--size",
            str(TEMPORARY_BYTES),
            "--perms",
            "1777",
            "--tmpfs",
            "/tmp",
            "--symlink",
            "/tmp",
            "/var/tmp",
        ),
    ]
    for mounts in (
        _system(),
        _settings(sandbox),
        _own(sandbox),
        _readable(sandbox.readable),
        _workspace(sandbox),
    ):
        arguments += mounts
    arguments += ["--remount-ro", "/", "--chdir", "/"]
    for fd in FILTER_FDS:
        arguments += ["--add-seccomp-fd", str(fd)]
    return [
        *arguments,
        "--",
        str(PYTHON),
        "-I",
        "-S",
        "-B",
        str(OWN / "bin" / "init.py"),
        str(PLAN),
    ]


def filters() -> tuple[bytes, bytes]:
    """The list of calls an agent may make, and on top of it what own namespaces leave to refuse.

    Other families of sockets reach the machine around every namespace (a virtual machine's host,
    crypto, hardware)."""
    families = (_UNIX, _INET, _INET6, _NETLINK)
    rules = [Rule(name, ALLOW, 0, families) for name in ("socket", "socketpair")]
    return seccomp.agent_filter(True), seccomp.assemble(rules, ALLOW)


def processes() -> int:
    """The kernel's own bound on an agent's processes; 0 where it has none.

    It holds none against root, in whatever namespace, and until 5.14 counted all of a user's on the
    machine."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    counts_threads = version is not None and (int(version[1]), int(version[2])) >= (5, 14)
    return PROCESSES if counts_threads and os.geteuid() != 0 else 0


def shell() -> str:
    """What coding agents run their commands with: some take no plainer one than bash."""
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def prepare(held: Path, code: Iterable[Path], shell_command: str) -> None:
    """Fill `held` with what `command` mounts: `code` and the `evopolicy-session` command in bin,
    names in etc."""
    for folder in ("bin", "etc"):
        (held / folder).mkdir()
    write_commands(held, code, shell_command)
    (held / "bin" / _INTERPRETER).touch()
    for name in ("python3", "python"):
        (held / "bin" / name).symlink_to(_INTERPRETER)
    names = {
        "passwd": f"agent:x:{USER}:{USER}::{HOME}:{shell()}\nnobody:x:65534:65534::/:/bin/false\n",
        "group": f"agent:x:{USER}:\nnogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }
    for name, text in names.items():
        (held / "etc" / name).write_text(text)


def _proc() -> Iterator[str]:
    """A process table of its own that cannot be written to.

    Where the Host is root, so is the owner of the agent's files outside its user namespace: the
    kernel's settings under /proc/sys, and what only root may read of the kernel, would be open to
    it."""
    yield from ("--proc", "/proc")
    for name in _KERNELS_OWN:
        if (place := Path("/proc") / name).exists():
            yield from _bind(Path("/dev/null"), place)
    yield from ("--remount-ro", "/proc")


def _bind(path: Path, at: Path | None = None, how: str = "--ro-bind") -> tuple[str, str, str]:
    return how, str(path), str(at or path)


def _system() -> Iterator[str]:
    """The system's programs and libraries, the folders of installed Python packages covered."""
    for name in (*agent_view.FOLDERS, *agent_view.LIBRARIES):
        folder = Path(name)
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), name)
        elif folder.is_dir():
            yield from _bind(folder)
            if name in agent_view.LIBRARIES:
                yield from _covered(folder, folder)


def _covered(folder: Path, at: Path) -> Iterator[str]:
    """Nothing in place of the packages installed in `folder`, which is mounted `at`."""
    for name in packages.HIDDEN:
        for place in (folder / name, *folder.glob(f"*/{name}")):
            if place.is_dir() and not place.is_symlink() and not place.parent.is_symlink():
                where = str(at / place.relative_to(folder))
                yield from ("--tmpfs", where, "--remount-ro", where)


def _settings(sandbox: Sandbox) -> Iterator[str]:
    etc = Path("/etc")
    resolving = agent_view.RESOLVING if sandbox.shares_network else ()
    for name in (*agent_view.SETTINGS, *resolving):
        yield from _bind(etc / name, how="--ro-bind-try")
    for name in agent_view.NAMES:
        if name not in resolving:
            yield from _bind(sandbox.held / "etc" / name, etc / name)


def _own(sandbox: Sandbox) -> Iterator[str]:
    """The Policy's Python with its packages, and what the Host prepares for this agent."""
    runtime, held = packages.runtime(), sandbox.held
    library = Path(runtime.path[1]).parent
    yield from _bind(library, OWN / _LIBRARY)
    yield from _covered(library, OWN / _LIBRARY)
    yield from ("--symlink", str(_LIBRARY), str(OWN / "lib64"))
    yield from _bind(held / "bin", OWN / "bin")
    yield from _bind(runtime.python, OWN / "bin" / _INTERPRETER)
    for shared in library.glob("libpython*.so*"):
        yield from _bind(
            shared
        )  # an interpreter may look for it at the very place it was installed at
    for name, target in sandbox.packages.links.items():
        yield from _bind(target, PACKAGES / name)
    yield from _bind(held / "staging", STAGING)
    yield from _bind(sandbox.home, HOME, "--bind")
    for name in sandbox.logins:
        yield from _bind(held / "login" / name, HOME / name, "--bind")
    yield from _bind(held / "agent.json", PLAN)
    yield from _bind(sandbox.socket, SESSION, "--ro-bind-try")
    if sandbox.proxy is not None:
        yield from _bind(sandbox.proxy, PROXY)


def _readable(paths: Iterable[Path]) -> Iterator[str]:
    shown = [Path(name) for name in (*agent_view.FOLDERS, *agent_view.LIBRARIES)]
    for path in dict.fromkeys(paths):
        real = path.resolve()
        if not _seen(real, shown):
            yield from _bind(real)
            shown.append(real)
        if path != real and not _seen(path, shown):
            # A program that looks for its files beside itself has to find a link where there is
            # one.
            yield from (
                ("--symlink", str(real), str(path)) if path.is_symlink() else _bind(real, path)
            )
            shown.append(path)


def _seen(path: Path, shown: Iterable[Path]) -> bool:
    hidden = any(part in packages.HIDDEN for part in path.parts)
    return any(path == place or (place in path.parents and not hidden) for place in shown)


def _workspace(sandbox: Sandbox) -> Iterator[str]:
    yield from _bind(sandbox.workspace, WORKSPACE, "--bind")
    for name in KEPT:
        path = sandbox.workspace / name
        if path.exists() and not path.is_symlink():
            yield from _bind(path, WORKSPACE / name)
