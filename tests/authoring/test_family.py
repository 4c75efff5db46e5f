"""A distribution's table of tasks and what makes Benchmarks of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evopolicy.authoring import BenchmarkError, Family, GymnasiumBenchmark, Profile, table


def profile(slug: str) -> Profile:
    return Profile(
        slug=slug,
        id=f"test/{slug}-v0",
        env_id="evopolicy-test/Toy-v0",
        title="Toy",
        goal="Go right.",
        scoring="Sum of positions.",
        ending="Beyond the end.",
        failure_score=-200.0,
    )


class Special(GymnasiumBenchmark):
    pass


def test_a_family_may_give_single_tasks_a_class_of_their_own() -> None:
    family = Family(
        "nowhere:load", table(profile("plain"), profile("special")), Path(), {"special": Special}
    )
    assert type(family("special")) is Special
    assert type(family("plain")) is GymnasiumBenchmark


def test_a_family_may_give_all_tasks_one_class() -> None:
    assert (
        type(Family("nowhere:load", table(profile("plain")), Path(), Special)("plain")) is Special
    )


def test_an_unknown_task_is_refused_with_the_near_name() -> None:
    with pytest.raises(BenchmarkError, match=r"no task 'plian'\. Did you mean 'plain'"):
        Family("nowhere:load", table(profile("plain")), Path())("plian")


def test_two_tasks_of_one_slug_are_refused() -> None:
    with pytest.raises(BenchmarkError, match="two tasks have the slug 'plain'"):
        table(profile("plain"), profile("plain"))
