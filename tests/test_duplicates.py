"""One rule, one implementation: no two functions hold statements of the same shape."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MOST_NODES = 28
"""The longest run of statements, in nodes of its syntax tree, that may stand in two functions: two
or three lines."""

ALLOWED: dict[frozenset[str], str] = {
    frozenset(
        {"evopolicy/authoring/spaces.py member_of", "evopolicy/execution/wire/codec.py _restorer"}
    ): (
        "one makes an Action of any value a Policy gave, the other an Observation of what we "
        "encoded: rules that differ in every leaf, and neither package imports the other"
    ),
}
"""Pairs that stay, with the reason."""


class Run(NamedTuple):
    """Consecutive statements of one function."""

    function: str
    first: int
    last: int
    nodes: int


def sources() -> Iterator[Path]:
    for pattern in (
        "evopolicy/**/*.py",
        "hydra_plugins/**/*.py",
        "scripts/**/*.py",
        "benchmarks/*/src/**/*.py",
    ):
        yield from (path for path in sorted(ROOT.glob(pattern)) if "programs" not in path.parts)


def shape(statement: ast.stmt) -> tuple[str, ...]:
    """The statement without its names, constants and texts; attributes stay, for they say what is
    done."""
    return tuple(
        f"{type(node).__name__}.{node.attr}"
        if isinstance(node, ast.Attribute)
        else type(node).__name__
        for node in ast.walk(statement)
    )


def functions(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those of a module and of its classes; one inside of another is part of it."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body)


def blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                documented = isinstance(block[0], ast.Expr) and isinstance(
                    block[0].value, ast.Constant
                )
                yield block[documented:]


def same_shapes(paths: Iterable[Path]) -> dict[tuple[tuple[str, ...], ...], list[Run]]:
    """Runs of statements of more than MOST_NODES nodes by their shape, where two or more functions
    have it."""
    found: dict[tuple[tuple[str, ...], ...], list[Run]] = defaultdict(list)
    for path in paths:
        for function in functions(ast.parse(path.read_text()).body):
            name = f"{path.relative_to(ROOT).as_posix()} {function.name}"
            for block in blocks(function):
                shapes = [shape(statement) for statement in block]
                sizes = [sum(part not in ("Load", "Store") for part in parts) for parts in shapes]
                for first in range(len(block)):
                    for end in range(first + 1, len(block) + 1):
                        if (nodes := sum(sizes[first:end])) > MOST_NODES:
                            last = block[end - 1].end_lineno or 0
                            found[tuple(shapes[first:end])].append(
                                Run(name, block[first].lineno, last, nodes)
                            )
                            break  # what is longer has this in it
    return {key: runs for key, runs in found.items() if len({run.function for run in runs}) > 1}


def test_nothing_is_implemented_twice() -> None:
    """A second implementation is moved to where both can use the first, or stands above with its
    reason."""
    twice = {
        frozenset(run.function for run in runs): runs for runs in same_shapes(sources()).values()
    }
    found = [
        " and ".join(f"{run.function} ({run.first} to {run.last})" for run in runs)
        for pair, runs in twice.items()
        if pair not in ALLOWED
    ]
    assert found == []
    assert set(ALLOWED) <= set(twice), "a pair that is allowed is none any more: take it out"
