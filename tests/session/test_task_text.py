"""TASK.md for every kind of space and budget."""

from __future__ import annotations

import re
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evopolicy.kernel.policy import PolicyContext, bind
from evopolicy.kernel.ports.benchmark import BenchmarkSpec, Field
from evopolicy.kernel.ports.feedback import VISIBILITIES
from evopolicy.kernel.ports.protocols import Limits
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    box,
    cast_action,
)
from evopolicy.session.space_text import bounds, table
from evopolicy.session.task_text import WIDTH, TaskTerms, task_text

INF = np.inf
SPACES: dict[str, Space] = {
    "box": box(-2.0, 2.0, (1,)),
    "box_vector": box(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 5.0, 4.0]), (3,), "float64"),
    "box_above_zero": box(0.5, 0.75, (2, 2)),
    "box_scalar": box(-1.0, 1.0, ()),
    "box_unbounded": box(-INF, INF, (17,)),
    "image": box(0, 255, (96, 96, 3), "uint8"),
    "discrete": Discrete(4),
    "discrete_from_one": Discrete(3, start=1),
    "multi_discrete": MultiDiscrete(np.array([3, 2])),
    "multi_binary": MultiBinary((4,)),
    "text": Text(8, min_length=2, charset="xyz"),
    "dict": Dict(
        {"arm": box(-1.0, 1.0, (2,)), "grip": Discrete(2), "deep": Dict({"inner": Discrete(3)})}
    ),
    "tuple": Tuple((Discrete(2), box(1.0, 2.0, (1,)))),
    "tuple_of_one": Tuple((Discrete(2),)),
}
SPEC = BenchmarkSpec(
    id="test/Cart-v1", slug="cart", title="Cart", goal="Keep the pole **upright**.", scoring="One point a step.",
    ending="The pole falls (`terminated`).", max_steps=500, failure_score=-12.5,
    observation_space=box(np.array([-4.8, -INF]), np.array([4.8, INF]), (2,)), action_space=Discrete(2),
    observation_fields=(Field("position", "m", meaning="0 is the middle | of the track"), Field("speed", "m/s", 0.0)),
    action_fields=(Field("left", meaning="10 N to the left"), Field("right", meaning="10 N to the right")),
    observation_text="Seen from the side.", action_text="Both push.",
    measures=(Field("mean_lean", "rad", meaning="mean absolute angle"),), parameters={"out_of_bounds": "invalid"},
)  # fmt: skip
TERMS = TaskTerms(
    budget=Budget(32, 64, 16, "allow_early", "all"), pool_size=128, visibility="full",
    limits=Limits(1.5, 60, 2 * 2**30, 64 * 2**10, 64 * 2**20, 60, 20), packages=("numpy", "scipy"), block_seconds=50,
    wall_seconds=5400,
)  # fmt: skip


def text_of(spec: BenchmarkSpec = SPEC, **changes: Any) -> str:
    return task_text(spec, replace(TERMS, **changes))


def form(member: Any) -> Any:
    """Type, dtype and shape of a member, part by part."""
    if isinstance(member, dict):
        return {key: form(part) for key, part in member.items()}
    if isinstance(member, tuple):
        return tuple(form(part) for part in member)
    return (
        (type(member), member.dtype, member.shape)
        if isinstance(member, np.ndarray)
        else type(member)
    )


def worked_example(spec: BenchmarkSpec) -> Any:
    code = re.findall(r"```python\n(.*?)```", text_of(spec), re.DOTALL)[0]
    module = types.ModuleType("policy")
    exec(code, module.__dict__)
    policy = bind(module, PolicyContext(spec.observation_space, spec.action_space, {}, 0, 500))
    policy.reset()
    return policy


def test_names_every_field_with_its_unit_range_and_meaning() -> None:
    lines = {
        line.replace("  ", "").replace(" |", "|").replace("| ", "|")
        for line in text_of().splitlines()
    }
    rows = {
        re.sub(r"\s*\|\s*", "|", line).strip()
        for line in text_of().splitlines()
        if line.startswith("|")
    }
    assert "|0|`position`|m|-4.8 to 4.8|0 is the middle \\|of the track|" in rows
    assert "|1|`speed`|m/s|at least 0||" in rows
    assert "|0|`left`|10 N to the left|" in rows
    assert "|`mean_lean`|rad|mean absolute angle|" in rows
    assert "Seen from the side." in lines
    assert "Both push. Any natural" not in lines


def test_numbers_of_the_budget_and_the_limits_are_right() -> None:
    rows = {
        re.sub(r"\s*\|\s*", "|", line).strip()
        for line in text_of().splitlines()
        if line.startswith("|")
    }
    for row in (
        "|Submissions|32|", "|Episodes, over all Submissions|64|", "|Episodes in one " "Submission|16|",
        "|pool of Episodes to choose from|indices 0 to 127|",
        "|your own time (waiting for results does not count)|90 minutes|", "|memory|2 GiB|",
        "|one call of `act` (import, `make_policy` and `reset` are one call each)|1.5 s|",
        "|one Episode, all its calls (up to 500 steps)|60 s|", "|printed text that is kept (head " "and tail)|64 KiB|",
    ):  # fmt: skip
        assert row in rows, row
    text = text_of()
    assert "the lower of -12.5 and its score so far" in text.replace("\n", " ")
    assert "`numpy`, `scipy`" in text
    assert "return after 50 seconds" in text
    assert "`python3` here is the interpreter Policies run in" in text


