"""The AST normal form: which Programs are one topology, and which are not."""

from __future__ import annotations

import ast
import random
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicy.analysis.programs.bundle import Bundle, difference, read_bundle, tokens
from evopolicy.analysis.programs.normal_form import DATA_CHARS, normal_form, topology


def of(text: str, **modules: str) -> str:
    source = {"policy.py": dedent(text)} | {
        f"{name.replace('__', '/')}.py": dedent(t) for name, t in modules.items()
    }
    return topology(source)


EQUAL = {
    "numbers": ("x = 0.5 * obs[0] + 3", "x = 2 * obs[7] + 1e-9"),
    "the sign of a number": ("x = -0.5", "x = 0.25"),
    "complex numbers and bases": ("x = 0x1F + 2j", "x = 1 + 5j"),
    "layout, quotes and brackets": ("x = ('a',\n     (1))", 'x = "a", 1'),
    "comments": ("x = 1  # fast", "# slow\nx = 1"),
    "docstrings": ('def f():\n    """Does it."""\n    return 1', "def f():\n    return 1"),
    "a body that was only a docstring": ('class A:\n    """An A."""', "class A:\n    pass"),
    "statements without effect": ("x = 1\npass\n...\n'note'", "x = 1"),
    "annotations": (
        "def f(a: int, *b: str) -> float:\n    c: float = a\n    d: int\n    return c",
        "def f(a, *b):\n    c = a\n    return c",
    ),
    "local variables": ("def f(a):\n    b = a\n    return b", "def f(x):\n    y = x\n    return y"),
    "functions and module variables": ("GAIN = 1\ndef f():\n    return GAIN", "K = 1\ndef g():\n    return K"),
    "attributes of self": (
        "class A:\n    def reset(self):\n        self.gain = 1\n    def act(self, o):\n        return self.gain",
        "class B:\n    def reset(me):\n        me.kp = 1\n    def act(me, obs):\n        return me.kp",
    ),
    "methods and the calls of them": (
        "class A:\n    def go(self, k):\n        return self.go(k=1)",
        "class A:\n    def run(self, v):\n        return self.run(v=1)",
    ),
    "keywords of own functions": ("def f(a):\n    pass\nf(a=1)", "def g(b):\n    pass\ng(b=1)"),
    "fields of own classes": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    kp: float\np = P(kp=1)\ny = p.kp",
        "import dataclasses\n@dataclasses.dataclass\nclass G:\n    gain: int\nq = G(gain=2)\ny = q.gain",
    ),
    "variables of comprehensions": ("x = [a for a in range(3) if a]", "x = [b for b in range(9) if b]"),
    "a comprehension over its own name": ("def f(a):\n  return [a for a in a]", "def f(b):\n  return [c for c in b]"),
    "lambdas": ("f = lambda a, b=1: a + b", "g = lambda x, y=2: x + y"),
    "one name in two functions": (
        "def f(a):\n    return a\ndef g(a):\n    return a",
        "def f(a):\n    return a\ndef g(b):\n    return b",
    ),
    "global and nonlocal names": (
        "def f():\n    global a\n    a = 1\n    def g():\n        nonlocal b\n        b = 2\n    b = 1",
        "def f():\n    global x\n    x = 1\n    def g():\n        nonlocal y\n        y = 2\n    y = 1",
    ),
    "names of patterns and exceptions": (
        "try:\n  f()\nexcept E as e:\n  g(e)\nmatch s:\n  case {'a': a, **r}:\n    f(a, r)\n  case [x, *y]:\n    f(y)",
        "try:\n  f()\nexcept E as z:\n  g(z)\nmatch s:\n  case {'a': b, **q}:\n    f(b, q)\n  case [u, *v]:\n    f(v)",
    ),
    "how an import is written": (
        "import numpy as np\nfrom math import sin\nx = np.clip(sin(y), 0, 1)",
        "from numpy import clip\nimport math as m\nx = clip(m.sin(y), 0, 1)",
    ),
    "imports without use": ("import os\nimport math\nx = math.pi", "from os import sep\nimport math\nx = math.pi"),
    "numbers inside a string": ("w = parse('0.1, 0.2')", "w = parse('0.3,0.4, 5')"),
    "data in a long string": (f"w = load('{'ab' * DATA_CHARS}')", f"w = load('{'cd' * DATA_CHARS}')"),
}  # fmt: skip


