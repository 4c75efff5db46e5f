"""Pools: where seeds come from, what moves them and what never does, and how an agent names
Episodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evopolicy.authoring import find_benchmark
from evopolicy.kernel.errors import BenchmarkError, ConfigError, Refused
from evopolicy.kernel.ports.pool import (
    SPLITS,
    Pool,
    PoolConfig,
    case_name,
    derive_seed,
    format_selector,
    paper_case,
    paper_hash_case,
    parse_selector,
    plan_pool,
)
from tests.kernel.bench import Tally

DERIVED = PoolConfig("derived", training=8, validation=4, assessment=4, seed=0)
PAPER = PoolConfig("paper", training=1024, validation=16, assessment=32, seed=0)


def seeds(pool: Pool, split: str) -> list[int]:
    return [episode.seed for episode in getattr(pool, split)]


def policy_seeds(pool: Pool, split: str) -> list[int]:
    return [episode.policy_seed for episode in getattr(pool, split)]


# --- derived --------------------------------------------------------------------------------------


def test_derived_seeds_are_a_stable_contract() -> None:
    pool = plan_pool(DERIVED, Tally(), b"secret")
    assert seeds(pool, "training")[:2] == [8763436560856304847, 1650562653048146470]
    assert seeds(pool, "validation")[:1] == [1341932293398328388]
    assert seeds(pool, "assessment")[:1] == [5574329761191485917]
    assert policy_seeds(pool, "training")[:2] == [95149444, 2757642045]


def test_seeds_fit_what_the_benchmark_takes_and_the_papers_stay_as_published() -> None:
    few, all_of_them = (plan_pool(DERIVED, Tally(seed_bits=bits), b"secret") for bits in (31, 63))
    for split in SPLITS:
        assert seeds(few, split) == [seed >> 32 for seed in seeds(all_of_them, split)]
        assert policy_seeds(few, split) == policy_seeds(all_of_them, split)
    paper, known = (plan_pool(PAPER, Tally(seed_bits=bits)) for bits in (31, 63))
    assert paper == known


def test_a_pool_in_which_short_seeds_meet_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="the same Episode seed twice"):
        plan_pool(replace(DERIVED, training=64), Tally(seed_bits=2))


def test_a_seed_is_what_the_docstring_says() -> None:
    hasher = hashlib.sha256(b"evopolicy/seed/1")
    for part in (b"case", b"secret", b"7"):
        hasher.update(len(part).to_bytes(8, "big") + part)
    assert derive_seed("case", b"secret", 7) == int.from_bytes(hasher.digest()[:8], "big") >> 1


@given(
    st.lists(st.text("ab", max_size=4), max_size=4), st.lists(st.text("ab", max_size=4), max_size=4)
)
def test_no_two_parts_of_a_seed_run_together(one: list[str], two: list[str]) -> None:
    assert (derive_seed("d", *one) == derive_seed("d", *two)) == (one == two)
    assert 0 <= derive_seed("d", *one) < 2**63


@pytest.mark.parametrize("changed", ["training", "validation", "assessment"])
def test_another_size_of_one_split_moves_nothing(changed: str) -> None:
    changes: dict[str, Any] = {changed: 20}
    small = plan_pool(DERIVED, Tally(), b"secret")
    large = plan_pool(replace(DERIVED, **changes), Tally(), b"secret")
    for split in SPLITS:
        known = getattr(small, split)
        assert getattr(large, split)[: len(known)] == known


@pytest.mark.parametrize(
    "other",
    [
        lambda: plan_pool(DERIVED, Tally(), b"another"),
        lambda: plan_pool(DERIVED, Tally()),
        lambda: plan_pool(replace(DERIVED, seed=1), Tally(), b"secret"),
        lambda: plan_pool(DERIVED, Tally(id="test/Tally-v2"), b"secret"),
        lambda: plan_pool(DERIVED, Tally({"gravity": 2}), b"secret"),
    ],
    ids=["secret", "no secret", "pool seed", "benchmark", "parameters"],
)
def test_what_defines_the_pool_changes_every_seed(other: Any) -> None:
    one, two = plan_pool(DERIVED, Tally(), b"secret"), other()
    for of in (seeds, policy_seeds):
        for split in SPLITS:
            assert not set(of(one, split)) & set(of(two, split))


def test_splits_are_disjoint_and_policy_seeds_are_not_case_seeds() -> None:
    pool = plan_pool(
        replace(DERIVED, training=200, validation=100, assessment=100), Tally(), b"secret"
    )
    for of in (seeds, policy_seeds):
        assert len({seed for split in SPLITS for seed in of(pool, split)}) == 400
    assert not {s % 2**32 for split in SPLITS for s in seeds(pool, split)} & {
        s for split in SPLITS for s in policy_seeds(pool, split)
    }
    assert all(0 <= seed < 2**32 for split in SPLITS for seed in policy_seeds(pool, split))


def test_indices_count_from_zero_in_every_split_and_scenarios_are_planned() -> None:
    pool = plan_pool(DERIVED, Tally(), b"secret")
    for split in SPLITS:
        episodes = getattr(pool, split)
        assert [episode.index for episode in episodes] == list(range(len(episodes)))
        assert all(episode.scenario == {"offset": (episode.seed % 7) / 8} for episode in episodes)


def test_select_keeps_the_order_that_was_asked_for() -> None:
    pool = plan_pool(DERIVED, Tally(), b"secret")
    assert [episode.index for episode in pool.select((5, 0, 3))] == [5, 0, 3]


class BadPlan(Tally):
    def plan(self, _split: str, _seed: int) -> Mapping[str, Any]:
        return [1]  # type: ignore[return-value]


def test_a_plan_that_is_no_dict_is_named() -> None:
    with pytest.raises(BenchmarkError, match="tally: plan returned a list, a dict is needed"):
        plan_pool(DERIVED, BadPlan(), b"")


def test_the_same_seed_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evopolicy.kernel.ports.pool.paper_case", lambda _, index: index)
    with pytest.raises(BenchmarkError, match="same Episode seed twice"):
        plan_pool(PAPER, Tally())


# --- the paper's ----------------------------------------------------------------------------------


def test_the_papers_list_is_the_published_one() -> None:
    assert [paper_case("training", n) for n in range(5)] == [
        1654615998,
        1806341205,
        173879092,
        1112038970,
        2087043557,
    ]
    assert [paper_case("assessment", n) for n in range(3)] == [47113601, 1076138659, 870966622]


def test_a_paper_pool_takes_the_first_of_each_split_whatever_secret_or_seed() -> None:
    pool = plan_pool(PAPER, Tally(), b"secret")
    assert seeds(pool, "training")[0] == 1654615998
    assert seeds(pool, "assessment") == [paper_case("assessment", n) for n in range(32)]
    other = plan_pool(replace(PAPER, seed=9, training=4), Tally(), b"another")
    assert seeds(other, "training") == seeds(pool, "training")[:4]
    assert seeds(other, "validation") == seeds(pool, "validation")


def test_the_papers_hash_derivation() -> None:
    digest = hashlib.sha256(b"gym/acrobot/heldout/000031").digest()
    assert (
        paper_hash_case("gym/acrobot", "assessment", 31)
        == int.from_bytes(digest[:8], "big") % 2**32
    )
    pool = plan_pool(replace(PAPER, cases="hash", training=2000), Tally(case_name="gym/racing"))
    assert seeds(pool, "training")[1999] == paper_hash_case("gym/racing", "training", 1999)
    assert seeds(pool, "validation")[0] == paper_hash_case("gym/racing", "validation", 0)


def test_the_papers_names() -> None:
    assert (
        case_name(Tally(id="minigrid/MiniGrid-FourRooms-v0").spec)
        == "gymnasium/MiniGrid-FourRooms-v0"
    )
    assert case_name(find_benchmark("acrobot").spec) == "gym/acrobot"
    named = plan_pool(replace(PAPER, cases="hash"), Tally(case_name="gym/own"))
    assert seeds(named, "training")[0] == paper_hash_case("gym/own", "training", 0)


def test_policy_seeds_stay_opaque_in_the_papers_pool_but_for_its_random_row() -> None:
    opaque = plan_pool(PAPER, Tally(), b"secret")
    assert not {seed + 1 for seed in seeds(opaque, "assessment")} & set(
        policy_seeds(opaque, "assessment")
    )
    plus_one = plan_pool(replace(PAPER, policy_seed="case_plus_one"), Tally())
    assert policy_seeds(plus_one, "assessment")[0] == 47113602


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "other"}, "pool.kind: one of derived, paper is needed, found 'other'"),
        ({"cases": "x"}, "pool.cases: one of files, hash"),
        ({"policy_seed": "x"}, "pool.policy_seed: one of opaque, case_plus_one"),
        ({"training": 0}, "pool.training: at least 1 is needed, found 0"),
        ({"validation": -1}, "pool.validation: at least 0 is needed, found -1"),
        ({"assessment": 0}, "pool.assessment: at least 1 is needed, found 0"),
        (
            {"kind": "derived", "validation": 500_001},
            "pool.validation: at most 500,000 are possible, found 500,001",
        ),
        ({"training": 1025}, "pool.training: the paper's list has 1024 cases, 1025 are asked for"),
        ({"assessment": 257}, "pool.assessment: the paper's list has 256 cases"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_by_its_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(PAPER, **changes)


# --- selectors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("0", (0,)),
        ("9", (9,)),
        ("0:10", tuple(range(10))),
        ("0:3,7", (0, 1, 2, 7)),
        ("7,0:3", (7, 0, 1, 2)),
        (" 1 , 3:5 ", (1, 3, 4)),
        ("007", (7,)),
        ("4:5", (4,)),
    ],
)
def test_a_selector_names_indices_in_its_order(text: str, indices: tuple[int, ...]) -> None:
    assert parse_selector(text, 10) == indices


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "selector_empty"),
        ("   ", "selector_empty"),
        ("3:3", "selector_empty"),
        ("5:3", "selector_empty"),
        ("0,4:4", "selector_empty"),
        (",", "selector_malformed"),
        ("1,", "selector_malformed"),
        (",1", "selector_malformed"),
        ("1,,2", "selector_malformed"),
        ("a", "selector_malformed"),
        ("-1", "selector_malformed"),
        ("+1", "selector_malformed"),
        ("1.0", "selector_malformed"),
        ("0x1", "selector_malformed"),
        ("1 2", "selector_malformed"),
        ("0 :3", "selector_malformed"),
        (":3", "selector_malformed"),
        ("3:", "selector_malformed"),
        (":", "selector_malformed"),
        ("0:3:1", "selector_malformed"),
        ("0-3", "selector_malformed"),
        ("*", "selector_malformed"),
        ("\u0663", "selector_malformed"),
        ("1" * 5_000, "selector_malformed"),
        ("1\x00", "selector_malformed"),
        ("10", "selector_out_of_pool"),
        ("0:11", "selector_out_of_pool"),
        ("999999999", "selector_out_of_pool"),
        ("0:999999999", "selector_out_of_pool"),
        ("1,1", "selector_duplicate"),
        ("0:3,2", "selector_duplicate"),
        ("2,0:3", "selector_duplicate"),
        ("0:5,3:8", "selector_duplicate"),
        ("0:10," * 9 + "0:10", "selector_duplicate"),
    ],
    ids=lambda value: value[:14].encode("unicode_escape").decode(),
)
def test_every_other_selector_is_refused_with_reason_and_remedy(text: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_selector(text, 10)
    assert caught.value.code == code
    assert caught.value.reason
    assert caught.value.remedy
    assert len(caught.value.reason) < 200


def test_a_short_selector_cannot_make_a_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 KiB of repeated ranges over a large pool would be hundreds of millions of indices."""
    asked: list[str] = []
    from evopolicy.kernel.ports import pool

    parse_part = pool._parse_part
    monkeypatch.setattr(
        pool, "_parse_part", lambda part, *rest: asked.append(part) or parse_part(part, *rest)
    )
    with pytest.raises(Refused):
        parse_selector(",".join(["0:100000"] * 7_000), 100_000)
    assert len(asked) == 2


@given(st.lists(st.integers(0, 30), unique=True, min_size=1).map(tuple))
def test_a_selector_round_trips(indices: tuple[int, ...]) -> None:
    assert parse_selector(format_selector(indices), 31) == indices


@given(st.integers(1, 40).flatmap(lambda n: st.permutations(range(n))))
def test_the_formatted_selector_is_the_shortest_of_its_order(order: list[int]) -> None:
    runs = 1 + sum(b != a + 1 for a, b in pairwise(order))
    assert len(format_selector(tuple(order)).split(",")) == runs


@given(st.text("0123456789:, ", max_size=12))
def test_whatever_is_typed_is_answered_or_refused(text: str) -> None:
    try:
        indices = parse_selector(text, 20)
    except Refused:
        return
    assert len(set(indices)) == len(indices) > 0
    assert all(0 <= index < 20 for index in indices)
