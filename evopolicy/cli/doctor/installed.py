"""What doctor finds installed: drawing, Benchmarks, agents, coding agents' CLIs, and the MLflow
store."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from evopolicy.cli.doctor.finding import Finding, ask
from evopolicy.kernel.errors import EvoPolicyError

# --- drawing --------------------------------------------------------------------------------------

_DEBIAN = {
    "egl": "Debian: apt install libegl1 libegl-mesa0 libgl1-mesa-dri",
    "osmesa": "Debian: apt install libosmesa6",
}


def rendering() -> Iterator[Finding]:
    """Which OpenGL draws MuJoCo without a screen, by drawing a picture with each."""
    from evopolicy.authoring.graphics import draws

    try:
        metadata.version("mujoco")
    except metadata.PackageNotFoundError:
        yield Finding("MuJoCo", "info", "is not installed, so there is nothing to draw with OpenGL")
        return
    with ThreadPoolExecutor() as at_once:
        found = dict(zip(_DEBIAN, at_once.map(draws, _DEBIAN), strict=True))
    for name, title in (("egl", "EGL"), ("osmesa", "OSMesa")):
        if found[name]:
            yield Finding(title, "ok", "draws")
        elif any(found.values()):
            yield Finding(
                title,
                "info",
                f"does not draw, and need not: one of the two is enough ({_DEBIAN[name]})",
            )
        else:
            yield Finding(
                title,
                "no",
                "does not draw; only pictures of MuJoCo's Benchmarks need it",
                _DEBIAN[name],
            )


# --- Benchmarks -----------------------------------------------------------------------------------

_BENCHMARK_SECONDS = 120.0


def benchmarks() -> Iterator[Finding]:
    """Every installed distribution: what it offers, and whether an Environment of it starts."""
    from evopolicy.authoring.discovery import GROUP

    points = sorted({(point.name, point.value) for point in metadata.entry_points(group=GROUP)})
    if not points:
        yield Finding(
            "none", "no", "no Benchmark is installed", "install evopolicy-classic-control"
        )
    with ThreadPoolExecutor() as at_once:
        yield from at_once.map(lambda point: _benchmark(*point), points)


def _benchmark(family: str, value: str) -> Finding:
    code = (
        "import sys; from evopolicy.cli.doctor.installed import try_benchmark; "
        "try_benchmark(*sys.argv[1:])"
    )
    answer = ask([sys.executable, "-c", code, family, value], _BENCHMARK_SECONDS)
    if answer.code == 0:
        return Finding(family, "ok", answer.out.strip().splitlines()[-1])
    return Finding(
        family,
        "no",
        f"cannot be used: {answer.last_word}",
        f"install {value.partition(':')[0]} again",
    )


def try_benchmark(family: str, value: str) -> None:
    """Load the entry point, reset an Environment of its first task, print the names it offers."""
    from evopolicy.authoring.discovery import GROUP
    from evopolicy.cells import load_benchmark
    from evopolicy.kernel.ports.benchmark import EpisodeSpec
    from evopolicy.presets import option

    load = metadata.EntryPoint(family, value, GROUP).load()
    names = sorted(getattr(load, "tasks", {}))
    if names:
        benchmark = load_benchmark(option("benchmark", names[0]))
        environment = benchmark.make(EpisodeSpec(0, 0, 0, benchmark.plan("training", 0)))
        try:
            environment.reset()
        finally:
            environment.close()
    print(", ".join(names) or "loads; benchmark.env_id says which task")


# --- agents ---------------------------------------------------------------------------------------

_MODEL = {"model": "any", "base_url": "http://127.0.0.1:9/v1"}
_SETTINGS: dict[str, dict[str, Any]] = {
    "command": {"argv": [sys.executable]},
    "chat": _MODEL,
    "opencode": _MODEL,
}
"""What an integration cannot be asked without."""


def agents() -> Iterator[Finding]:
    """Every integration that needs no program of a provider's, by its own probe."""
    yield from _probed(coding=False)


def clis() -> Iterator[Finding]:
    """Every coding agent, by its program's version: with the command that installs or mends it
    where there is none."""
    yield from _probed(coding=True)


def _probed(*, coding: bool) -> Iterator[Finding]:
    from evopolicy.agents import agent_names, config_class
    from evopolicy.agents.coding.cli import CodingConfig

    names = [
        name for name in agent_names() if issubclass(config_class(name), CodingConfig) is coding
    ]
    with ThreadPoolExecutor() as at_once:
        yield from at_once.map(probed, names)


def probed(name: str, **options: object) -> Finding:
    """The integration `name` with its shipped config and `options`, asked what it finds here."""
    from evopolicy.agents import load_agent
    from evopolicy.presets import option

    try:
        config = {**option("agent", name), **_SETTINGS.get(name, {}), **options}
    except EvoPolicyError:
        return Finding(name, "info", "of another distribution; its config says what it needs")
    try:
        versions = load_agent(name, config).probe()
    except EvoPolicyError as error:
        said = str(error)
        remedy = re.search(r"`([^`]+)`", said)
        if remedy:  # told once, as what to do
            said = said.replace(remedy[0], "the command below", 1)
        return Finding(
            name, "info" if name == "replay" else "no", said, remedy[1] if remedy else ""
        )
    return Finding(
        name, "ok", ", ".join(f"{key} {value}" for key, value in versions.items()) or "ready"
    )


# --- tracking -------------------------------------------------------------------------------------

_STORE_SECONDS = 90.0
_REACH = (
    "import json, sys; from pathlib import Path; from evopolicy.kernel.errors import "
    "EvoPolicyError; from evopolicy.tracking.store import Tracking, reach\n"
    "told = json.load(sys.stdin)\n"
    "try: reach(Tracking(told['uri']), Path(told['output']))\n"
    "except EvoPolicyError as error: sys.exit(str(error))"
)


def tracking(output: Path, uri: str) -> Iterator[Finding]:
    """Whether the MLflow store answers; a database of our own that is not there yet is made by the
    first Run."""
    from evopolicy.kernel.secrecy.secrets import mask_uri
    from evopolicy.tracking.store import Tracking, resolve_uri

    place = mask_uri(resolve_uri(Tracking(uri), output))
    if not uri and not (output / "mlflow.db").exists():
        yield Finding("MLflow", "ok", f"the first Run will make {place}")
        return
    # By standard input: a URI may hold a password, and arguments can be seen by everyone.
    answer = ask(
        [sys.executable, "-c", _REACH],
        _STORE_SECONDS,
        told=json.dumps({"uri": uri, "output": str(output)}),
    )
    if answer.code == 0:
        yield Finding("MLflow", "ok", f"answers at {place}")
    else:
        remedy = (
            "start that server, or name another one: tracking.uri=; a Run goes on without, "
            "tracking=off"
        )
        if not uri:
            command = shlex.join(["evopolicy", "track", f"source={output}"])
            remedy = f"delete it; `{command}` makes it anew from the records"
        yield Finding("MLflow", "warn", f"{place} does not answer: {answer.last_word}", remedy)
