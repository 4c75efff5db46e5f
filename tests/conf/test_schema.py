"""The schema Hydra checks against mirrors the plain dataclasses."""

from __future__ import annotations

import dataclasses

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, ValidationError

from evopolicy.cli.hydra.schema import known_keys, twin
from evopolicy.config import PromptConfig, RunConfig
from evopolicy.kernel.ports.protocols import AgentLimits
from evopolicy.kernel.session.budget import Budget


def test_a_twin_has_the_fields_of_its_dataclass_and_can_be_changed() -> None:
    config = OmegaConf.structured(twin(Budget))
    config.episodes = 3
    assert set(config) == {field.name for field in dataclasses.fields(Budget)}


@pytest.mark.parametrize(
    ("cls", "key", "wrong"),
    [
        (Budget, "episodes", "ten"),
        (Budget, "episodes", None),
        (AgentLimits, "wall_seconds", "long"),
        (RunConfig, "seed", 1.5),
    ],
)
def test_a_twin_refuses_a_wrong_type(cls: type, key: str, wrong: object) -> None:
    config = OmegaConf.structured(twin(cls))
    with pytest.raises(ValidationError):
        config[key] = wrong


def test_optional_fields_take_null_and_sequences_are_lists() -> None:
    assert OmegaConf.structured(twin(AgentLimits)).tokens is None
    prompt = OmegaConf.structured(twin(PromptConfig))
    prompt.skills = ["a", "b"]
    assert OmegaConf.to_container(prompt.skills) == ["a", "b"]
    budget = OmegaConf.structured(twin(Budget))
    budget.per_submission = None
    with pytest.raises(ConfigKeyError):
        OmegaConf.structured(twin(Budget))["episode"] = 1


def test_known_keys_reach_into_nested_groups_and_the_command() -> None:
    keys = set(known_keys())
    assert {
        "budget.episodes",
        "session.limits.wall_seconds",
        "execution.limits.act_seconds",
        "seed",
    } <= keys
    assert {"sweep", "dry_run", "launcher.cells"} <= keys
