"""Code measures and mechanism tags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicy.analysis import find_runs, load_frames
from evopolicy.analysis.programs.code import (
    CODE_COLUMNS,
    NUMBERS,
    CodeMeasures,
    code_frame,
    measure_code,
)
from evopolicy.analysis.programs.mechanisms import MECHANISMS, TABLE_ENTRIES
from tests.analysis.trajectories import Made, Sent, frames


def measure(text: str, **modules: str) -> CodeMeasures:
    return measure_code(
        {"policy.py": dedent(text)} | {f"{name}.py": dedent(t) for name, t in modules.items()}
    )


def test_counts_of_a_program_by_hand() -> None:
    found = measure(
        """\
        import numpy as np
        from helper import clip

        class A:
            def act(self, o):
                # a comment
                if o[0] > 0:
                    for x in o:
                        while x:
                            x = x - 1 if x > 2 else 0
                elif o:
                    return [y for y in o if y if y > 1]
                return clip(o)
        """,
        helper="def clip(x):\n    return (lambda y: y)(x)\n",
        unused="def a(): pass\n",
    )

    assert (found.modules, found.functions, found.classes, found.lines) == (2, 2, 1, 15)
    assert found.branches == 5  # if, elif, the conditional expression, two ifs of the comprehension
    assert (found.loops, found.comprehensions, found.depth) == (2, 1, 3)
    assert found.imports == ("numpy",)
    assert found.parsed


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("x = 1", 0),
        ("if a:\n  x = 1\nelif b:\n  x = 2\nelif c:\n  x = 3\nelse:\n  x = 4", 1),
        ("if a:\n  x = 1\nelse:\n  if b:\n    x = 2\n  x = 3", 2),
        ("def f():\n  class A:\n    def g(self):\n      with a:\n        x = 1", 0),
        ("try:\n  for a in b:\n    match a:\n      case 1: x = 1\nexcept E:\n  x = 2", 3),
    ],
)
def test_depth_counts_blocks_that_decide_or_repeat(text: str, depth: int) -> None:
    assert measure(text).depth == depth


def test_state_is_what_methods_assign_and_change_in_place() -> None:
    found = measure(
        """\
        class A:
            limit = 1
            def __init__(self, c):
                self.fixed, self.seen = c.seed, []
            def reset(self, episode_index):
                self.step = 0
            def act(self, o):
                self.step += 1
                self.seen.append(o)
                self.map[o] = 1
                self.inner.value = 2
                other.field = 3
                return self.fixed
            @staticmethod
            def helper(): return 1
        class B:
            def __init__(this):
                this.step = 0
        """
    )

    assert found.state == 6  # fixed, seen, step, map, inner; and step of B
    assert found.changing_state == 4  # step, seen, map, inner


def test_state_of_closures_is_what_they_declare() -> None:
    text = (
        "def make_policy(c):\n  n = 0\n  def act(o):\n    nonlocal n\n    n += 1\n    global "
        "m\n    m = n\n  return act"
    )

    assert (measure(text).state, measure(text).changing_state) == (2, 2)


SIGNS = {
    "planner": ("def plan_path(a): return a", "self.rollout = f()"),
    "search": (
        "def aStar(a): return a",
        "while queue:\n  n = heapq.heappop(queue)\n  heapq.heappush(queue, n)",
    ),
    "filter": ("class KalmanFilter: x = 1", "self.v = 0.9 * self.v + 0.1 * o", "v += k * (o - v)"),
    "state_machine": (
        "class FSM: x = 1",
        "self.mode = 'a'\nif self.mode == 'a':\n  self.mode = 'b'\nif self.mode in ('b', 'c'): f()",
        "self.m = GO\nself.m = STOP\nmatch self.m:\n  case 1: f()\n  case 2: g()",
    ),
    "table": (
        "LOOKUP = f()",
        f"x = {list(range(TABLE_ENTRIES))}",
        "x = {0: [1, -1, 2, 2, 2, 2, 2, 2], 1: (1, 2, 3, 4, 5, 6, 7, 'a')}",
    ),
    "controller": (
        "KP = 1",
        "def pid(e): return e",
        "u = 1.5 * a - 0.3 * b",
        "u = self.g[0] * a + K * b + 1",
    ),
    "network": ("import torch", "h = np.tanh(W @ x)", "def relu(x): return x"),
}


def test_there_are_signs_of_every_mechanism() -> None:
    assert set(SIGNS) == set(MECHANISMS)


@pytest.mark.parametrize(
    ("tag", "text"), [(tag, text) for tag, texts in SIGNS.items() for text in texts]
)
def test_a_mechanism_is_found(tag: str, text: str) -> None:
    assert tag in measure(text).mechanisms


@pytest.mark.parametrize(
    ("tag", "text"), [("filter", SIGNS["filter"][2]), ("controller", SIGNS["controller"][2])]
)
def test_a_shape_alone_is_one_sign(tag: str, text: str) -> None:
    assert measure(text).mechanisms == (tag,)


@pytest.mark.parametrize(
    "text",
    [
        "explain = a * b",
        "while queue:\n  queue.pop()",
        "x = a * b + c * d",
        "x = 2 * a",
        "i += 1",
        "self.t = 0\nif self.t == 0:\n  self.t = 5",
        "x = [1, 2, 3]",
        "y = W @ x",
        "y = np.tanh(x)",
        "# plan with a kalman filter\nx = 'search table'",
        "def replanish(): return 1",
    ],
)
def test_no_mechanism_is_seen_where_there_is_none(text: str) -> None:
    assert measure(text).mechanisms == ()


def test_what_does_not_parse_is_measured_as_text_beside_what_does() -> None:
    found = measure("import helper\ndef f(:\n", helper="def g():\n  if a: return 1\n")

    assert (found.parsed, found.modules, found.functions, found.branches, found.lines) == (
        False,
        2,
        1,
        1,
        4,
    )
    assert measure_code({}).modules == 0


@pytest.mark.parametrize(
    "text",
    [
        "x" + ".y" * 2_900,
        "x" + "+2*x" * 1_400,
        "[" * 90 + "1," * 2_000 + "]" * 90,
        "\0",
        "-" * 900 + "x",
    ],
)
def test_hostile_sources_are_measured(text: str) -> None:
    assert measure(text).tokens > 0


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_measured(text: str) -> None:
    assert measure_code({"policy.py": text}).modules == 1


# --- along a Run ----------------------------------------------------------------------------------


def test_code_changes_along_a_run_from_its_beginning() -> None:
    plan = "def plan(o):\n  for x in o:\n    if x: return x"
    found = code_frame(
        frames(Made([Sent(plan), Sent("KP = 1"), Sent(None), Sent(plan)], initial="x = 1"))
    )

    assert found.submission.tolist() == [0, 1, 2, 3, 4]
    assert found.functions.fillna(-1).tolist() == [0, 1, 0, -1, 1]
    assert found.functions_change.fillna(-9).tolist() == [-9, 1, -1, -9, -9]
    assert found.depth_change.fillna(-9).tolist() == [-9, 2, -2, -9, -9]
    assert found.mechanisms_added.tolist() == [None, ("planner",), ("controller",), None, None]
    assert found.mechanisms_removed.tolist() == [None, (), ("planner",), None, None]


def test_no_runs_have_no_code_and_the_documented_columns() -> None:
    found = code_frame(load_frames([]))

    assert list(found.columns) == [column.name for column in CODE_COLUMNS]
    assert len(found) == 0


def test_code_of_a_real_run(lay_run: Callable[..., Path]) -> None:
    found = code_frame(load_frames(find_runs(lay_run("ada", "cartpole"))))

    assert all(found[column.name].dtype == column.dtype for column in CODE_COLUMNS)
    assert found.submission.tolist() == [0, 1, 2]
    assert found.lines.tolist() == [1, 1, 2]
    assert found.tokens.tolist() == [0, 0, 3]
    assert {f"{name}_change" for name in NUMBERS} <= set(found.columns)
