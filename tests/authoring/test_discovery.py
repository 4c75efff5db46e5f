"""Benchmarks by name across installed distributions."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from evopolicy.authoring import (
    BenchmarkError,
    ConfigError,
    discovery,
    find_benchmark,
    known_benchmarks,
    programs_folder,
)


def install(monkeypatch: pytest.MonkeyPatch, *entries: tuple[str, str]) -> None:
    monkeypatch.setattr(discovery, "_installed", lambda _: entries)


FAMILY = ("classic_control", "evopolicy_classic_control:load")


def test_every_task_of_every_distribution_has_a_name() -> None:
    known = known_benchmarks()
    assert {"cartpole", "half_cheetah", "mountain_car_continuous", "gymnasium"} <= set(known)
    assert known["cartpole"].id == "classic_control/CartPole-v1"
    assert known["cartpole"].factory == "evopolicy_classic_control:load"


def test_a_name_makes_its_benchmark_with_its_parameters() -> None:
    benchmark = find_benchmark("pendulum", {"out_of_bounds": "clip"})
    assert benchmark.spec.slug == "pendulum"
    assert benchmark.spec.clips
    assert benchmark.reference.load().spec.digest == benchmark.spec.digest


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("cartpol", {}, "Did you mean 'cartpole'"),
        (
            "cartpole",
            {"out_of_bound": "clip"},
            "benchmark.out_of_bound .*Did you mean 'out_of_bounds'",
        ),
        ("gymnasium", {"env_id": "CartPole-v1"}, "benchmark.failure_score"),
    ],
)
def test_a_wrong_name_or_parameter_is_refused_with_the_near_one(
    name: str, parameters: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        find_benchmark(name, parameters)


def test_an_unknown_task_of_a_family_is_refused_with_the_near_name() -> None:
    from evopolicy_classic_control import load

    with pytest.raises(BenchmarkError, match="Did you mean 'acrobot'"):
        load(task="acrobat")


def test_a_distribution_that_cannot_be_imported_hides_no_other_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FAMILY, ("broken", "no_such_distribution:load"))
    assert "cartpole" in known_benchmarks()
    with pytest.raises(ConfigError, match=r"'broken' cannot be loaded.*no_such_distribution"):
        find_benchmark("zebra")


def test_a_distribution_that_exits_when_it_is_imported_ends_no_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "exits_when_imported.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    install(monkeypatch, FAMILY, ("exits", "exits_when_imported:load"))
    assert "cartpole" in known_benchmarks()


def test_the_families_here_are_those_whose_environments_are_trusted() -> None:
    root = Path(__file__).parents[2]
    projects = [
        tomllib.loads(file.read_text()) for file in (root / "benchmarks").glob("*/pyproject.toml")
    ]
    points = [
        point
        for project in projects
        for point in project["project"]["entry-points"][discovery.GROUP].values()
    ]
    assert {point.partition(":")[0] for point in points} | {"evopolicy"} == discovery.SHIPPED


def test_a_name_two_distributions_offer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FAMILY, ("other", "evopolicy_classic_control:load"))
    with pytest.raises(ConfigError, match="uninstall all but one"):
        find_benchmark("cartpole")


def test_an_entry_seen_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FAMILY, FAMILY)
    assert find_benchmark("cartpole").spec.slug == "cartpole"


def test_listing_names_imports_no_environment() -> None:
    code = (
        "import sys; from evopolicy.authoring import known_benchmarks; assert 'ant' in "
        "known_benchmarks();print([m for m in ('gymnasium', 'mujoco', 'pygame', 'PIL', 'imageio') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_programs_lie_inside_an_installed_package_and_beside_src_in_a_source_tree(
    tmp_path: Path,
) -> None:
    package = tmp_path / "src" / "family"
    package.mkdir(parents=True)
    assert programs_folder(str(package / "__init__.py")) == tmp_path / "programs"
    (package / "programs").mkdir()
    assert programs_folder(str(package / "__init__.py")) == package / "programs"
