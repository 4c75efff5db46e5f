"""What docs/ show to add from outside is enough: installed from a temporary folder, and used in a
Run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import importlib_metadata  # noqa: F401 - where it is imported, as by MLflow, it finds the entry points
import pytest

import evopolicy
from evopolicy.agents import load_agent
from evopolicy.build import config_from
from evopolicy.cli.hydra.compose import compose_one, plain
from evopolicy.config import RunConfig
from evopolicy.kernel.errors import AgentError, ConfigError
from evopolicy.presets import load_config

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^`([\w./]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EPISODES = {"training": 4, "validation": 2, "assessment": 1}


def shown(page: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    return dict(BLOCK.findall((DOCS / page).read_text()))


def install(files: dict[str, str], site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an installer would: the package with its YAML, and its entry point."""
    for name, content in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
    ((group, points),) = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"].items()
    ((name, target),) = points.items()
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(str(site))


@pytest.mark.parametrize(
    ("thing", "page"), [("agent", "agents.md"), ("selection rule", "configuration.md")]
)
def test_it_is_in_as_many_places_as_the_architecture_says(thing: str, page: str) -> None:
    rows = (DOCS / "architecture.md").read_text().splitlines()
    (row,) = (row for row in rows if row.startswith(f"| {thing} |"))
    places = row.split(" | ")[2].split(", ")
    assert len(places) == len(shown(page)) == 3


def test_a_selection_rule_from_outside_chooses_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {
        "agent": {"name": "baseline", "repeats": 2},
        "benchmark": "cartpole",
        "pool": EPISODES,
    }
    with pytest.raises(ConfigError, match=r"selection: 'one_error' is unknown"):
        load_config("smoke", selection="one_error", **settings)
    install(shown("configuration.md"), tmp_path, monkeypatch)
    run = evopolicy.run(
        protocol="smoke",
        selection="one_error",
        budget={"submissions": 2, "episodes": 2},
        output=tmp_path,
        **settings,
    )
    assert [submission.id for submission in run.state.published] == [1, 2]
    assert run.record.versions["one_error"] == "1.0"
    # The same Program twice: by `validation_mean` the later one is taken.
    assert (
        run.record.selection.rule,
        run.result.selected_submission,
        len(run.result.validation),
    ) == (
        "one_error",
        1,
        1,
    )


def test_an_agent_from_outside_makes_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AgentError, match=r"agent: 'once' is unknown"):
        load_agent("once", {})
    install(shown("agents.md"), tmp_path, monkeypatch)
    value = plain(
        compose_one(["agent=once", "benchmark=cartpole", "agent.episodes=3", "protocol=smoke"])
    )
    composed = config_from({key: value[key] for key in RunConfig.__dataclass_fields__})
    assert composed == load_config(
        "smoke", agent={"name": "once", "episodes": 3}, benchmark="cartpole"
    )
    run = evopolicy.run(
        {"name": "once", "episodes": 3},
        "cartpole",
        protocol="smoke",
        selection="last",
        pool=EPISODES,
        output=tmp_path,
    )
    assert [submission.indices for submission in run.state.published] == [(0, 1, 2)]
    assert run.record.versions["once"] == "1.0"
    assert (run.finished, run.record.agent.options) == (True, {"episodes": 3})