@pytest.mark.parametrize("what", EQUAL)
def test_two_programs_are_one_topology_that_differ_in(what: str) -> None:
    first, second = EQUAL[what]

    assert of(first) == of(second)
    assert of(first).startswith("ast:")


DIFFERENT = {
    "an operator": ("x = a + b", "x = a - b"),
    "a comparison": ("x = a < b", "x = a <= b"),
    "a branch more": ("if a:\n    x = 1", "if a:\n    x = 1\nelse:\n    x = 2"),
    "a statement more": ("x = 1", "x = 1\ny = 2"),
    "the order of statements": ("f(1)\ng(2)", "g(2)\nf(1)"),
    "which variable is used": ("def f(a, b):\n    return a", "def f(a, b):\n    return b"),
    "which attribute is used": (
        "class A:\n    def act(self, o):\n        self.a = self.b = 1\n        return self.a",
        "class A:\n    def act(self, o):\n        self.a = self.b = 1\n        return self.b",
    ),
    "local or module variable": (
        "x = 1\ndef f():\n    x = 2\n    return x",
        "x = 1\ndef f():\n    y = 2\n    return x",
    ),
    "a function of a library": ("import numpy as np\nnp.sin(x)", "import numpy as np\nnp.cos(x)"),
    "the library": ("from math import sin\nsin(x)", "from numpy import sin\nsin(x)"),
    "a builtin": ("x = min(y)", "x = max(y)"),
    "a keyword of a library": ("sorted(x, key=f)", "sorted(x, cmp=f)"),
    "True and False": ("x = True", "x = False"),
    "None and a number": ("x = None", "x = 0"),
    "a string": ("mode = 'left'", "mode = 'right'"),
    "a number and a string": ("x = 1", "x = '1'"),
    "how many numbers a list has": ("x = [1, 2]", "x = [1, 2, 3]"),
    "the number of parameters": ("def f(a): return 1", "def f(a, b): return 1"),
    "a default": ("def f(a): return 1", "def f(a=1): return 1"),
    "the kind of a parameter": ("def f(a): return 1", "def f(*a): return 1"),
    "a decorator": ("@cache\ndef f(): return 1", "def f(): return 1"),
    "a base class": ("class A(B):\n    x = 1", "class A(C):\n    x = 1"),
    "a field and a class attribute": ("class A:\n    x: int = 1", "class A:\n    x = 1"),
    "the name of the Policy's method": (
        "class A:\n    def act(self, o): return 1",
        "class A:\n    def ask(self, o): return 1",
    ),
    "the name of the factory": ("def make_policy(c): return 1", "def make(c): return 1"),
    "what is read off the context": (
        "class A:\n    def __init__(self, c):\n        self.seed = c.seed",
        "class A:\n    def __init__(self, c):\n        self.seed = c.max_steps",
    ),
    "negation of a variable": ("x = -y", "x = y"),
    "an augmented assignment": ("x += 1", "x = x + 1"),
    "a kind of loop": ("[a for a in b]", "{a for a in b}"),
    "a star import": ("from math import *\nx = sin(y)", "from numpy import *\nx = sin(y)"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_two_programs_are_two_topologies_that_differ_in(what: str) -> None:
    first, second = DIFFERENT[what]

    assert of(first) != of(second)


# --- bundles --------------------------------------------------------------------------------------


def paths(source: dict[str, str]) -> list[str]:
    return [module.path for module in read_bundle(source).modules]


def test_a_bundle_holds_what_policy_py_reaches_and_nothing_else() -> None:
    source = {
        "policy.py": "import json, a\ndef f():\n    from pack import deep\n",
        "a.py": "from b import x\n",
        "b.py": "import policy\n",
        "pack/__init__.py": "",
        "pack/deep.py": "from . import near\nfrom ..top import y\nfrom .sub.leaf import z\n",
        "pack/near.py": "",
        "pack/sub/leaf.py": "import importlib\nimportlib.import_module('named')\n",
        "top.py": "",
        "named.py": "",
        "scratch.py": "x = 1",
        "json.txt": "",
    }

    assert paths(source) == [
        "policy.py", "a.py", "pack/__init__.py", "pack/deep.py", "b.py", "pack/near.py", "top.py", "pack/sub/leaf.py",
        "named.py",
    ]  # fmt: skip


def test_a_module_that_does_not_parse_is_searched_for_imports() -> None:
    broken = {
        "policy.py": "import a, b as c\nfrom pack import d  # why\ndef f(:\n",
        "a.py": "",
        "b.py": "",
        "pack/d.py": "",
    }

    assert paths(broken) == ["policy.py", "a.py", "b.py", "pack/d.py"]


def test_a_program_without_policy_py_has_no_topology() -> None:
    assert topology({"main.py": "x = 1"}) == ""
    assert normal_form({}) == []


def test_own_modules_and_what_they_hold_may_be_renamed() -> None:
    assert of("import helper\nhelper.go(k=1)", helper="def go(k): return k") == of(
        "import motion\nmotion.walk(v=2)", motion="def walk(v): return v"
    )
    assert of("from helper import go\ngo(1)", helper="def go(k): return k") == of(
        "import helper as h\nh.go(1)", helper="def go(k): return k"
    )


def test_a_library_reached_through_an_own_module_is_the_library() -> None:
    assert of("from helper import np\nnp.sin(x)", helper="import numpy as np") == of(
        "from helper import mathematics\nmathematics.sin(x)", helper="import numpy as mathematics"
    )


def test_a_change_in_a_reached_module_counts_and_one_in_another_file_does_not() -> None:
    text = "from helper import go\ngo(1)"
    first = of(text, helper="def go(k): return k", scratch="x = 1")

    assert first == of(text, helper="def go(k): return k", scratch="import this\nwhile x: y()")
    assert first != of(text, helper="def go(k): return -k", scratch="x = 1")


def test_the_digest_of_a_bundle_is_over_its_own_bytes() -> None:
    first = read_bundle({"policy.py": "x = 1", "other.py": "y = 1"})

    assert first.digest == read_bundle({"policy.py": "x = 1", "other.py": "y = 2"}).digest
    assert first.digest != read_bundle({"policy.py": "x = 2"}).digest
    assert first.parsed
    assert Bundle(()).digest != first.digest


# --- what does not parse --------------------------------------------------------------------------


def test_text_that_does_not_parse_has_a_form_without_numbers_comments_and_layout() -> None:
    first = of("def f(:\n    return 1.5e3  # so\n")

    assert first.startswith("text:")
    assert first == of("def f( : return 2")
    assert first != of("def g(:\n    return 1.5e3\n")


HOSTILE = {
    "null byte": "x = 1\0",
    "lone surrogate": "x = '\ud800'",
    "deep minus": "-" * 50_000 + "1",
    "deep brackets": "[" * 50_000,
    "deep tree that parses": "x" + ".y" * 2_900,
    "sum that parses": "x" + "+x" * 2_900,
    "calls that parse": "f" + "()" * 2_000,
    "lambdas": "lambda: " * 500 + "x",
    "too deep to parse": "x" + "+x" * 40_000,
    "indentation": "".join(" " * i + "if x:\n" for i in range(200)),
    "huge number": "x = " + "9" * 10_000,
    "huge table": "x = [" + "1.5," * 50_000 + "]",
    "open strings": '"\\' * 50_000,
    "triple quotes": '"""\\' * 50_000,
    "dots": "from " + "." * 50_000 + " import x\n(",
    "own name everywhere": "import policy\n" * 3_000 + "policy.policy = policy",
    "bad escape": r"x = '\d'",
    "empty": "",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_sources_have_a_form_too(what: str) -> None:
    assert topology({"policy.py": HOSTILE[what]})[:4] in ("ast:", "text")
    assert difference(tokens(HOSTILE[what]), []).removed == len(tokens(HOSTILE[what]))


def test_own_imports_in_a_circle_end() -> None:
    assert of("from a import x\nx()", a="from b import x", b="from a import x").startswith("ast:")


# --- properties -----------------------------------------------------------------------------------

CONTROLLER = '''
import math
import numpy as np
GAINS = [1.0, 2.0]

class Pendulum:
    """Swings up, then holds."""
    def __init__(self, context):
        self.limit, self.seen = context.action_space.high[0], []
    def push(self, angle, speed, *, scale=1.0):
        energy = scale * speed ** 2 - math.cos(angle)
        return [part for part in (energy, angle) if part > 0.5]
    def act(self, observation):
        angle, speed = observation[:2]
        self.seen.append(angle)
        if abs(angle) < 0.3:
            return np.clip(GAINS[0] * angle + GAINS[1] * speed, -2, 2)
        try:
            found = self.push(angle, speed=speed, scale=3.0)
        except ValueError as problem:
            found = [str(problem)]
        return max(found, key=lambda value: -value)

def make_policy(context):
    return Pendulum(context)
'''
NAMES = [
    "GAINS",
    "Pendulum",
    "limit",
    "seen",
    "push",
    "angle",
    "speed",
    "scale",
    "energy",
    "part",
    "found",
    "problem",
]


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("id", "attr", "arg", "name"):
            old = getattr(node, field, None)
            if isinstance(old, str) and not isinstance(node, ast.alias):
                setattr(node, field, self.names.get(old, old))
        return super().generic_visit(node)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(NAMES), unique=True))
def test_renaming_new_numbers_and_reformatting_keep_the_topology(
    source: random.Random, renamed: list[str]
) -> None:
    tree = _Renamed(
        {name: f"fresh_{source.randrange(99)}_{i}" for i, name in enumerate(renamed)}
    ).visit(ast.parse(CONTROLLER))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            number = source.uniform(0, 9)
            node.value = int(number) if isinstance(node.value, int) else number
    text = "# made anew\n" + ast.unparse(tree).replace("\n    ", "\n\n    ")

    assert topology({"policy.py": text}) == of(CONTROLLER)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_leaving_out_any_statement_with_an_effect_changes_the_topology(pick: int) -> None:
    tree = ast.parse(CONTROLLER)
    bodies = [n.body for n in ast.walk(tree) if hasattr(n, "body") and isinstance(n.body, list)]
    places = [
        (body, place)
        for body in bodies
        for place, one in enumerate(body)
        if not isinstance(one, ast.Import)
        and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    body, place = places[pick % len(places)]
    body[place] = ast.Pass()

    assert topology({"policy.py": ast.unparse(ast.fix_missing_locations(tree))}) != of(CONTROLLER)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_any_text_has_a_form(text: str) -> None:
    assert topology({"policy.py": text})


words = st.lists(st.sampled_from("abcd"), max_size=12)


@settings(max_examples=100, deadline=None)
@given(words, words)
def test_a_difference_is_the_smallest_number_of_changes(
    before: list[str], after: list[str]
) -> None:
    table = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, old in enumerate(before):
        for j, new in enumerate(after):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if old == new else max(table[i][j + 1], table[i + 1][j])
            )
    common = table[-1][-1]
    found = difference(before, after)

    assert (found.removed, found.added) == (len(before) - common, len(after) - common)
    total = len(before) + len(after)
    assert found.share == ((total - 2 * common) / total if total else 0.0)


def test_tokens_leave_out_comments_and_layout() -> None:
    assert tokens("x = -1.5e-3 + a[0x1F] ** 'a # b'  # c\n", number="#") == [
        "x", "=", "-", "#", "+", "a", "[", "#", "]", "**", "'a # b'",
    ]  # fmt: skip
