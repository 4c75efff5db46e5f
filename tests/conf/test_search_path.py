"""Options come from evopolicy, from installed distributions and from a folder of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from evopolicy.cli.hydra import compose, groups
from evopolicy.cli.hydra.problems import sentence
from evopolicy.presets import foreign_conf_folders


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution that brings a Benchmark and its option; importing it would fail."""
    site = tmp_path / "site"
    package = site / "outside_tasks"
    (package / "conf" / "benchmark").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('composing must not import it')")
    (package / "conf" / "benchmark" / "outside.yaml").write_text("name: outside\nlevel: 3\n")
    info = site / "outside_tasks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-tasks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evopolicy.benchmarks]\noutside = outside_tasks:load\n")
    monkeypatch.syspath_prepend(str(site))
    return package


def test_a_distribution_ships_its_own_options(distribution: Path) -> None:
    assert distribution / "conf" in foreign_conf_folders()
    assert "outside" in groups.group_options("benchmark")
    config = compose.compose_one(["agent=random", "benchmark=outside", "benchmark.level=4"])
    assert compose.plain(config)["benchmark"] == {"name": "outside", "level": 4}


def test_a_users_folder_adds_options_and_experiments(tmp_path: Path) -> None:
    (tmp_path / "mine" / "budget").mkdir(parents=True)
    (tmp_path / "mine" / "experiment").mkdir()
    (tmp_path / "mine" / "budget" / "long.yaml").write_text(
        "defaults: [essay, _self_]\nepisodes: 96\n"
    )
    (tmp_path / "mine" / "experiment" / "night.yaml").write_text(
        "# @package _global_\ndefaults: [{override /budget: long}, {override /agent: "
        "random}]\nseed: 7\n"
    )
    arguments = ["--config-dir", str(tmp_path / "mine"), "experiment=night", "benchmark=cartpole"]
    config = compose.plain(compose.compose_one(arguments))
    assert (config["budget"]["episodes"], config["budget"]["submissions"], config["seed"]) == (
        96,
        16,
        7,
    )
    assert config["agent"]["name"] == "random"


@pytest.mark.parametrize(
    ("arguments", "sweep"),
    [
        (["agent=random"], False),
        (["agent=a,b"], True),
        (["seed=range(3)"], True),
        (["agent=glob(*)"], True),
        (["agent.argv=[a,b]"], False),
        (["agent.label='a,b'"], False),
        (["--cfg", "job", "agent=a"], False),
    ],
)
def test_what_can_only_be_a_sweep_is_one(arguments: list[str], sweep: bool) -> None:
    assert ("--multirun" in compose.normalize(arguments)) is sweep


def test_a_dry_run_flag_is_an_override() -> None:
    assert "dry_run=true" in compose.normalize(["--dry-run", "agent=random"])


def test_every_message_is_one_sentence_even_for_errors_with_many_lines() -> None:
    from hydra.errors import ConfigCompositionException, HydraException

    for error in (ConfigCompositionException("In 'x/y': one\ntwo"), HydraException("one.\ntwo")):
        text = sentence(error)
        assert text is not None and "\n" not in text
    assert sentence(ZeroDivisionError("a bug")) is None
