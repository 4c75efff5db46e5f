"""Which of a sweep's settings become a part of its entries' names."""

from typing import Any

from evopolicy.sweeps.axes import swept_axes

Composed = tuple[list[str], dict[str, Any]]
"""A cell's overrides and what they compose to."""


def cell(
    *overrides: str,
    agent: str = "command",
    label: str = "",
    benchmark: str = "cartpole",
    env_id: str = "",
) -> Composed:
    return list(overrides), {
        "agent": {"name": agent, "label": label},
        "benchmark": {"name": benchmark, "env_id": env_id},
    }


def axes(*cells: Composed) -> list[dict[str, str]]:
    overrides, configs = zip(*cells, strict=True)
    return swept_axes(overrides, configs)


def test_agent_benchmark_and_seed_are_no_axes() -> None:
    found = axes(
        cell("agent=random", "benchmark=cartpole", "seed=0", agent="random"),
        cell("agent=cma_es", "benchmark=pendulum", "seed=1", agent="cma_es", benchmark="pendulum"),
    )
    assert found == [{}, {}]


def test_a_swept_budget_is_an_axis_and_a_fixed_one_is_not() -> None:
    found = axes(cell("budget=small", "pool=small"), cell("budget=essay", "pool=small"))
    assert found == [{"budget": "small"}, {"budget": "essay"}]


def test_a_model_swept_under_one_label_tells_entries_apart() -> None:
    found = axes(cell("agent.model=a"), cell("agent.model=b"))
    assert found == [{"agent.model": "a"}, {"agent.model": "b"}]


def test_a_label_that_differs_already_is_not_repeated_as_an_axis() -> None:
    found = axes(
        cell("agent.label=one", "agent.model=a", label="one"),
        cell("agent.label=two", "agent.model=b", label="two"),
    )
    assert found == [{}, {}]


def test_another_environment_id_is_another_benchmark_but_another_parameter_is_an_axis() -> None:
    ids = axes(
        cell("benchmark.env_id=A-v0", benchmark="gymnasium", env_id="A-v0"),
        cell("benchmark.env_id=B-v0", benchmark="gymnasium", env_id="B-v0"),
    )
    assert ids == [{}, {}]
    bounds = axes(cell("benchmark.out_of_bounds=clip"), cell("benchmark.out_of_bounds=invalid"))
    assert [found["benchmark.out_of_bounds"] for found in bounds] == ["clip", "invalid"]


def test_settings_that_change_no_result_are_no_axes() -> None:
    found = axes(
        cell(
            "output=a",
            "tracking=off",
            "launcher.cells=1",
            "execution.workers=1",
            "sweep=a",
            "+hydra.x=1",
        ),
        cell(
            "output=b",
            "tracking=sqlite",
            "launcher.cells=2",
            "execution.workers=2",
            "sweep=b",
            "+hydra.x=2",
        ),
    )
    assert found == [{}, {}]


def test_an_added_key_and_a_quoted_value_are_named_plainly() -> None:
    found = axes(cell("+benchmark.kwargs.gravity=9.8"), cell("+benchmark.kwargs.gravity='3.7'"))
    assert found == [{"benchmark.kwargs.gravity": "9.8"}, {"benchmark.kwargs.gravity": "3.7"}]
