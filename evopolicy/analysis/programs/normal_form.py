"""The AST normal form of a Program: what two Programs share that differ in numbers, words and
layout only.

Kept: every statement and expression and their order, operators, `True`, `False`, `None`, short
strings, which module does what, and the names of what is not the bundle's own (builtins, imported
things, their attributes and keywords).

Stripped: numbers with their sign; strings and bytes that hold data (longer than DATA_CHARS, or
numbers only); docstrings, comments, annotations, layout; statements without effect (`pass`, bare
constants); import lines (an imported thing stands, by its full dotted name, where it is used); and
the names of what is the bundle's own, which are numbered as they appear: variables, parameters,
functions, classes, attributes, modules. The names of the Policy's interface (INTERFACE, dunders)
stay. `docs/diagnostics.md` lists pairs.

A bundle with a module that does not parse has the sequence of that module's words and marks there,
without comments and layout, numbers stripped."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from evopolicy.analysis.programs.bundle import Bundle, Module, read_bundle, tokens
from evopolicy.analysis.programs.scopes import (
    Comprehension,
    Scope,
    class_scope,
    comprehension_scope,
    function_scope,
    module_scope,
    own_attributes,
    parameters,
)

INTERFACE = frozenset({"make_policy", "Policy", "act", "reset"})
"""Names by which the Host finds a Policy: never forgotten."""
CONTEXT = frozenset({"observation_space", "action_space", "parameters", "seed", "max_steps"})
"""What a Policy reads off its context: on any object but `self` these are not the bundle's own."""
DATA_CHARS = 200
"""A longer string constant is data: a weight file, a map."""

_NUMBERS = re.compile(r"[0-9eE+\-.,;:\s\[\]()]+")
_Part: TypeAlias = "str | tuple[ast.AST, Scope]"
_SKIPPED = frozenset(
    {"ctx", "type_comment", "kind", "annotation", "returns", "type_params", "type_ignores"}
)


def topology(source: Mapping[str, str] | Bundle) -> str:
    """Digest of the normal form of a Program's source (text by path): `ast:` or, where a module
    does not parse, `text:`, and 64 hexadecimal digits. '' where there is no `policy.py`."""
    bundle = source if isinstance(source, Bundle) else read_bundle(source)
    if not bundle.modules:
        return ""
    digest = hashlib.sha256()
    for part in normal_form(bundle):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return f"{'ast' if bundle.parsed else 'text'}:{digest.hexdigest()}"


def normal_form(source: Mapping[str, str] | Bundle) -> list[str]:
    """The normal form itself, as a sequence of parts."""
    bundle = source if isinstance(source, Bundle) else read_bundle(source)
    writer = _Writer(bundle)
    for module in bundle.modules:
        writer.module(module)
    return writer.parts


