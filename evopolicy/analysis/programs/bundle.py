"""The source bundle of a Program: `policy.py` and the Program's own modules it reaches by import,
and how two differ.

Everything here takes sources as agents wrote them: none raises, and time and memory are bounded.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

ROOT = "policy.py"
PARSE_CHARS = 400_000
"""Characters of a bundle that are parsed; modules past them are taken as text, for trees are
large."""
_DIFF_CELLS = 4_000_000_000
"""Length times length up to which a difference is exact; above, order is left out of account."""


@dataclass(frozen=True)
class Module:
    """One module of a bundle."""

    path: str
    """In the Program, with slashes."""
    text: str
    tree: ast.Module | None
    """None where it does not parse, or is too large to."""

    @property
    def name(self) -> str:
        """As an import names it: `a.b` for a/b.py and a/b/__init__.py."""
        return dotted(self.path)


@dataclass(frozen=True)
class Bundle:
    """`policy.py` first, then each own module as it is reached; empty where there is no
    `policy.py`."""

    modules: tuple[Module, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over paths and texts."""
        digest = hashlib.sha256()
        for module in self.modules:
            for part in (module.path, module.text):
                content = part.encode("utf-8", "surrogatepass")
                digest.update(len(content).to_bytes(8, "big") + content)
        return digest.hexdigest()

    @property
    def parsed(self) -> bool:
        return all(module.tree is not None for module in self.modules)


def readable(source: object) -> bool:
    """Whether a Program's source, as the frame `programs` has it, holds a bundle."""
    return isinstance(source, Mapping) and ROOT in source


def read_bundle(source: Mapping[str, str]) -> Bundle:
    """The bundle of a Program whose Python modules are `source`, text by path.

    Imports are followed statically: every `import` and `from` statement wherever it stands, and
    `import_module` or `__import__` of a literal name. A module that does not parse is searched for
    import lines instead."""
    own = {dotted(path): path for path in sorted(source) if path.endswith(".py")}
    modules: dict[str, Module] = {}
    waiting, room = [ROOT] if ROOT in source else [], PARSE_CHARS
    while waiting:
        path = waiting.pop(0)
        if path in modules:
            continue
        text = source[path]
        tree = parse(text) if len(text) <= room else None
        room -= len(text) if tree is not None else 0
        modules[path] = module = Module(path, text, tree)
        waiting.extend(dict.fromkeys(own[name] for name in _imported(module) if name in own))
    return Bundle(tuple(modules.values()))


def dotted(path: str) -> str:
    """`a.b` for a/b.py and a/b/__init__.py."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def parse(text: str) -> ast.Module | None:
    """The tree of `text`; None where Python cannot make one of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


_LEAVES: frozenset[type] = frozenset(
    {ast.Constant}.union(
        *(
            k.__subclasses__()
            for k in (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
        )
    )
)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes below `node`, in their order, without constants, operators and contexts: of these
    there are many."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [one for one in value if isinstance(one, ast.AST) and type(one) not in _LEAVES]
        elif type(value) not in _LEAVES and isinstance(value, ast.AST):
            found.append(value)
    return found


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """`tree` and every node `children` gives below it, each before those below it, in the order of
    the source."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node)[::-1])


# --- imports --------------------------------------------------------------------------------------

_IMPORT_LINE = re.compile(
    r"^[ \t]*+(?:from[ \t]++(\.*+)([\w.]*+)[ \t]++import[ \t]+([^\n#]*)|import[ \t]+([^\n#]*))",
    re.M,
)
_NAME = re.compile(r"[\w.]+")


def _imported(module: Module) -> Iterator[str]:
    """Dotted names that may be modules, each with the packages above it."""
    tree = module.tree
    for name in _tree_imports(module.path, tree) if tree is not None else _text_imports(module):
        parts = name.split(".")
        yield from (".".join(parts[:count]) for count in range(1, min(len(parts), 50) + 1))


def _tree_imports(path: str, tree: ast.Module) -> Iterator[str]:
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = import_base(path, node.level, node.module or "")
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)
            yield base
        elif (
            isinstance(node, ast.Call)
            and node.args
            and _called(node.func) in ("import_module", "__import__")
        ):
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def _called(node: ast.expr) -> str:
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def _text_imports(module: Module) -> Iterator[str]:
    for match in _IMPORT_LINE.finditer(module.text):
        if match[4] is not None:
            yield from _NAME.findall(match[4])
        else:
            base = import_base(module.path, len(match[1]), match[2])
            yield base
            yield from (f"{base}.{name}".strip(".") for name in _NAME.findall(match[3]))


def import_base(path: str, level: int, name: str) -> str:
    """The module that `from` names in the module at `path`: `level` dots before `name`."""
    if not level:
        return name
    package = path.split("/")[:-1]
    kept = package[: len(package) - (level - 1)] if level > 1 else package
    return ".".join([*kept, *([name] if name else [])])


# --- differences ----------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<space>[ \t\f\r\n]+|\#[^\n]*|\\\n)
    |(?P<string>[rbfuRBFU]{0,2}(?:
        \"\"\"(?s:\\.|[^\\])*?(?:\"\"\"|\Z)|'''(?s:\\.|[^\\])*?(?:'''|\Z)
        |"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?))
    |(?P<number>(?:\d[\w.]*+(?:(?<=[eE])[+-]?\d[\w.]*+)?|\.\d[\w.]*+(?:(?<=[eE])[+-]?\d[\w.]*+)?))
    |(?P<name>\w+)
    |(?P<mark>\*\*=?|//=?|>>=?|<<=?|->|:=|[-+*/%&|^@<>=!]=|.)""",
    re.X | re.S,
)


def tokens(text: str, number: str | None = None) -> list[str]:
    """The words and marks of Python-like `text` without layout and comments; any text has some.

    Args:
        number: what stands for every number, if anything.
    """
    return [
        number if number is not None and match.lastgroup == "number" else match[0]
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]


@dataclass(frozen=True)
class Difference:
    """How much of a text is new, and how much of the one before is gone."""

    added: int
    removed: int
    share: float
    """(added + removed) / (length before + length after): 0 for equal ones, 1 where nothing is
    left."""


def difference(before: Sequence[Hashable], after: Sequence[Hashable]) -> Difference:
    """The smallest number of items to take out and to put in that turns `before` into `after`.

    Exact (by the longest common subsequence) up to about 60,000 items each; above that items are
    compared as a bag."""
    total = len(before) + len(after)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    exact = len(old) * len(new) <= _DIFF_CELLS
    common = _common(old, new) if exact else (Counter(old) & Counter(new)).total()
    added, removed = len(new) - common, len(old) - common
    return Difference(added, removed, (added + removed) / total if total else 0.0)


def _common(old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence (bit-parallel; Hyyro 2004, "Bit-parallel LCS-length
    computation")."""
    places: dict[Hashable, int] = {}
    for place, item in enumerate(old):
        places[item] = places.get(item, 0) | (1 << place)
    full = (1 << len(old)) - 1
    row = full
    for item in new:
        met = row & places.get(item, 0)
        row = ((row + met) | (row - met)) & full
    return len(old) - row.bit_count()
