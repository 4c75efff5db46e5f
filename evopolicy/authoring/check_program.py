"""The part of `check_benchmark` about the Programs a Benchmark ships."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from evopolicy.authoring.replay import run_program
from evopolicy.kernel.errors import EvoPolicyError
from evopolicy.kernel.files.program import capture
from evopolicy.kernel.ports.benchmark import Benchmark, EpisodeSpec

NEEDED = ("initial", "random")
ALLOWED = frozenset(sys.stdlib_module_names) | {"numpy", "scipy"}
_STEPS = 20


def check_programs(benchmark: Benchmark) -> Iterator[str]:
    """'initial' and 'random' are there; every Program is a tree that would be captured, imports
    only what a Policy may, and plays the first steps of an Episode."""
    for name in NEEDED:
        if name not in benchmark.programs:
            yield f"there is no Program '{name}'"
    for name, folder in benchmark.programs.items():
        faults = list(_tree_faults(folder))
        yield from (f"'{name}': {fault}" for fault in faults)
        if not faults:
            yield from (f"'{name}': {fault}" for fault in _run_faults(benchmark, folder))


def _tree_faults(folder: Path) -> Iterator[str]:
    try:
        program = capture(folder)
    except EvoPolicyError as error:
        yield str(error)
        return
    own = {name.partition("/")[0].removesuffix(".py") for name in program.files}
    for name, content in program.files.items():
        if name.endswith(".py"):
            yield from (f"{name}: {fault}" for fault in _source_faults(content, own))


def _source_faults(source: bytes, own: set[str]) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        yield f"it does not compile: {error}"
        return
    for node in ast.walk(tree):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [node.module]
        for module in modules:
            root = module.partition(".")[0]
            if root not in ALLOWED and root not in own:
                yield f"it imports '{module}'; a Policy has the standard library, numpy and scipy"


def _run_faults(benchmark: Benchmark, folder: Path) -> Iterator[str]:
    seed = 918_273_645_546_372_819
    episode = EpisodeSpec(0, seed, seed + 2, benchmark.plan("training", seed))
    try:
        run_program(benchmark, folder, episode, steps=_STEPS)
    except Exception as error:
        yield f"it fails in an Episode: {type(error).__name__}: {error}"