class _Writer:
    """Writes a bundle's trees without recursion: a tree may be deeper than Python's stack."""

    def __init__(self, bundle: Bundle) -> None:
        self.parts: list[str] = []
        self._modules = {module.name: place for place, module in enumerate(bundle.modules)}
        self._scopes = {
            m.name: module_scope(m.path, m.tree) for m in bundle.modules if m.tree is not None
        }
        self._own = own_attributes(bundle) - INTERFACE
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._path = ""

    def module(self, module: Module) -> None:
        self.parts.append("module")
        self._path = module.path
        if module.tree is None:
            self.parts.extend(tokens(module.text, number="#"))
            return
        stack: list[_Part] = self._block(module.tree.body, self._scopes[module.name])[::-1]
        while stack:
            part = stack.pop()
            if isinstance(part, str):
                self.parts.append(part)
                continue
            node, scope = part
            stack.extend(_WRITERS.get(type(node), _Writer._any)(self, node, scope)[::-1])

    # --- names ---

    def _number(self, kind: str, *key: object) -> str:
        return f"{kind}{self._numbers.setdefault((kind, *key), len(self._numbers))}"

    def _name(self, name: str, scope: Scope) -> str:
        home = scope.home(name)
        if home is None:
            return f"={name}"
        origin = home.bound[name]
        if origin is not None:
            token, rest = self._origin(origin.split("."))
            return ".".join([token, *rest])
        if home.kind == "class":
            return self._attribute(name, own=True)
        if home.kind == "module" and name in INTERFACE:
            return f"={name}"
        return self._number("n", home, name)

    def _origin(self, parts: Sequence[str]) -> tuple[str, list[str]]:
        """What a dotted name stands for, and those of its parts that are attributes of that."""
        for _ in range(20):  # an own module may hand on what it imported itself
            length = next(
                (
                    n
                    for n in range(min(len(parts), 50), 0, -1)
                    if ".".join(parts[:n]) in self._modules
                ),
                0,
            )
            if not length:
                break
            name, rest = ".".join(parts[:length]), [*parts[length:]]
            scope = self._scopes.get(name)
            if not rest or scope is None or rest[0] not in scope.bound:
                return f"m{self._modules[name]}", rest
            origin = scope.bound[rest[0]]
            if origin is None:
                return self._name(rest[0], scope), rest[1:]
            parts = [*origin.split("."), *rest[1:]]
        return "=" + ".".join(parts), []

    def _attribute(self, name: str, own: bool) -> str:
        fixed = name in INTERFACE or (name.startswith("__") and name.endswith("__"))
        return self._number("a", name) if own and not fixed else f".{name}"

    def _keyword(self, callee: str, name: str) -> str:
        own = callee[:1] in ("n", "a")
        return self._number("k", callee, name) if own else f"{name}="

    # --- nodes ---

    def _any(self, node: ast.AST, scope: Scope) -> list[_Part]:
        parts: list[_Part] = [type(node).__name__, "("]
        for name, value in ast.iter_fields(node):
            if name not in _SKIPPED:
                parts.extend(self._value(value, scope))
        return [*parts, ")"]

    def _value(self, value: object, scope: Scope) -> list[_Part]:
        if isinstance(value, ast.AST):
            return [(value, scope)]
        if not isinstance(value, list):
            return ["-" if value is None else repr(value)]
        if value and isinstance(value[0], ast.stmt):
            return self._block(value, scope)
        return ["[", *(part for one in value for part in self._value(one, scope)), "]"]

    def _block(self, body: Sequence[ast.stmt], scope: Scope) -> list[_Part]:
        return ["{", *((node, scope) for node in body if not _without_effect(node, scope)), "}"]

    def _constant(self, node: ast.Constant, _: Scope) -> list[_Part]:
        value = node.value
        if isinstance(value, bool) or value is None or value is Ellipsis:
            return [repr(value)]
        if isinstance(value, str | bytes):
            return ["'#'" if _is_data(value) else repr(value)]
        return ["#"]

    def _signed(self, node: ast.UnaryOp, scope: Scope) -> list[_Part]:
        inner: ast.expr = node
        while isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.USub | ast.UAdd):
            inner = inner.operand
        number = isinstance(inner, ast.Constant) and type(inner.value) in (int, float, complex)
        return ["#"] if number and inner is not node else self._any(node, scope)

    def _variable(self, node: ast.Name, scope: Scope) -> list[_Part]:
        return [self._name(node.id, scope)]

    def _attribute_chain(self, node: ast.Attribute, scope: Scope) -> list[_Part]:
        names: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            names.append(base.attr)
            base = base.value
        return self._chain(base, names[::-1], scope)

    def _chain(self, base: ast.expr, names: list[str], scope: Scope) -> list[_Part]:
        if not isinstance(base, ast.Name):
            return [(base, scope), *self._attributes(names)]
        home = scope.home(base.id)
        if home is None:
            return [f"={base.id}", *(f".{name}" for name in names)]
        origin = home.bound[base.id]
        if origin is not None:
            token, rest = self._origin([*origin.split("."), *names])
            return [token, *self._attributes(rest)]
        first = (
            [self._attribute(names[0], own=True)]
            if home.self_name == base.id
            else self._attributes(names[:1])
        )
        return [self._name(base.id, scope), *first, *self._attributes(names[1:])]

    def _attributes(self, names: Sequence[str]) -> list[_Part]:
        return [
            self._attribute(name, own=name in self._own and name not in CONTEXT) for name in names
        ]

    def _call(self, node: ast.Call, scope: Scope) -> list[_Part]:
        callee = self._callee(node.func, scope)
        parts: list[_Part] = ["Call", "(", (node.func, scope), *((one, scope) for one in node.args)]
        for one in node.keywords:
            parts += [
                "**" if one.arg is None else self._keyword(callee, one.arg),
                (one.value, scope),
            ]
        return [*parts, ")"]

    def _callee(self, node: ast.expr, scope: Scope) -> str:
        if not isinstance(node, ast.Name | ast.Attribute):
            return ""
        last = (
            self._variable(node, scope)
            if isinstance(node, ast.Name)
            else self._attribute_chain(node, scope)
        )[-1]
        return last if isinstance(last, str) else ""

    def _annotated(self, node: ast.AnnAssign, scope: Scope) -> list[_Part]:
        if scope.kind != "class":
            return [
                "Assign",
                "(",
                "[",
                (node.target, scope),
                "]",
                *self._value(node.value, scope),
                ")",
            ]
        return ["Field", "(", (node.target, scope), *self._value(node.value, scope), ")"]

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> list[_Part]:
        inner = function_scope(node, scope, self._path)
        head: list[_Part] = [type(node).__name__, "(", self._name(node.name, scope)]
        decorators = self._value(node.decorator_list, scope)
        return [
            *head,
            *decorators,
            *self._arguments(node.args, scope, inner),
            *self._block(node.body, inner),
            ")",
        ]

    def _lambda(self, node: ast.Lambda, scope: Scope) -> list[_Part]:
        inner = function_scope(node, scope, self._path)
        return ["Lambda", "(", *self._arguments(node.args, scope, inner), (node.body, inner), ")"]

    def _arguments(self, node: ast.arguments, scope: Scope, inner: Scope) -> list[_Part]:
        shape = (
            len(node.posonlyargs),
            len(node.args),
            len(node.kwonlyargs),
            bool(node.vararg),
            bool(node.kwarg),
        )
        names = [self._name(one.arg, inner) for one in parameters(node)]
        defaults = self._value([*node.defaults, *node.kw_defaults], scope)
        return ["arguments", repr(shape), *names, *defaults]

    def _class(self, node: ast.ClassDef, scope: Scope) -> list[_Part]:
        inner = class_scope(node, scope, self._path)
        parts: list[_Part] = ["ClassDef", "(", self._name(node.name, scope)]
        for outer in (node.decorator_list, node.bases, node.keywords):
            parts.extend(self._value(outer, scope))
        return [*parts, *self._block(node.body, inner), ")"]

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> list[_Part]:
        inner = comprehension_scope(node.generators, scope)
        parts: list[_Part] = [type(node).__name__, "("]
        for place, one in enumerate(node.generators):
            parts += [
                repr(one.is_async),
                (one.iter, inner if place else scope),
                (one.target, inner),
            ]
            parts += self._value(one.ifs, inner)
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return [*parts, *((one, inner) for one in made), ")"]

    def _handler(self, node: ast.ExceptHandler, scope: Scope) -> list[_Part]:
        name = self._name(node.name, scope) if node.name else "-"
        return [
            "ExceptHandler",
            "(",
            *self._value(node.type, scope),
            name,
            *self._block(node.body, scope),
            ")",
        ]

    def _match_as(self, node: ast.MatchAs, scope: Scope) -> list[_Part]:
        name = self._name(node.name, scope) if node.name else "-"
        return ["MatchAs", "(", *self._value(node.pattern, scope), name, ")"]

    def _match_star(self, node: ast.MatchStar, scope: Scope) -> list[_Part]:
        return ["MatchStar", "(", self._name(node.name, scope) if node.name else "-", ")"]

    def _match_mapping(self, node: ast.MatchMapping, scope: Scope) -> list[_Part]:
        rest = self._name(node.rest, scope) if node.rest else "-"
        return [
            "MatchMapping",
            "(",
            *self._value(node.keys, scope),
            *self._value(node.patterns, scope),
            rest,
            ")",
        ]

    def _match_class(self, node: ast.MatchClass, scope: Scope) -> list[_Part]:
        parts: list[_Part] = [
            "MatchClass",
            "(",
            (node.cls, scope),
            *self._value(node.patterns, scope),
        ]
        return [
            *parts,
            *self._attributes(node.kwd_attrs),
            *self._value(node.kwd_patterns, scope),
            ")",
        ]


