"""Benchmarks by name across all installed distributions, without importing an Environment."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from evopolicy.authoring.benchmark import GymnasiumBenchmark, Seen
from evopolicy.kernel.errors import ConfigError, ExecutionError, did_you_mean
from evopolicy.kernel.ports.benchmark import Benchmark
from evopolicy.kernel.values import Value

GROUP = "evopolicy.benchmarks"
SHIPPED = frozenset(
    "evopolicy" if name == "gymnasium" else f"evopolicy_{name}"
    for name in (
        "box2d",
        "classic_control",
        "gymnasium",
        "highway",
        "minigrid",
        "mujoco",
        "robotics",
        "toy_text",
    )
)
"""Packages of the families in `benchmarks/`: the Environments of any other are somebody else's
code."""


@dataclass(frozen=True)
class KnownBenchmark:
    """One name `benchmark=` takes."""

    name: str
    family: str
    """Name of the entry point it comes from."""
    factory: str
    """`module:function`."""
    task: str
    """What the factory is called with as `task`; '' where it makes one kind of Benchmark alone."""
    id: str = ""
    title: str = ""


def known_benchmarks() -> dict[str, KnownBenchmark]:
    """What is installed, by name: each task of an entry point that has `tasks`, else the entry
    point's own name.

    A distribution that cannot be imported is left out; `find_benchmark` says why when it is asked
    for a missing name."""
    return {name: known[0] for name, known in sorted(_survey()[0].items())}


def find_benchmark(
    name: str,
    parameters: Mapping[str, Any] | None = None,
    look: Callable[[str, Mapping[str, Any]], Any] | None = None,
) -> Benchmark:
    """The Benchmark called `name`, made with `parameters` (the keys of its factory, `task` left
    out).

    `look(function, arguments)` calls a function in a process of its own: with it no Environment
    that anybody may have written is made in this one, of `gymnasium` (its factory has an attribute
    `in_subprocess`) or of a family not ours.

    Raises ConfigError for an unknown or doubled name and for an unknown or missing parameter; what
    the factory itself refuses comes as it raises it."""
    known, broken = _survey()
    if name not in known:
        reasons = "".join(
            f" The family '{family}' cannot be loaded: {reason}."
            for family, reason in broken.items()
        )
        raise ConfigError(
            f"benchmark '{name}' is not installed.{did_you_mean(name, known)}{reasons}"
        )
    if len(known[name]) > 1:
        families = ", ".join(sorted(entry.factory for entry in known[name]))
        raise ConfigError(f"benchmark '{name}' is offered by {families}; uninstall all but one")
    (entry,) = known[name]
    arguments: dict[str, Any] = {
        **(parameters or {}),
        **({"task": entry.task} if entry.task else {}),
    }
    load = EntryPoint(entry.family, entry.factory, GROUP).load()
    _check_arguments(name, load, arguments)
    in_subprocess = getattr(load, "in_subprocess", None)
    if look is None or _package(entry.factory) in SHIPPED:
        made: Benchmark = (
            in_subprocess(look, **arguments) if look and in_subprocess else load(**arguments)
        )
        return made
    try:
        reference = {"factory": entry.factory, "parameters": arguments}
        seen = look("evopolicy.authoring.preflight:look_at_installed", reference)
    except ExecutionError as error:
        raise ConfigError(f"benchmark '{name}' cannot be looked at: {error}") from error
    benchmark: Benchmark = load(**arguments)
    if isinstance(benchmark, GymnasiumBenchmark):
        benchmark.seen = Seen.from_value(seen)
    return benchmark


def default_options(name: str) -> dict[str, Any]:
    """What a YAML of the installed Benchmark `name` would hold: its factory's parameters and their
    defaults.

    Raises ConfigError for an unknown name.
    """
    known = _survey()[0]
    if name not in known:
        raise ConfigError(f"benchmark '{name}' is not installed.{did_you_mean(name, known)}")
    entry = known[name][0]
    signature = inspect.signature(EntryPoint(entry.family, entry.factory, GROUP).load())
    plain = (type(None), bool, int, float, str, list, dict)
    given = {
        one.name: one.default
        for one in signature.parameters.values()
        if isinstance(one.default, plain)
    }
    return {"name": name, **{key: value for key, value in given.items() if key != "task"}}


def without_yaml(folders: Collection[str]) -> list[str]:
    """Names of those whose families' packages are neither ours nor in `folders`, those that ship
    YAML of their own.

    No package in `folders` is imported for them.
    """
    bare = {
        family
        for family, value in _installed(tuple(sys.path))
        if _package(value) not in {*SHIPPED, *folders}
    }
    return (
        sorted(name for name, known in known_benchmarks().items() if known.family in bare)
        if bare
        else []
    )


def _package(factory: str) -> str:
    return factory.partition(":")[0].partition(".")[0]


@cache
def _installed(_: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Name and value of every entry point; once for a `sys.path`, since each look reads what all
    distributions say."""
    return tuple((point.name, point.value) for point in entry_points(group=GROUP))


def _survey() -> tuple[dict[str, list[KnownBenchmark]], dict[str, str]]:
    """All names with what offers them, and why families are missing."""
    known: dict[str, list[KnownBenchmark]] = {}
    broken: dict[str, str] = {}
    # One distribution may be seen twice (its source tree and its installation): equal entries count
    # once.
    for family, value in sorted(set(_installed(tuple(sys.path)))):
        try:
            load = EntryPoint(family, value, GROUP).load()
            tasks: Mapping[str, Any] = getattr(load, "tasks", {})
            found = {slug: (slug, task) for slug, task in tasks.items()} or {family: ("", None)}
        except (
            Exception,
            SystemExit,
        ) as error:  # a foreign distribution may raise anything when imported
            broken[family] = f"{type(error).__name__}: {error}"
            continue
        for name, (task, profile) in found.items():
            entry = KnownBenchmark(
                name,
                family,
                value,
                task,
                str(getattr(profile, "id", "")),
                str(getattr(profile, "title", "")),
            )
            known.setdefault(name, []).append(entry)
    return known, broken


def _check_arguments(name: str, load: Callable[..., Any], arguments: Mapping[str, Value]) -> None:
    signature = inspect.signature(load)
    known = list(signature.parameters)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    for key in arguments:
        if key not in known and not open_ended:
            raise ConfigError(
                f"benchmark.{key} is not a parameter of "
                f"'{name}'.{did_you_mean(key, set(known) - {'task'})}"
            )
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise ConfigError(f"benchmark '{name}': {error}") from None
