"""What a record says of where it was made: versions of what was run, and the machine. No host name
and no path."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from evopolicy.kernel.ports.benchmark import Benchmark


def versions(benchmark: Benchmark, packages: Sequence[str] = ()) -> dict[str, str]:
    """Versions of what an outcome depends on.

    Python, evopolicy, the Benchmark's distribution, what those need directly, and the `packages` a
    Policy may import."""
    found = {"python": platform.python_version()}
    distribution = benchmark.reference.factory.partition(":")[0].partition(".")[0].replace("_", "-")
    for name in (
        "evopolicy",
        distribution,
        "numpy",
        "scipy",
        "gymnasium",
        "mujoco",
        *_requirements(distribution),
        *_providing(packages),
    ):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return dict(sorted(found.items()))


def _providing(packages: Sequence[str]) -> list[str]:
    """Distributions that the importable `packages` are of."""
    if set(packages) <= {"numpy", "scipy"}:
        return []
    known = metadata.packages_distributions()
    return [name for package in packages for name in known.get(package.partition(".")[0], ())]


def _requirements(distribution: str) -> list[str]:
    try:
        needs = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return []
    return [
        match[0]
        for need in needs
        if "extra ==" not in need and (match := re.match(r"[A-Za-z0-9_.-]+", need))
    ]


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """CPU model, cores this process may use, platform. No host name and no path."""
    model = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
            model,
        )
    return {
        "cpu": model,
        "cores": cores(),
        "platform": f"{platform.system()}-{platform.release()}-{platform.machine()}",
    }