_WRITERS: Mapping[type[ast.AST], Callable[[_Writer, Any, Scope], list[_Part]]] = {
    ast.Constant: _Writer._constant,
    ast.UnaryOp: _Writer._signed,
    ast.Name: _Writer._variable,
    ast.Attribute: _Writer._attribute_chain,
    ast.Call: _Writer._call,
    ast.AnnAssign: _Writer._annotated,
    ast.FunctionDef: _Writer._function,
    ast.AsyncFunctionDef: _Writer._function,
    ast.Lambda: _Writer._lambda,
    ast.ClassDef: _Writer._class,
    **dict.fromkeys(Comprehension, _Writer._comprehension),
    ast.ExceptHandler: _Writer._handler,
    ast.MatchAs: _Writer._match_as,
    ast.MatchStar: _Writer._match_star,
    ast.MatchMapping: _Writer._match_mapping,
    ast.MatchClass: _Writer._match_class,
}


def _without_effect(node: ast.stmt, scope: Scope) -> bool:
    match node:
        case (
            ast.Pass()
            | ast.Global()
            | ast.Nonlocal()
            | ast.Import()
            | ast.Expr(value=ast.Constant())
        ):
            return True
        case ast.ImportFrom():
            return all(alias.name != "*" for alias in node.names)
        case ast.AnnAssign(value=None):
            return scope.kind != "class"
    return False


def _is_data(value: str | bytes) -> bool:
    if len(value) > DATA_CHARS:
        return True
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return _NUMBERS.fullmatch(text) is not None and any(character.isdigit() for character in text)
