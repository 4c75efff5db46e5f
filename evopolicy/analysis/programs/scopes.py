"""Which names of a bundle are its own, and where each is bound: a normal form forgets how these are
called."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evopolicy.analysis.programs.bundle import Bundle, children, import_base, nodes

Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Scope:
    """What one module, class, function or comprehension binds."""

    kind: str
    """'module', 'class', 'function' or 'comprehension'."""
    parent: Scope | None = None
    bound: dict[str, str | None] = field(default_factory=dict)
    """Name to the dotted origin it was imported from; None for the bundle's own."""
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    self_name: str = ""
    """The first parameter of a method."""
    _homes: dict[str, Scope | None] = field(default_factory=dict)

    def home(self, name: str) -> Scope | None:
        """The scope in which `name`, read here, is bound; None for a builtin."""
        if name not in self._homes:
            self._homes[name] = self._find(name)
        return self._homes[name]

    def _find(self, name: str) -> Scope | None:
        scope: Scope | None = self
        outermost = False
        while scope is not None:
            outermost = outermost or name in scope.globals
            hidden = scope.kind == "class" and scope is not self
            if name in scope.bound and (scope.kind == "module" or not (outermost or hidden)):
                return scope
            scope = scope.parent
        return None


def module_scope(path: str, tree: ast.Module) -> Scope:
    """The scope of a whole module, with what functions in it bind by `global`."""
    scope = Scope("module")
    fill(scope, tree.body, path)
    for node in nodes(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                scope.bound.setdefault(name, None)
    return scope


def function_scope(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, parent: Scope, path: str
) -> Scope:
    """The scope of a function: its parameters and what its body binds."""
    scope = Scope("function", parent)
    names = [argument.arg for argument in parameters(node.args)]
    scope.bound.update(dict.fromkeys(names))
    first = [*node.args.posonlyargs, *node.args.args][:1]
    if (
        parent.kind == "class"
        and first
        and not isinstance(node, ast.Lambda)
        and not _is_static(node)
    ):
        scope.self_name = first[0].arg
    fill(scope, [node.body] if isinstance(node, ast.Lambda) else node.body, path)
    return scope


def class_scope(node: ast.ClassDef, parent: Scope, path: str) -> Scope:
    """The scope of a class's body."""
    scope = Scope("class", parent)
    fill(scope, node.body, path)
    return scope


def comprehension_scope(generators: Iterable[ast.comprehension], parent: Scope) -> Scope:
    """The scope of a comprehension: what its generators bind."""
    scope = Scope("comprehension", parent)
    for generator in generators:
        scope.bound.update((node.id, None) for node in nodes(generator.target) if _stored(node))  # type: ignore[attr-defined]
    return scope


def parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Every parameter of a function, `*args` and `**kwargs` among them."""
    yield from (*arguments.posonlyargs, *arguments.args)
    yield from [arguments.vararg] if arguments.vararg else []
    yield from arguments.kwonlyargs
    yield from [arguments.kwarg] if arguments.kwarg else []


def own_attributes(bundle: Bundle) -> set[str]:
    """Names of attributes the bundle makes: what its classes define and what it stores on any
    object."""
    found: set[str] = set()
    for module in bundle.modules:
        for node in nodes(module.tree) if module.tree is not None else ():
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.ClassDef):
                found.update(class_scope(node, Scope("module"), module.path).bound)
    return found


# --- binding --------------------------------------------------------------------------------------


def fill(scope: Scope, body: Iterable[ast.AST], path: str) -> None:
    """Enter into `scope` what `body` binds in it; the insides of nested scopes are left to
    these."""
    stack: list[ast.AST] = [*body][::-1]
    while stack:
        node = stack.pop()
        _bind(scope, node, path)
        if isinstance(node, Comprehension):
            # Their targets are their own, but a walrus inside binds out here.
            inner = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            for generator in node.generators:
                inner += [generator.iter, *generator.ifs]
            stack.extend(inner)
        elif not isinstance(node, (*Definition, ast.Lambda)):
            stack.extend(children(node)[::-1])
    for name in scope.globals | scope.nonlocals:
        scope.bound.pop(name, None)


def _bind(scope: Scope, node: ast.AST, path: str) -> None:
    names: list[str | None] = []
    match node:
        case ast.Import() | ast.ImportFrom():
            for name, origin in origins(node, path):
                if scope.bound.get(name) is None:
                    scope.bound[name] = origin
        case ast.Global():
            scope.globals.update(node.names)
        case ast.Nonlocal():
            scope.nonlocals.update(node.names)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            names = [node.name]
        case ast.Name() if _stored(node):
            names = [node.id]
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            names = [node.name]
        case ast.MatchMapping():
            names = [node.rest]
    for bound in names:
        if bound is not None:
            scope.bound.setdefault(bound, None)


def origins(node: ast.Import | ast.ImportFrom, path: str) -> Iterator[tuple[str, str]]:
    """Each name an import binds, with the dotted name of what it is."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.split(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
        return
    base = import_base(path, node.level, node.module or "")
    for alias in node.names:
        if alias.name != "*":
            yield alias.asname or alias.name, f"{base}.{alias.name}".strip(".")


def _stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _is_static(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list
    )
