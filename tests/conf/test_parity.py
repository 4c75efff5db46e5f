"""Every YAML composes, and every agent, rule and Benchmark has one."""

from __future__ import annotations

import dataclasses
from itertools import zip_longest
from pathlib import Path

import msgspec
import pytest
import yaml
from hydra import compose, initialize_config_dir

from evopolicy.agents import AGENTS, config_class, load_agent
from evopolicy.authoring.discovery import known_benchmarks
from evopolicy.cli import options
from evopolicy.cli.hydra import schema
from evopolicy.cli.hydra.compose import plain
from evopolicy.cli.hydra.groups import group_options
from evopolicy.config import RunConfig, config_from
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.selection import RULES
from evopolicy.presets import conf_folder, option

GROUPS = sorted(path.name for path in conf_folder().iterdir() if path.is_dir())
VALUES = {
    "uri": ["tracking.uri=sqlite:///x.db"],
    "gymnasium": ["benchmark.env_id=X-v0", "benchmark.failure_score=0"],
}
"""What an option leaves open on purpose."""
AGENT_IS_CHOSEN = ("paper/core16",)
"""Experiments whose agents are named on the command line, since they cost."""
GLOBAL = ("experiment", "protocol", "suite")
NOT_OF_A_RUN = ("table", "figure")
"""What verbs read: nothing of it composes into a Run."""


def names(group: str) -> list[str]:
    return group_options(group)


def composed(*overrides: str) -> dict[str, object]:
    schema.store()
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        config = compose("config", list(overrides))
    return plain(config)


def as_run(values: dict[str, object]) -> RunConfig:
    return config_from(
        {k: v for k, v in values.items() if k not in ("sweep", "dry_run", "launcher")}
    )


SIMPLE = [group for group in GROUPS if group not in (*GLOBAL, *NOT_OF_A_RUN)]


@pytest.mark.parametrize("choices", list(zip_longest(*map(names, SIMPLE))))
def test_every_option_of_every_group_composes_into_a_run(choices: tuple[str | None, ...]) -> None:
    """One composition holds one option of each group, so that all are met in as few as there are
    Benchmarks."""
    chosen = dict(zip(SIMPLE, choices, strict=True))
    chosen["agent"] = chosen["agent"] or "random"
    # Budgets and pools come in pairs (a cap of 128 needs a pool of 128): protocols test them
    # together.
    chosen["budget"] = chosen["pool"] = None
    overrides = [f"{group}={name}" for group, name in chosen.items() if name]
    values = composed(*overrides, *(v for name in choices if name in VALUES for v in VALUES[name]))
    config = as_run(values)
    agent = config.agent["label"] or config.agent["name"]
    found = {"agent": agent, "benchmark": config.benchmark["name"], "prompt": config.prompt.name}
    for group, name in found.items():
        assert name == (chosen[group] or name), f"conf/{group}/{chosen[group]}.yaml names '{name}'"


@pytest.mark.parametrize("name", names("protocol"))
def test_a_protocol_sets_budget_pool_and_selection_together(name: str) -> None:
    run = as_run(composed("agent=random", "benchmark=cartpole", f"protocol={name}"))
    sizes = (
        run.budget.submissions,
        run.budget.episodes,
        run.pool.training,
        run.pool.validation,
        run.pool.assessment,
    )
    assert (
        sizes
        == {
            "smoke": (4, 8, 16, 4, 8),
            "small": (32, 64, 128, 8, 16),
            "study": (16, 32, 64, 8, 16),
            "quickstart": (16, 32, 64, 4, 16),
            "essay": (16, 48, 96, 16, 32),
            "paper": (128, 128, 1024, 16, 32),
        }[name]
    )
    assert (
        run.budget.finish,
        run.pool.kind,
        run.selection.tie_break,
        run.benchmark["out_of_bounds"],
    ) == (
        ("exhaust", "paper", "latest", "clip")
        if name == "paper"
        else ("allow_early", "derived", "fewer_failures", "invalid")
    )


@pytest.mark.parametrize("budget", names("budget"))
@pytest.mark.parametrize("pool", ["small", "paper", "derived"])
def test_budgets_and_pools_may_be_combined(budget: str, pool: str) -> None:
    cell = ("agent=random", "benchmark=cartpole", f"pool={pool}")
    run = as_run(composed(*cell, f"budget={budget}"))
    assert run.budget == msgspec.convert(option("budget", budget), Budget)
    assert run.pool == as_run(composed(*cell)).pool, "a budget leaves the pool alone"


def test_the_command_line_wins_over_a_protocol() -> None:
    run = as_run(
        composed(
            "agent=random",
            "benchmark=cartpole",
            "protocol=paper",
            "budget=smoke",
            "pool.validation=7",
        )
    )
    assert (run.budget.episodes, run.pool.kind, run.pool.validation) == (8, "paper", 7)


@pytest.mark.parametrize("name", names("suite"))
def test_a_suite_names_benchmarks_that_have_an_option(name: str) -> None:
    schema.store()
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        config = compose("config", ["agent=random", f"suite={name}"], return_hydra_config=True)
    listed = str(config.hydra.sweeper.params.benchmark).split(",")
    assert set(listed) <= set(names("benchmark")), (
        f"suite={name} names what has no conf/benchmark/*.yaml"
    )
    assert len(set(listed)) == len(listed)
    assert config.suite == name
    assert config.hydra.mode.name == "MULTIRUN"


