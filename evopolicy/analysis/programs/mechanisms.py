"""Signs of mechanisms in a Program's trees: hints for a reader and for counts over many Programs,
never proof.

A tag is given for a word in a name the bundle itself defines or assigns, or for a shape in its
tree; `MECHANISMS` says which."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evopolicy.analysis.programs.bundle import children, nodes

MECHANISMS: Mapping[str, str] = {
    "planner": "names such as plan, mpc, rollout, lookahead, horizon",
    "search": "names such as bfs, astar, dijkstra, mcts; or a while loop that takes from and adds "
    "to one collection",
    "filter": "names such as kalman, filter, ema, smooth, belief; or a value blended with its own "
    "past: x = a*x + b*y",
    "state_machine": "names such as fsm; or one attribute set to, and compared with, two or more "
    "constants",
    "table": "names such as table, lookup; or a literal of TABLE_ENTRIES constants or more",
    "controller": "names such as pid, lqr, kp, gain; or a sum of two or more terms that are each "
    "multiplied by a gain",
    "network": "imports such as torch; names such as mlp, relu; or matrix products beside an "
    "activation function",
}
"""Each tag and what it is given for, in the order they are listed in."""

TABLE_ENTRIES = 16

_WORDS: Mapping[str, frozenset[str]] = {
    "planner": frozenset(
        {
            "plan",
            "plans",
            "planner",
            "planning",
            "replan",
            "mpc",
            "rollout",
            "rollouts",
            "lookahead",
            "horizon",
            "cem",
        }
    ),
    "search": frozenset(
        {"search", "bfs", "dfs", "astar", "a_star", "dijkstra", "mcts", "beam", "frontier"}
    ),
    "filter": frozenset(
        {
            "kalman",
            "filter",
            "filtered",
            "ema",
            "smooth",
            "smoothed",
            "smoothing",
            "lowpass",
            "particles",
            "belief",
        }
    ),
    "state_machine": frozenset(("fsm", "state_machine", "statemachine")),
    "table": frozenset({"table", "tables", "lookup", "lut"}),
    "controller": frozenset({"pid", "pd", "lqr", "controller", "kp", "kd", "ki", "gain", "gains"}),
    "network": frozenset({"mlp", "relu", "softmax", "neural", "layer", "layers", "neurons"}),
}
_NETWORK_IMPORTS = frozenset(
    {"torch", "tensorflow", "jax", "keras", "flax", "onnxruntime", "sklearn", "tinygrad"}
)
_TAKES, _ADDS = (
    frozenset({"pop", "popleft", "heappop", "popitem"}),
    frozenset(["append", "appendleft", "heappush", "extend"]),
)
_PRODUCTS = frozenset({"dot", "matmul", "einsum"})
_ACTIVATIONS = frozenset({"tanh", "relu", "sigmoid", "softmax", "gelu", "softplus"})


def find_mechanisms(trees: Sequence[ast.Module], imports: Iterable[str]) -> tuple[str, ...]:
    """Tags of the bundle with `trees` that imports the outside packages `imports`, in the order of
    MECHANISMS."""
    names = {word for tree in trees for word in _names(tree)}
    found = {tag for tag, words in _WORDS.items() if words & names}
    if _NETWORK_IMPORTS & set(imports):
        found.add("network")
    for tree in trees:
        found.update(_shapes(tree))
    return tuple(tag for tag in MECHANISMS if tag in found)


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _names(tree: ast.Module) -> Iterator[str]:
    """Whole names and words of what the tree defines and assigns, in lower case."""
    for node in nodes(tree):
        name = ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        if name:
            snake = _CAMEL.sub("_", name).lower().strip("_")
            yield snake
            yield from snake.split("_")


def _shapes(tree: ast.Module) -> Iterator[str]:
    inner: set[int] = set()
    calls: set[str] = set()
    assigned: dict[str, set[str]] = defaultdict(set)
    compared: dict[str, set[str]] = defaultdict(set)
    for node in nodes(tree):
        match node:
            case ast.While():
                if _worklist(node):
                    yield "search"
            case ast.Assign() | ast.AugAssign():
                if _blends(node):
                    inner.add(id(node.value))
                    yield "filter"
                elif isinstance(node, ast.Assign):
                    _note(assigned, node.targets, [node.value])
            case ast.Compare():
                _note(compared, [node.left], node.comparators)
            case ast.Match():
                _note(
                    compared,
                    [node.subject],
                    [c.pattern.value for c in node.cases if _is_value(c.pattern)],
                )  # type: ignore[attr-defined]
            case ast.BinOp():
                if isinstance(node.op, ast.MatMult):
                    calls.add("matmul")
                elif id(node) not in inner and _weighted_terms(node, inner) > 1:
                    yield "controller"
            case ast.Dict() | ast.List() | ast.Tuple() | ast.Set():
                if _entries(node) >= TABLE_ENTRIES:
                    yield "table"
            case ast.Call():
                calls.add(reference(node.func).rpartition(".")[2])
    if calls & _PRODUCTS and calls & _ACTIVATIONS:
        yield "network"
    if any(
        len(values) > 1 and len(compared.get(name, ())) > 1 for name, values in assigned.items()
    ):
        yield "state_machine"


def reference(node: ast.AST) -> str:
    """`a.b.c` for a name or a chain of attributes of one; '' for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *names[::-1]]) if isinstance(node, ast.Name) else ""


