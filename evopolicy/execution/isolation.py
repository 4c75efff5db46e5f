"""Chooses an isolation level: the strongest that a probe proves by really running it; fails closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from evopolicy.execution import landlock, probe
from evopolicy.kernel.errors import ConfigError, IsolationError, did_you_mean
from evopolicy.kernel.ports import ISOLATIONS, Isolation

Asked = Literal["auto", "bubblewrap", "landlock", "none"]

_LANDLOCK_REMEDY = (
    "use a Linux kernel of 5.13 or newer with 'landlock' in /sys/kernel/security/lsm (boot with lsm=landlock,... where"
    " it is off), or, in a container, a seccomp profile that allows the landlock calls"
)
_BUBBLEWRAP_REMEDY = (
    "install the package 'bubblewrap'; in a container allow user namespaces; on Ubuntu 24.04 give bwrap an AppArmor"
    " profile with 'userns' or set kernel.apparmor_restrict_unprivileged_userns=0"
)


@dataclass(frozen=True)
class Probed:
    """What a probe of one level found by running it."""

    level: Isolation
    works: bool
    detail: str
    """What holds, or what is missing."""
    remedy: str = ""
    """How to get it."""


def choose(asked: Asked, allow_unisolated: bool) -> Isolation:
    """The level that will hold. Raises ConfigError for an unknown word, IsolationError where the level fails."""
    if asked not in ("auto", *ISOLATIONS):
        raise ConfigError(f"execution.isolation: '{asked}' is no level.{did_you_mean(asked, ('auto', *ISOLATIONS))}")
    if asked == "none":
        if not allow_unisolated:
            raise IsolationError(
                "execution.isolation=none lets a Policy read and change whatever you can; set"
                " execution.allow_unisolated=true if that is what you want"
            )
        return "none"
    tried = [probe_level(level) for level in (("bubblewrap", "landlock") if asked == "auto" else (asked,))]
    for found in tried:
        if found.works:
            return found.level
    reasons = "; ".join(f"{found.level}: {found.detail} ({found.remedy})" for found in tried)
    raise IsolationError(f"execution.isolation={asked} does not work on this machine: {reasons}")


def probe_all() -> list[Probed]:
    """Every level, strongest first, for a person who asks what works here."""
    return [probe_level(level) for level in ISOLATIONS]


@cache
def probe_level(level: Isolation) -> Probed:
    """Run `level` once, with a process that tries what it must not be able to do."""
    if level == "none":
        return Probed(level, True, "nothing is isolated")
    if level == "bubblewrap":
        return Probed(level, False, "this version does not build it", _BUBBLEWRAP_REMEDY)
    if not sys.platform.startswith("linux"):
        return Probed(level, False, f"it is a part of Linux, this is {sys.platform}", "run on Linux")
    if landlock.abi() == 0:
        return Probed(level, False, "the kernel has no Landlock, or it is switched off", _LANDLOCK_REMEDY)
    return _run_landlock()


def _run_landlock() -> Probed:
    path = os.pathsep.join(dict.fromkeys((str(Path(__file__).resolve().parents[2]), *filter(None, sys.path))))
    command = [sys.executable, "-m", "evopolicy.execution.probe", *map(str, probe_paths())]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": path}, check=False, cwd="/"
        )
        failed: list[str] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Probed("landlock", False, f"the probe could not be run: {error}", _LANDLOCK_REMEDY)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Probed("landlock", False, f"the probe could not be run: {last}", _LANDLOCK_REMEDY)
    if failed:
        return Probed("landlock", False, "; ".join(failed), _LANDLOCK_REMEDY)
    return Probed("landlock", True, f"Landlock ABI {landlock.abi()} with seccomp and resource limits")


def probe_paths() -> Sequence[Path]:
    """What the probe must not be able to read: this source and the process table."""
    return (Path(probe.__file__), Path("/proc/self/status"))
