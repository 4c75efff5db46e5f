"""The part of `check_benchmark` about the Programs a Benchmark ships."""

from __future__ import annotations

import ast
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from evopolicy.authoring.replay import run_program
from evopolicy.kernel.benchmark import Benchmark, EpisodeSpec

NEEDED = ("initial", "random")
ALLOWED = frozenset(sys.stdlib_module_names) | {"numpy", "scipy"}
_FILES, _FILE_BYTES = 1_000, 16 * 2**20
_STEPS = 20


def check_programs(benchmark: Benchmark) -> Iterator[str]:
    """'initial' and 'random' are there; every Program is a tree that would be captured, imports only what a Policy
    may, and plays the first steps of an Episode."""
    for name in NEEDED:
        if name not in benchmark.programs:
            yield f"there is no Program '{name}'"
    for name, folder in benchmark.programs.items():
        faults = list(_tree_faults(folder))
        yield from (f"'{name}': {fault}" for fault in faults)
        if not faults:
            yield from (f"'{name}': {fault}" for fault in _run_faults(benchmark, folder))


def _tree_faults(folder: Path) -> Iterator[str]:
    if not (folder / "policy.py").is_file():
        yield f"{folder.name}/policy.py is missing"
        return
    files = [p for p in sorted(folder.rglob("*")) if "__pycache__" not in p.parts and p.suffix != ".pyc"]
    if len(files) > _FILES:
        yield f"it has {len(files)} files, at most {_FILES} are captured"
    names: set[str] = set()
    for path in files:
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            yield f"{name} is no regular file"
        elif path.is_file() and path.stat().st_size > _FILE_BYTES:
            yield f"{name} is larger than 16 MiB"
        if unicodedata.normalize("NFC", name) != name or "\\" in name or not name.isprintable():
            yield f"{name!r} is no portable name"
        if name.casefold() in names:
            yield f"{name} differs from another name only in case"
        names.add(name.casefold())
        if path.suffix == ".py" and path.is_file():
            yield from (f"{name}: {fault}" for fault in _source_faults(folder, path))


def _source_faults(folder: Path, path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        yield f"it does not compile: {error}"
        return
    own = {p.stem if p.is_file() else p.name for p in folder.iterdir()}
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