def test_a_cap_above_the_budget_is_not_promised() -> None:
    assert re.search(
        r"Episodes in one Submission\s+\| 3 ",
        text_of(budget=Budget(2, 3, None, "allow_early", "all")),
    )


@pytest.mark.parametrize(
    ("finish", "said", "unsaid"),
    [
        ("allow_early", "whenever you like", "has to be spent"),
        ("exhaust", "has to be spent", "whenever you like"),
    ],
)
def test_the_finish_rule_is_told(finish: str, said: str, unsaid: str) -> None:
    text = text_of(budget=Budget(32, 64, 16, finish, "all"))
    assert said in text
    assert unsaid not in text


def test_candidates_are_told() -> None:
    assert "Every Submission with a score is a candidate" in text_of()
    assert "those that `finish` names" in text_of(budget=Budget(2, 3, None, "allow_early", "named"))


@pytest.mark.parametrize("visibility", VISIBILITIES)
def test_only_the_feedback_there_will_be_is_promised(visibility: Any) -> None:
    text = text_of(visibility=visibility)
    level = VISIBILITIES.index(visibility)
    for least, word in (
        (1, "`summary` "),
        (2, "`by_episode`"),
        (2, "`mean_lean`"),
        (3, "`artifacts`"),
    ):
        assert (word in text) == (level >= least), word


def test_every_session_verb_has_a_command() -> None:
    commands = set(re.findall(r"`evopolicy-session (\w+)", text_of()))
    assert commands == {"status", "check", "submit", "wait", "feedback", "finish"}


def test_selector_examples_fit_the_pool() -> None:
    for size in (1, 2, 5, 6, 128):
        text = text_of(pool_size=size, budget=Budget(2, 3, None, "allow_early", "all"))
        for first, last in re.findall(r"`(\d+):(\d+)", text):
            assert int(first) < int(last) <= size
        for selector in re.findall(r"--episodes (\S+?)`", text):
            assert int(selector.split(":")[-1]) <= size


@pytest.mark.parametrize("name", SPACES)
def test_the_worked_example_is_a_policy_whose_actions_are_valid(name: str) -> None:
    space = SPACES[name]
    policy = worked_example(replace(SPEC, action_space=space, action_fields=()))
    for _ in range(2):
        member, clipped = cast_action(space, policy.act(np.array([0.1, 0.2], dtype=np.float32)))
        assert form(member) == form(space.sample(np.random.default_rng(0)))
        assert not clipped


@pytest.mark.parametrize("name", SPACES)
def test_the_worked_example_takes_every_observation(name: str) -> None:
    space = SPACES[name]
    fields = (
        tuple(Field(f"f{i}") for i in range(space.low.size))
        if isinstance(space, Box) and space.low.size < 20
        else ()
    )
    policy = worked_example(replace(SPEC, observation_space=space, observation_fields=fields))
    assert policy.act(space.sample(np.random.default_rng(0))) == 0


@pytest.mark.parametrize("names", [("class", "x"), ("x", "x"), ("self", "x"), ("a b", "c")])
def test_field_names_that_are_no_variables_are_not_unpacked(names: tuple[str, str]) -> None:
    spec = replace(SPEC, observation_fields=tuple(Field(name) for name in names))
    code = re.findall(r"```python\n(.*?)```", text_of(spec), re.DOTALL)[0]
    compile(code, "policy.py", "exec")
    assert "= observation" not in code


def test_nested_spaces_are_listed_inside_out() -> None:
    text = text_of(replace(SPEC, observation_space=SPACES["dict"], observation_fields=()))
    assert "- `arm`: a NumPy array of shape `(2,)`" in text
    assert "  - `inner`: one integer, 0 to 2" in text


def test_clipping_is_told_where_it_is_done() -> None:
    assert "never repaired" in text_of()
    assert "are clipped" in text_of(replace(SPEC, parameters={"out_of_bounds": "clip"}))


def test_holds_no_path_of_the_host_and_no_seed_of_an_episode() -> None:
    text = text_of()
    assert not re.search(r"(?<![\w`.])/(home|root|tmp|work|usr|var)\b", text)
    assert {line for line in text.splitlines() if re.search(r"\bseed", line)} == {
        line for line in text.splitlines() if "`seed`" in line or "seeds, the simulator" in line
    }


def test_prose_is_wrapped_and_code_and_tables_are_whole() -> None:
    scoring = (
        "A long sentence about the reward that has many words. " * 6
        + "\n\n- `a` + `b`\n\n```\nx  =  1\n```"
    )
    text = text_of(replace(SPEC, scoring=scoring))
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert all(len(line) <= WIDTH for line in prose.splitlines() if not line.startswith(("|", "-")))
    assert "- `a` + `b`\n" in text
    assert "x  =  1\n" in text
    assert text.count("```") == 4
    assert "\n\n\n\n" not in text


def test_tables_are_rectangular_and_drop_empty_columns() -> None:
    drawn = table(["name", "unit", "range"], [["a", "", "1 | 2"], ["long name", "", ""]])
    assert drawn.splitlines() == [
        "| name      | range  |",
        "|-----------|--------|",
        "| a         | 1 \\| 2 |",
        "| long name |        |",
    ]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(-4.8, 4.8, "-4.8 to 4.8"), (0.0, None, "at least 0"), (-INF, 2.0, "at most 2"), (-INF, INF, "any number"),
     (None, None, "any number"), (-0.20943951, 1e9, "-0.20944 to 1e+09")],
)  # fmt: skip
def test_bounds_read_as_words(low: float | None, high: float | None, said: str) -> None:
    assert bounds(low, high) == said