# --- shapes ---------------------------------------------------------------------------------------


def _worklist(loop: ast.While) -> bool:
    taken: set[str] = set()
    added: set[str] = set()
    for node in nodes(loop):
        if isinstance(node, ast.Call):
            owner, _, verb = reference(node.func).rpartition(".")
            target = (
                reference(node.args[0]) if verb in ("heappop", "heappush") and node.args else owner
            )
            for verbs, found in ((_TAKES, taken), (_ADDS, added)):
                if verb in verbs and target:
                    found.add(target)
    return bool(taken & added)


def _blends(node: ast.Assign | ast.AugAssign) -> bool:
    """`x = a * x + b * y` or `x += a * (y - x)`, whatever is around them."""
    target = reference(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    value = node.value
    if not target or not isinstance(value, ast.BinOp):
        return False
    if isinstance(node, ast.AugAssign):
        return (
            isinstance(node.op, ast.Add)
            and isinstance(value.op, ast.Mult)
            and _mentions(value, target)
        )
    sides = [
        side
        for side in (value.left, value.right)
        if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult)
    ]
    return isinstance(value.op, ast.Add) and any(_mentions(side, target) for side in sides)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(one, ast.Name | ast.Attribute) and reference(one) == name for one in nodes(node)
    )


def _note(
    found: dict[str, set[str]], places: Iterable[ast.expr], values: Iterable[ast.expr]
) -> None:
    """Enter the constants among `values` for each attribute among `places`."""
    names = [name for name in map(reference, places) if "." in name]
    for value in values if names else ():
        constants = value.elts if isinstance(value, ast.Tuple | ast.List | ast.Set) else [value]
        for name in names:
            found[name].update(filter(None, map(_constant, constants)))


def _constant(node: ast.expr) -> str:
    """The constant `node` is: a literal, or a name in capitals; '' for anything else."""
    if isinstance(node, ast.Constant):
        return (
            repr(node.value)
            if isinstance(node.value, str | int) and not isinstance(node.value, bool)
            else ""
        )
    name = reference(node)
    return name if name.rpartition(".")[2].isupper() else ""


def _is_value(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchValue)


def _weighted_terms(node: ast.BinOp, inner: set[int]) -> int:
    """Terms of the sum at `node` with a gain among their factors; the sums inside it are entered
    into `inner`."""
    count = 0
    stack: list[ast.expr] = [node]
    while stack:
        term = stack.pop()
        if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Add | ast.Sub):
            inner.add(id(term))
            stack += [term.left, term.right]
        elif isinstance(term, ast.UnaryOp):
            stack.append(term.operand)
        elif isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
            count += _is_gain(term.left) != _is_gain(term.right)
    return count


def _is_gain(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Subscript):
        name = reference(node.value)
        return name.isupper() or name.startswith("self.")
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    name = reference(node)
    return name.startswith("self.") or name.rpartition(".")[2].isupper()


def _entries(node: ast.AST) -> int:
    """Constants in a literal and in the literals inside it."""
    count = 0
    stack = [node]
    while stack:
        one = stack.pop()
        held = one.values if isinstance(one, ast.Dict) else getattr(one, "elts", [])
        for value in held:
            if isinstance(value, ast.Constant) or (
                isinstance(value, ast.UnaryOp) and not children(value)
            ):
                count += 1
            elif isinstance(value, ast.Dict | ast.List | ast.Tuple | ast.Set):
                stack.append(value)
    return count