@pytest.mark.parametrize(
    "path", sorted((conf_folder() / "protocol").glob("*/*.yaml")), ids=lambda p: p.stem
)
def test_what_a_protocol_sets_in_one_benchmark_is_of_a_known_protocol_and_benchmark(
    path: Path,
) -> None:
    assert path.parent.name in names("protocol")
    assert path.stem in names("benchmark")
    run = as_run(composed("agent=random", f"benchmark={path.stem}", f"protocol={path.parent.name}"))
    assert yaml.safe_load(path.read_text()).items() <= dict(run.benchmark).items()


@pytest.mark.parametrize("name", names("experiment"))
def test_an_experiment_composes_and_names_its_sweep(name: str) -> None:
    schema.store()
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        config = compose("config", [f"experiment={name}"], return_hydra_config=True)
    assert config.sweep
    params = config.hydra.sweeper.params
    for group in ("agent", "benchmark"):
        if group == "agent" and name in AGENT_IS_CHOSEN:
            assert group not in params
            continue
        assert set(str(params[group]).split(",")) <= set(names(group))


def test_the_papers_random_row_is_of_the_cases_and_seeds_it_was_published_for() -> None:
    values = composed("experiment=paper/random", "agent=random", "benchmark=minigrid_door_key")
    run = as_run(values)
    pool = run.pool
    assert (pool.kind, pool.cases, pool.policy_seed, pool.assessment) == (
        "paper",
        "hash",
        "case_plus_one",
        32,
    )
    assert (run.selection.rule, run.budget.episodes, values["suite"]) == ("last", 1, "core16")
    assert run.benchmark["max_steps"] == 1000


def test_core16_is_sixteen_benchmarks_by_three_seeds_under_the_papers_protocol() -> None:
    schema.store()
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        config = compose("config", ["experiment=paper/core16"], return_hydra_config=True)
    params = config.hydra.sweeper.params
    assert (len(str(params.benchmark).split(",")), str(params.seed)) == (16, "0,1,2")
    run = as_run(composed("experiment=paper/core16", "agent=random", "benchmark=cartpole"))
    assert (run.budget.episodes, run.budget.finish, run.pool.kind, run.pool.cases) == (
        128,
        "exhaust",
        "paper",
        "files",
    )
    assert (run.pool.validation, run.pool.assessment, run.selection.tie_break) == (16, 32, "latest")


def test_every_agent_has_an_option_and_every_option_an_agent() -> None:
    over_command = {
        name for name in names("agent") if option("agent", name)["name"] == "command"
    } - {"command"}
    assert set(names("agent")) - over_command == set(AGENTS), "conf/agent/ and AGENTS differ"
    for name in over_command:
        values = option("agent", name)
        assert values["label"] == name and load_agent("command", values).provider
        assert set(values) == set(option("agent", "command")), (
            f"conf/agent/{name}.yaml has a key that command has not"
        )


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_an_agents_option_has_exactly_the_keys_of_its_config(name: str) -> None:
    values = yaml.safe_load((conf_folder() / "agent" / f"{name}.yaml").read_text())
    assert set(values) == {field.name for field in dataclasses.fields(config_class(name))}


def test_every_selection_rule_has_an_option_and_every_option_a_rule() -> None:
    assert set(names("selection")) == set(RULES), "conf/selection/ and RULES differ"


def test_every_installed_benchmark_has_an_option_and_every_option_a_benchmark() -> None:
    ours = {
        name for name, known in known_benchmarks().items() if known.factory.startswith("evopolicy")
    }
    assert set(names("benchmark")) == ours, "conf/benchmark/ and the installed Benchmarks differ"


def test_a_glob_finds_options_and_no_schema() -> None:
    schema.store()
    from hydra.core.config_store import ConfigStore

    stored = set(ConfigStore.instance().repo)
    assert f"{schema.SCHEMA}.yaml" in stored
    assert not stored & set(GROUPS), "a schema inside a group would be found by glob(*)"


@pytest.mark.parametrize(
    "path", sorted(conf_folder().rglob("*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_every_key_of_a_shipped_yaml_is_explained(path: Path) -> None:
    """A comment on the line, or on the lines just above."""
    if path.relative_to(conf_folder()).parts[0] in GLOBAL:
        assert any(
            line.startswith("# ") and "@package" not in line
            for line in path.read_text().splitlines()
        )
        return
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        key = line.split(":")[0].strip()
        nested = line.endswith(":") or line.startswith(("  -", "-"))
        if (
            not key
            or line.lstrip().startswith("#")
            or nested
            or key in ("defaults", "name", "model", "text", "- _self_")
        ):
            continue
        above = lines[number - 1].lstrip().startswith("#") if number else False
        if (
            ":" in line
            and not line.startswith(" " * 4)
            and path.name != "config.yaml"
            and path.parent.name != "prompt"
        ):
            assert above or " #" in line, f"{path.name}: '{key}' has no comment"


def test_verbs_look_for_runs_where_the_config_puts_them() -> None:
    primary = yaml.safe_load((conf_folder() / "config.yaml").read_text())
    assert primary["output"] == options.OUTPUT
