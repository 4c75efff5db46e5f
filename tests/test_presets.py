"""The shipped YAML without Hydra gives what Hydra composes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evopolicy.build import config_from
from evopolicy.cli.hydra.compose import compose_one, plain
from evopolicy.config import RunConfig
from evopolicy.kernel.errors import ConfigError
from evopolicy.presets import load_config


def composed(*overrides: str) -> RunConfig:
    value = plain(compose_one(overrides))
    return config_from({key: value[key] for key in RunConfig.__dataclass_fields__})


@pytest.mark.parametrize("protocol", ["smoke", "quickstart", "study", "small", "essay", "paper"])
def test_protocol_means_the_same_with_and_without_hydra(protocol: str) -> None:
    """`paper` also fixes single values: the later of two equal candidates, Actions clipped."""
    ours = load_config(protocol, agent="cma_es", benchmark="pendulum")
    assert ours == composed("agent=cma_es", "benchmark=pendulum", f"protocol={protocol}")


@pytest.mark.parametrize("benchmark", ["minigrid_door_key", "minigrid_four_rooms"])
def test_a_protocol_may_fix_a_value_in_one_benchmark_alone(benchmark: str) -> None:
    """The paper's runner stopped DoorKey at 1,000 steps."""
    ours = load_config("paper", agent="random", benchmark=benchmark)
    assert ours == composed("agent=random", f"benchmark={benchmark}", "protocol=paper")
    assert ours.benchmark["max_steps"] == (1000 if benchmark == "minigrid_door_key" else None)
    assert ours.benchmark["out_of_bounds"] == "clip"
    assert load_config("small", agent="random", benchmark=benchmark).benchmark["max_steps"] is None
    set_by_user = load_config(
        "paper", agent="random", benchmark={"name": benchmark, "max_steps": 70}
    )
    assert set_by_user.benchmark["max_steps"] == 70


def test_a_path_may_be_a_path() -> None:
    config = load_config(
        "smoke",
        agent="random",
        benchmark="cartpole",
        output=Path("here"),
        secret={"file": Path("s"), "variable": None},
    )
    assert (config.output, config.secret.file) == ("here", "s")


def test_setting_wins_over_what_a_protocol_fixes() -> None:
    config = load_config(
        "paper",
        agent="random",
        benchmark={"name": "pendulum", "out_of_bounds": "invalid"},
        selection={"tie_break": "fewer_failures"},
        pool={"training": 256},
    )
    assert config.benchmark["out_of_bounds"] == "invalid"
    assert (config.selection.tie_break, config.pool.training) == ("fewer_failures", 256)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"agent": "cma_se"}, r"agent: 'cma_se' is unknown. Did you mean 'cma_es'\?"),
        ({"budgets": {}}, r"budgets: is not a key of a Run. Did you mean 'budget'\?"),
        ({"budget": 5}, "budget: an option's name or a mapping is needed, found a int"),
        ({"budget": {"episodes": "ten"}}, r"budget.episodes: expected 'int', got 'str'"),
    ],
)
def test_wrong_setting_is_refused_by_its_key(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_config(**{"agent": "random", "benchmark": "cartpole", **settings})
