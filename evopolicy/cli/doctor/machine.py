"""What doctor finds of the machine: Python, cores, memory, folders, and which isolation levels
hold."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from evopolicy.cli.doctor.finding import Finding, ask

_PYTHONS = ((3, 11), (3, 14))
"""The first that works, and the first that does not."""
_NEEDED = ("evopolicy", "gymnasium", "numpy", "scipy", "hydra-core", "mlflow", "pandas", "cma")
_OPTIONAL = {"mujoco": "install evopolicy-mujoco; only its Benchmarks need it"}
_GIB = 2**30
_LEAST_MEMORY = 2 * _GIB
"""What one Policy may use by default (execution.limits.memory_bytes)."""
_LEAST_DISK = _GIB
_USER_NAMESPACE = (
    "import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True);"
    " failed = libc.unshare(0x10000000) and ctypes.get_errno();"
    " sys.exit(os.strerror(failed) if failed else 0)"
)
"""CLONE_NEWUSER, which bubblewrap begins with where it is not root."""


# --- this machine ---------------------------------------------------------------------------------


def machine() -> Iterator[Finding]:
    """Python, packages, cores and memory."""
    here = f"{platform.python_version()} at {sys.executable}"
    fits = _PYTHONS[0] <= sys.version_info[:2] < _PYTHONS[1]
    yield Finding("Python", "ok" if fits else "warn", here, "use Python 3.11, 3.12 or 3.13")
    yield from packages()
    yield Finding(
        "system", "info", f"{platform.system()} {platform.release()} {platform.machine()}"
    )
    if kind := container():
        yield Finding("container", "info", f"this looks like a container ({kind})")
    yield from capacity()


def packages() -> Iterator[Finding]:
    """Versions in one line, and a line for each package that is not there."""
    found: list[str] = []
    missing: list[str] = []
    for package in (*_NEEDED, *_OPTIONAL):
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            missing.append(package)
    yield Finding("packages", "ok", ", ".join(found))
    for package in missing:
        remedy = _OPTIONAL.get(package, "install evopolicy again: it needs this package")
        yield Finding(package, "warn" if package in _OPTIONAL else "no", "is not installed", remedy)


def capacity(root: Path = Path("/")) -> Iterator[Finding]:
    """Cores and memory, as far as this process may use them."""
    from evopolicy.build import cores

    count = f"{cores()} of {os.cpu_count()}"
    quota = _quota(root)
    held = quota is not None and quota < cores()
    limit = f"; its control group gives it the time of {quota:.2g}" if held else ""
    remedy = (
        "set execution.workers and launcher.cells by that number, or raise the container's "
        "CPU limit"
    )
    yield Finding("cores", "warn" if held else "ok", f"{count} may be used{limit}", remedy)
    total, available = memory(root)
    if not total:
        yield Finding("memory", "info", "cannot be read here")
        return
    detail = f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB free"
    remedy = (
        "free some, or lower execution.limits.memory_bytes, execution.workers and launcher.cells"
    )
    if available < _LEAST_MEMORY:
        detail += f"; one Policy alone may use {_LEAST_MEMORY // _GIB} GiB"
    yield Finding("memory", "ok" if available >= _LEAST_MEMORY else "warn", detail, remedy)


def memory(root: Path = Path("/")) -> tuple[int, int]:
    """Bytes in all and free, within the limits of this process's control groups; (0, 0) where there
    is no /proc."""
    values = {}
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        values[name] = int(value.split()[0]) * 1024 if value.split() else 0
    total, available = values.get("MemTotal", 0), values.get("MemAvailable", 0)
    for group in _groups(root):
        limit, used = _read(group / "memory.max"), _read(group / "memory.current")
        if limit.isdigit() and int(limit) < total:
            total = int(limit)
            available = min(available, max(total - int(used or 0), 0))
    return total, available


def _quota(root: Path) -> float | None:
    """Cores whose time the control groups give; None for no limit."""
    shares = [_read(group / "cpu.max").split() for group in _groups(root)]
    limits = [
        int(share[0]) / int(share[1]) for share in shares if len(share) == 2 and share[0].isdigit()
    ]
    return min(limits, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """This process's control group (version 2) and those it lies in."""
    top = root / "sys/fs/cgroup"
    place = _read(root / "proc/self/cgroup").partition("0::/")[2].split("\n")[0]
    group = top / place if ".." not in place else top
    yield group
    while group != top:
        group = group.parent
        yield group


