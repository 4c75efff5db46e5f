"""Budgets: what may be spent, and that `exhaust` can always be kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evopolicy.kernel.errors import ConfigError, Refused
from evopolicy.kernel.session.budget import MAX_SUBMISSIONS, MAX_UNITS, Account, Budget

EARLY = Budget(
    submissions=3, episodes=10, per_submission=None, finish="allow_early", candidates="all"
)
EXHAUST = replace(EARLY, finish="exhaust")


@pytest.mark.parametrize(
    ("key", "most"), [("submissions", MAX_SUBMISSIONS), ("episodes", MAX_UNITS)]
)
def test_a_budget_beyond_what_a_journal_holds_is_refused_before_the_run_and_not_within_it(
    key: str, most: int
) -> None:
    most_there_is, more = ({key: number} for number in (most, most + 1))
    replace(EARLY, **cast(Any, most_there_is)).check_against(8)
    with pytest.raises(
        ConfigError, match=rf"budget.{key}: at most {most:,} can be recorded of one Run"
    ):
        replace(EARLY, **cast(Any, more)).check_against(8)


def code(account: Account, units: int) -> str:
    try:
        account.check(units)
    except Refused as refused:
        assert refused.remedy
        return refused.code
    return ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"submissions": 0}, "budget.submissions: at least 1"),
        ({"episodes": 0}, "budget.episodes: at least 1"),
        ({"per_submission": 0}, "budget.per_submission: at least 1 or null"),
        (
            {"finish": "never"},
            "budget.finish: one of allow_early, exhaust is needed, found 'never'",
        ),
        ({"candidates": "best"}, "budget.candidates: one of all, named is needed, found 'best'"),
    ],
)
def test_a_budget_that_cannot_be_is_refused_by_its_key(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(EARLY, **changes)


def after(account: Account, units: int) -> Account:
    """The account once a Submission of `units` was let through."""
    account.check(units)
    return replace(
        account,
        submissions_used=account.submissions_used + 1,
        episodes_used=account.episodes_used + units,
    )


def test_a_cap_above_the_pool_is_refused() -> None:
    replace(EARLY, per_submission=8).check_against(8)
    with pytest.raises(ConfigError, match="the cap 9 is above the pool's 8 Episodes"):
        replace(EARLY, per_submission=9).check_against(8)


def test_a_budget_that_cannot_be_exhausted_is_refused() -> None:
    replace(EXHAUST, episodes=24).check_against(8)
    with pytest.raises(
        ConfigError, match="3 Submissions of at most 8 Episodes spend 24 of 25 units"
    ):
        replace(EXHAUST, episodes=25).check_against(8)
    replace(EARLY, episodes=25).check_against(8)


def test_allow_early_spends_as_it_likes_up_to_its_limits() -> None:
    account = Account(EARLY, pool_size=8)
    assert [code(account, units) for units in (1, 8, 9, 11)] == ["", "", "over_cap", "over_budget"]
    account = after(account, 8)
    assert (account.episodes_left, account.submissions_left, account.spent) == (2, 2, False)
    assert [code(account, units) for units in (2, 3)] == ["", "over_budget"]
    account = after(after(account, 1), 1)
    assert account.spent
    assert account.episodes_left == 0
    assert code(account, 1) == "no_submissions_left"


def test_a_cap_holds_for_each_submission() -> None:
    account = Account(replace(EARLY, per_submission=2), pool_size=8)
    assert [code(account, units) for units in (2, 3)] == ["", "over_cap"]


def test_a_budget_is_spent_when_either_limit_is() -> None:
    assert after(Account(EARLY, 20), 10).spent
    assert after(Account(replace(EARLY, submissions=1), 20), 1).spent


def test_exhaust_refuses_what_could_not_be_made_up() -> None:
    account = Account(replace(EXHAUST, per_submission=4), pool_size=8)
    assert [code(account, units) for units in (1, 2, 4)] == ["unreachable", "", ""]
    account = after(account, 2)
    assert [code(account, units) for units in (3, 4)] == ["unreachable", ""]
    with pytest.raises(Refused, match="could not spend the other 5 units") as caught:
        account.check(3)
    assert caught.value.remedy == "name at least 4 indices"
    assert after(after(account, 4), 4).episodes_left == 0


def test_a_refusal_spends_nothing() -> None:
    account = Account(EXHAUST, pool_size=4)
    with pytest.raises(Refused):
        account.check(1)
    assert (account.submissions_used, account.episodes_used) == (0, 0)


@given(
    submissions=st.integers(1, 8), episodes=st.integers(1, 40), pool=st.integers(1, 12),
    cap=st.none() | st.integers(1, 12), asked=st.lists(st.integers(1, 14), max_size=12),
)  # fmt: skip
def test_under_exhaust_whatever_was_accepted_can_be_completed_to_exactly_the_whole(
    submissions: int, episodes: int, pool: int, cap: int | None, asked: list[int]
) -> None:
    budget = Budget(submissions, episodes, cap, "exhaust", "all")
    try:
        budget.check_against(pool)
    except ConfigError:
        assume(False)
    account = Account(budget, pool)
    for units in asked:
        if code(account, units) == "":
            account = after(account, units)
    while not account.spent:
        open_to_it = [
            units for units in range(1, budget.cap(pool) + 1) if code(account, units) == ""
        ]
        assert open_to_it, (
            f"stuck with {account.episodes_left} units and {account.submissions_left} Submissions "
            "left"
        )
        account = after(account, open_to_it[0])
    assert account.episodes_left == 0


@given(
    asked=st.lists(st.integers(1, 14), max_size=12),
    finish=st.sampled_from(["allow_early", "exhaust"]),
)
def test_nothing_is_ever_overspent(asked: list[int], finish: str) -> None:
    account = Account(Budget(4, 20, 7, finish, "all"), 9)
    for units in asked:
        if code(account, units) == "":
            account = after(account, units)
        assert account.submissions_left >= 0
        assert account.episodes_left >= 0
