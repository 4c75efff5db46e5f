"""Measures of a Program's code: how much of it there is, of what kind, what it remembers, and their
change in a Run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from evopolicy.analysis.programs.bundle import (
    Bundle,
    children,
    nodes,
    read_bundle,
    readable,
    tokens,
)
from evopolicy.analysis.programs.mechanisms import find_mechanisms, reference
from evopolicy.analysis.records.columns import WHOSE, WHOSE_NAMES, typed
from evopolicy.analysis.records.frames import Column, Frames


@dataclass(frozen=True)
class CodeMeasures:
    """Of a source bundle. What needs a tree is counted in the modules that parse."""

    parsed: bool
    """Whether every module parses."""
    modules: int
    lines: int
    """All, blank ones and comments too."""
    tokens: int
    """Words and marks, without comments and layout."""
    functions: int
    """`def`s, methods and nested ones too; no lambdas."""
    classes: int
    branches: int
    """`if`, `elif`, conditional expressions, `if`s of comprehensions, cases of `match`."""
    loops: int
    """`for` and `while` statements."""
    comprehensions: int
    depth: int
    """Deepest nesting of `if`, `for`, `while`, `try` and `match` in each other; an `elif` is as
    deep as its `if`."""
    state: int
    """Attributes of `self` that methods assign or change in place, by class, and `global` and
    `nonlocal` names."""
    changing_state: int
    """Those of them that are changed outside `__init__`, `__post_init__` and `reset`: kept between
    calls of `act`."""
    imports: tuple[str, ...]
    """Top-level packages outside the Program."""
    mechanisms: tuple[str, ...]
    """Tags; see `mechanisms.MECHANISMS`."""


NUMBERS = (
    "modules", "lines", "tokens", "functions", "classes", "branches", "loops", "comprehensions", "depth", "state",
    "changing_state",
)  # fmt: skip
"""The fields of CodeMeasures that are counts."""

CODE_COLUMNS: tuple[Column, ...] = (
    *WHOSE,
    Column("submission", "int64", "0 for the Program the workspace began with"),
    Column("program", "string", "digest"),
    Column(
        "parsed",
        "boolean",
        "whether every module of its bundle parses; NA where its source is not there",
    ),
    *(Column(name, "Int64", "of the bundle; see code.CodeMeasures") for name in NUMBERS),
    Column("imports", "object", "tuple of top-level packages outside the Program"),
    Column("mechanisms", "object", "tuple of tags found in its trees"),
    *(
        Column(
            f"{name}_change", "Int64", "against the Submission before, of 1 against the beginning"
        )
        for name in NUMBERS
    ),
    Column("mechanisms_added", "object", "tuple of tags the one before did not have"),
    Column("mechanisms_removed", "object", "tuple of tags only the one before has"),
)


def measure_code(source: Mapping[str, str] | Bundle) -> CodeMeasures:
    """Measures of the bundle of a Program's source (text by path). Takes any text; never raises."""
    bundle = source if isinstance(source, Bundle) else read_bundle(source)
    trees = [module.tree for module in bundle.modules if module.tree is not None]
    found = [node for tree in trees for node in nodes(tree)]
    imports = tuple(
        sorted(set(_imports(found)) - {module.name.split(".")[0] for module in bundle.modules})
    )
    state, changing = _state(trees, found)
    return CodeMeasures(
        parsed=bundle.parsed,
        modules=len(bundle.modules),
        lines=sum(len(module.text.splitlines()) for module in bundle.modules),
        tokens=sum(len(tokens(module.text)) for module in bundle.modules),
        functions=_count(found, ast.FunctionDef, ast.AsyncFunctionDef),
        classes=_count(found, ast.ClassDef),
        branches=_count(found, ast.If, ast.IfExp, ast.match_case)
        + sum(len(node.ifs) for node in found if isinstance(node, ast.comprehension)),
        loops=_count(found, ast.For, ast.AsyncFor, ast.While),
        comprehensions=_count(found, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        depth=max(map(_depth, trees), default=0),
        state=state,
        changing_state=changing,
        imports=imports,
        mechanisms=find_mechanisms(trees, imports),
    )


def _count(found: list[ast.AST], *kinds: type[ast.AST]) -> int:
    return sum(isinstance(node, kinds) for node in found)


def _imports(found: list[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]


def _depth(tree: ast.Module) -> int:
    deepest = 0
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        block = isinstance(
            node, ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try | ast.TryStar | ast.Match
        )
        depth += block
        deepest = max(deepest, depth)
        chained = node.orelse if isinstance(node, ast.If) and len(node.orelse) == 1 else []
        for child in children(node):
            is_elif = isinstance(child, ast.If) and any(child is one for one in chained)
            stack.append((child, depth - 1 if is_elif else depth))
    return deepest


# --- state ----------------------------------------------------------------------------------------

_BEGINNINGS = ("__init__", "__post_init__", "reset")
_CHANGES = frozenset(
    [
        "append",
        "appendleft",
        "extend",
        "insert",
        "remove",
        "pop",
        "popleft",
        "popitem",
        "clear",
        "add",
        "discard",
        "update",
        "setdefault",
        "fill",
        "sort",
    ]
)


def _state(trees: list[ast.Module], found: list[ast.AST]) -> tuple[int, int]:
    """Names that hold state, and those of them that change after the beginning of an Episode."""
    kept: set[tuple[ast.AST, str]] = {
        (tree, name) for tree in trees for node in nodes(tree) for name in _declared(node)
    }
    changing = set(kept)
    for cls in found:
        for method in cls.body if isinstance(cls, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                names = {(cls, name) for name in _assigned(method)}
                kept |= names
                changing |= names if method.name not in _BEGINNINGS else set()
    return len(kept), len(changing)


def _declared(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global | ast.Nonlocal) else []


def _assigned(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Attributes of the method's first parameter that it assigns or changes in place."""
    first = [*method.args.posonlyargs, *method.args.args][:1]
    stack: list[ast.AST] = [*method.body] if first else []
    while stack:
        node = stack.pop()
        if isinstance(node, ast.ClassDef):
            continue
        stack.extend(children(node))
        changed: ast.AST | None = None
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed = node
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGES
        ):
            changed = node.func.value
        while isinstance(changed, ast.Subscript) or (
            isinstance(changed, ast.Attribute) and not _plain(changed)
        ):
            changed = changed.value
        if isinstance(changed, ast.Attribute):
            owner, _, name = reference(changed).partition(".")
            if owner == first[0].arg:
                yield name


def _plain(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name)


# --- along the Run --------------------------------------------------------------------------------


def code_frame(frames: Frames) -> pd.DataFrame:
    """CODE_COLUMNS: the code of the beginning (submission 0) and of every Submission, and how it
    changed."""
    programs = frames.programs[frames.programs["source"].map(readable).astype(bool)]
    names = [field.name for field in fields(CodeMeasures)]
    measures = pd.DataFrame(
        list(map(measure_code, programs["source"])), index=programs.index, columns=names
    )
    measured = (
        programs[["run", "program"]].join(measures).drop_duplicates(["run", "program"], keep="last")
    )
    first = frames.programs[frames.programs["initial"]].drop_duplicates("run").assign(submission=0)
    order = {run: place for place, run in enumerate(dict.fromkeys(frames.programs["run"]))}
    sent = frames.submissions[frames.submissions["run"].isin(list(order))]
    found = pd.concat([part[[*WHOSE_NAMES, "submission", "program"]] for part in (first, sent)])
    found = found.sort_values("run", key=lambda runs: runs.map(order), kind="stable")
    found = found.merge(measured, on=["run", "program"], how="left")
    before = found.groupby("run")[[*NUMBERS, "mechanisms"]].shift()
    changes = {f"{name}_change": found[name] - before[name] for name in NUMBERS}
    tags = list(zip(found["mechanisms"], before["mechanisms"], strict=True))
    found = found.assign(
        **changes,
        mechanisms_added=[_without(now, then) for now, then in tags],
        mechanisms_removed=[_without(then, now) for now, then in tags],
    )
    return typed(CODE_COLUMNS, found)


def _without(tags: Any, others: Any) -> tuple[str, ...] | None:
    """None where one of the two is not known."""
    known = isinstance(tags, tuple) and isinstance(others, tuple)
    return tuple(tag for tag in tags if tag not in others) if known else None