def container(root: Path = Path("/")) -> str:
    """What kind of container this looks like; '' for none. A guess from what container engines
    leave behind."""
    for mark, kind in ((".dockerenv", "Docker"), ("run/.containerenv", "Podman")):
        if (root / mark).exists():
            return kind
    for variable in _read(root / "proc/1/environ").split("\0"):
        if variable.startswith("container=") and len(variable) > len("container="):
            return variable.partition("=")[2]
    groups = _read(root / "proc/1/cgroup")
    return next(
        (
            word
            for word in ("docker", "kubepods", "containerd", "libpod", "lxc")
            if f"/{word}" in groups
        ),
        "",
    )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


# --- folders --------------------------------------------------------------------------------------


def folders(output: Path) -> Iterator[Finding]:
    """Where Policies scratch, where Runs are written."""
    yield _free(
        "temporary", Path(tempfile.gettempdir()), "free some, or name another one by TMPDIR"
    )
    shared = Path("/dev/shm")
    if shared.is_dir():
        yield Finding("/dev/shm", "info", f"{shutil.disk_usage(shared).free / _GIB:.1f} GiB free")
    else:
        yield Finding("/dev/shm", "info", "there is none")
    yield writable(output)


def _free(name: str, folder: Path, remedy: str) -> Finding:
    free = shutil.disk_usage(folder).free
    return Finding(
        name,
        "ok" if free >= _LEAST_DISK else "warn",
        f"{free / _GIB:.1f} GiB free in {folder}",
        remedy,
    )


def writable(output: Path) -> Finding:
    """Whether Runs can be written; nothing is made to find out that is not removed again."""
    remedy = "make it writable for you, or name another folder: output=FOLDER"
    place = output.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding("output", "no", f"'{output}' cannot be written ({error.strerror})", remedy)
    free = shutil.disk_usage(place).free
    detail = (
        f"'{output}' can be {'written' if place == output.absolute() else 'made'}, "
        f"{free / _GIB:.1f} GiB free"
    )
    return Finding(
        "output", "ok" if free >= _LEAST_DISK else "warn", detail, "free at least 1 GiB there"
    )


# --- isolation ------------------------------------------------------------------------------------


def isolation() -> Iterator[Finding]:
    """Each level by its probe, what stands in the way of the strongest, and what `auto` takes."""
    from evopolicy.execution.isolation import probe_agent, probe_all

    probed = [found for found in probe_all() if found.level != "none"]
    for found in probed:
        yield Finding(found.level, "ok" if found.works else "no", found.detail, found.remedy)
        if found.level == "bubblewrap" and found.works:
            agent = probe_agent()
            yield Finding("agents in it", "ok" if agent.works else "no", agent.detail, agent.remedy)
    yield from namespaces()
    works = [found.level for found in probed if found.works]
    if "landlock" in works:
        yield Finding(
            "landlock cannot",
            "info",
            "hide that a path exists, bound a scratch folder as a whole, give an agent a network "
            "of its own; an agent with a provider needs bubblewrap",
        )
    remedy = (
        "one of the levels above; for Programs you wrote yourself: execution=none "
        "execution.allow_unisolated=true"
    )
    yield Finding(
        AUTO,
        "ok" if works else "no",
        f"takes {works[0]}" if works else "no level holds here",
        remedy,
    )


AUTO = "auto"
"""Name of the finding that says whether a Run can be isolated."""


def namespaces(root: Path = Path("/")) -> Iterator[Finding]:
    """Whether user namespaces, which bubblewrap is made of, are let through. Nothing where this is
    no Linux."""
    if sys.platform != "linux":
        return
    from evopolicy.execution.isolation import (
        APPARMOR,
        APPARMOR_REMEDY,
        REFUSED,
        setting,
        switched_off,
    )

    sysctls = root / "proc/sys"
    answer = ask([sys.executable, "-I", "-c", _USER_NAMESPACE], 90.0)
    if answer.code == 0:
        yield Finding("user namespaces", "ok", "can be made")
    else:
        remedy = switched_off(sysctls) or REFUSED
        yield Finding("user namespaces", "no", f"cannot be made: {answer.last_word}", remedy)
    if setting(sysctls, APPARMOR) == "1":
        detail = "takes all rights from the user namespaces of programs it has no profile for"
        yield Finding("AppArmor", "warn", detail, APPARMOR_REMEDY)
