"""What a cell's key is made of: every field of a config is declared here to define the agent's part
of a result, the result alone, or neither. A new field that is not declared fails the first test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from evopolicy import cells
from evopolicy.agents import AGENTS, config_class, load_agent
from evopolicy.analysis.records.conditions import run_conditions, run_settings
from evopolicy.cli.hydra.schema import known_keys
from evopolicy.config import RunConfig, config_from
from evopolicy.kernel.session.record import Run, RunRecord
from evopolicy.presets import load_config, option
from evopolicy.sweeps.config import CommandConfig

Defines = Literal["agent", "result", "nothing"]
CHAT = {"name": "chat", "model": "own", "base_url": "http://127.0.0.1:9/v1"}
SKILL, SECRET, VARIABLE = "the skill's folder", "the secret's file", "EVOPOLICY_TEST_POOL"

TABLE: dict[str, tuple[Defines, Any]] = {
    "agent": ("agent", {**option("agent", "chat"), **CHAT, "temperature": 0.5}),
    "benchmark": ("agent", {"name": "cartpole", "max_steps": 50}),
    "budget.submissions": ("agent", 3),
    "budget.episodes": ("agent", 7),
    "budget.per_submission": ("agent", 5),
    "budget.finish": ("agent", "exhaust"),
    "budget.candidates": ("agent", "named"),
    "pool.kind": ("agent", "paper"),
    "pool.training": ("agent", 17),
    "pool.validation": ("result", 5),
    "pool.assessment": ("result", 9),
    "pool.seed": ("agent", 1),
    "pool.cases": ("agent", "hash"),
    "pool.policy_seed": ("agent", "case_plus_one"),
    "secret.file": ("agent", SECRET),
    "secret.variable": ("agent", VARIABLE),
    "secret.generated": ("agent", True),
    "selection.rule": ("result", "last"),
    "selection.tie_break": ("result", "latest"),
    "feedback.visibility": ("agent", "summary"),
    "feedback.bulk_bytes": ("agent", 1),
    "feedback.replays": ("agent", True),
    "prompt.name": ("agent", "other"),
    "prompt.text": ("agent", "Do it."),
    "prompt.skills": ("agent", [SKILL]),
    # How long a call holds the agent's shell, and what is tried again, changes no number a Run is
    # measured by.
    "session.block_seconds": ("nothing", 10),
    "session.retries": ("nothing", 1),
    "session.backoff_seconds": ("nothing", 1),
    "session.limits.wall_seconds": ("agent", 60),
    "session.limits.idle_seconds": ("agent", 60),
    "session.limits.finish_grace_seconds": ("agent", 5),
    "session.limits.tokens": ("agent", 1000),
    "session.limits.cost_usd": ("agent", 1.0),
    "session.limits.requests": ("agent", 7),
    # Outcomes are the same at every level; a record says its own, and tables refuse to mix them
    # unasked.
    "execution.isolation": ("nothing", "auto"),
    "execution.allow_unisolated": ("nothing", True),
    "execution.agent_network": ("agent", "open"),
    "execution.workers": ("nothing", 1),
    "execution.policy_packages": ("agent", ["numpy"]),
    "execution.episode_retries": ("nothing", 0),
    "execution.limits.act_seconds": ("agent", 2),
    "execution.limits.episode_seconds": ("agent", 50),
    "execution.limits.memory_bytes": ("agent", 1 << 30),
    "execution.limits.output_bytes": ("agent", 100),
    "execution.limits.scratch_bytes": ("agent", 1 << 20),
    "execution.limits.step_seconds": ("agent", 50),
    "execution.limits.stall_factor": ("agent", 10),
    "tracking.enabled": ("nothing", False),
    "tracking.uri": ("nothing", "http://127.0.0.1:9"),
    "tracking.experiment": ("nothing", "other"),
    "tracking.artifacts": ("nothing", "full"),
    "seed": ("agent", 1),
    "output": ("nothing", "elsewhere"),
    "suite": ("nothing", "classic"),
    "axes": ("nothing", {"budget": "small"}),
    # An estimate: it ends an agent only under a limit on cost, which is in the key.
    "prices.as_of": ("nothing", "2020-01-01"),
    "prices.source": ("nothing", "elsewhere"),
    "prices.models": ("nothing", {}),
}


def leaves() -> set[str]:
    """Every key that has a value of its own."""
    keys = set(known_keys(RunConfig)) - set(known_keys(CommandConfig))
    return {key for key in keys if not any(other.startswith(f"{key}.") for other in keys)}


def test_every_field_of_a_config_is_declared() -> None:
    assert set(TABLE) == leaves()


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    config = load_config("smoke", agent=CHAT, benchmark="cartpole", execution="bubblewrap")
    prices = {
        "as_of": "2021-01-01",
        "source": "here",
        "models": {"own": {"input": 1.0, "cached": 1.0, "cache_write": 1.0, "output": 1.0}},
    }
    settled = msgspec.to_builtins(cells.settled(config, provided=False))
    return {**settled, "prices": {**settled["prices"], **prices}}


def planned(config: Mapping[str, Any]) -> cells.CellPlan:
    return cells.cell_plan(config_from(config))


def recorded(config: Mapping[str, Any]) -> RunRecord:
    settled = cells.settled(config_from(config))
    return cells.record_of(settled, cells.parts_of(settled))


@pytest.mark.parametrize(("key", "declared"), TABLE.items(), ids=list(TABLE))
def test_a_field_changes_what_it_is_declared_to_define(
    plain: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    declared: tuple[Defines, Any],
) -> None:
    defines, value = declared
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill" / "SKILL.md").write_text("Look at the worst Episode.")
    (tmp_path / "secret").write_text("words")
    monkeypatch.setenv(VARIABLE, "words enough")
    places = {
        SKILL: [str(tmp_path / "skill")],
        SECRET: str(tmp_path / "secret"),
        "elsewhere": str(tmp_path / "other"),
    }
    value = (
        places.get(value[0] if isinstance(value, list) and value else value, value)
        if _plain(value)
        else value
    )
    before = msgspec.json.decode(msgspec.json.encode({**plain, "output": str(tmp_path)}))
    after = msgspec.json.decode(msgspec.json.encode(before))
    *groups, name = key.split(".")
    place = after
    for group in groups:
        place = place[group]
    assert place[name] != value
    place[name] = value
    first, second = planned(before), planned(after)
    assert (first.key != second.key) == (defines == "agent")
    assert (first.result_key != second.result_key) == (defines != "nothing")
    assert (first.folder.name == second.folder.name) == (defines != "agent")
    # What makes another cell, but for its seed, is what tables refuse to average.
    told = [
        {**run_settings(one), **run_conditions(one)} for one in (recorded(before), recorded(after))
    ]
    assert (told[0] != told[1]) == (defines != "nothing" and key != "seed")


def _plain(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and value == [SKILL])


MACHINE = ("cli", "node", "key_variable", "configuration", "price")
"""Options that say where things are here, or what they cost: no part of what an agent is."""
LOCAL = dict.fromkeys(AGENTS, MACHINE) | {
    "chat": (*MACHINE, "request_seconds", "retries", "retry_seconds")
}
BASE = {"base_url": "http://127.0.0.1:9/v1"}
NEEDED: dict[str, dict[str, Any]] = {"chat": BASE, "opencode": BASE, "command": {"argv": ["true"]}}


@pytest.mark.parametrize("name", AGENTS)
def test_every_option_of_an_agent_is_part_of_what_it_is(
    name: str, make_run: Callable[..., Run]
) -> None:
    needed = {"source": str(make_run().folder)} if name == "replay" else NEEDED.get(name, {})
    options = load_agent(name, {**option("agent", name), "model": "own", **needed}).identity.options
    own = {field.name for field in fields(config_class(name))} - {"name", "label", "model"}
    assert own - set(options) <= set(LOCAL[name]), (
        "an option that is not in the key has to be declared"
    )
