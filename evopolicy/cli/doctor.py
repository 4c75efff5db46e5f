"""`evopolicy doctor`: what works on this machine, what is missing and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from evopolicy.cli.options import pairs
from evopolicy.cli.text import clean
from evopolicy.kernel.errors import EvoPolicyError

_PACKAGES = ("evopolicy", "gymnasium", "mujoco", "numpy", "scipy", "hydra-core", "mlflow", "cma")
_CONF_OVERRIDES = {"command": {"argv": [sys.executable]}}


@dataclass(frozen=True)
class Finding:
    name: str
    works: bool | None
    """None: worth knowing, neither good nor bad."""
    detail: str
    remedy: str = ""
    needed: bool = False
    """Nothing runs without it."""


def doctor(words: Sequence[str]) -> int:
    """Prints a line for each thing looked at. Exit code 1 where nothing can be run here."""
    pairs("doctor", words, ())
    broken = False
    for title, findings in (
        ("this machine", _machine()),
        ("isolation", _isolation()),
        ("rendering", _rendering()),
        ("Benchmarks", _benchmarks()),
        ("agents", _agents()),
    ):
        print(title)
        for finding in findings:
            _print(finding)
            broken = broken or (finding.needed and not finding.works)
    print("\nSomething that is needed is missing: see above." if broken else "\nEverything that is needed is here.")
    return 1 if broken else 0


def _print(finding: Finding) -> None:
    mark = {True: "ok", False: "--", None: "  "}[finding.works]
    print(f"  {mark} {finding.name:<14} {clean(finding.detail)}")
    if finding.remedy and not finding.works:
        print(f"     {'':<14} to get it: {clean(finding.remedy)}")


def _machine() -> Iterator[Finding]:
    yield Finding("Python", True, f"{platform.python_version()} at {sys.executable}")
    found = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {package}")
    yield Finding("packages", None, ", ".join(found))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("system", None, f"{platform.system()} {platform.release()} {platform.machine()}, {cores} cores")
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield Finding("disk", free > 1, f"{free:.0f} GiB free in the current folder", "free at least 1 GiB")


def _isolation() -> Iterator[Finding]:
    from evopolicy.execution.isolation import probe_all

    probed = [found for found in probe_all() if found.level != "none"]
    for found in probed:
        yield Finding(found.level, found.works, found.detail, found.remedy)
    best = next((found.level for found in probed if found.works), "")
    remedy = (
        "one of the levels above, or execution=none execution.allow_unisolated=true for Programs you wrote yourself"
    )
    yield Finding("auto", bool(best), f"takes {best}" if best else "no level works", remedy, needed=True)


def _rendering() -> Iterator[Finding]:
    from evopolicy.authoring.graphics import mujoco_gl

    try:
        metadata.version("mujoco")
    except metadata.PackageNotFoundError:
        yield Finding("MuJoCo", False, "is not installed", "install evopolicy-mujoco")
        return
    found = mujoco_gl()
    yield Finding(
        "MuJoCo",
        bool(found),
        f"draws by {found}" if found else "neither EGL nor OSMesa draws; only replays need it",
        "Debian: libegl1 libegl-mesa0 libgl1-mesa-dri, or libosmesa6; then nothing has to be set",
    )


def _benchmarks() -> Iterator[Finding]:
    from evopolicy.authoring.discovery import GROUP, known_benchmarks

    families: dict[str, list[str]] = {}
    for known in known_benchmarks().values():
        families.setdefault(known.family, []).append(known.name)
    for family, names in sorted(families.items()):
        yield Finding(family, True, ", ".join(names))
    for point in metadata.entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # foreign code
            yield Finding(point.name, False, f"cannot be loaded: {error}", f"install {point.module} again")
    if not families:
        yield Finding("none", False, "no Benchmark is installed", "install evopolicy-classic-control", needed=True)


def _agents() -> Iterator[Finding]:
    from evopolicy.agents import agent_names, load_agent
    from evopolicy.presets import option

    for name in agent_names():
        try:
            config = {**option("agent", name), **_CONF_OVERRIDES.get(name, {})}
        except EvoPolicyError:
            yield Finding(name, None, "of another distribution; its config says what it needs")
            continue
        try:
            versions = load_agent(name, config).probe()
            detail = ", ".join(f"{key} {value}" for key, value in versions.items())
            yield Finding(name, True, detail or "ready")
        except EvoPolicyError as error:
            yield Finding(name, None if name == "replay" else False, str(error))
