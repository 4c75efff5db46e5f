"""Selection: each rule and each tie break, by cases worked by hand and by what always holds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.session.selection import (
    RULES,
    Candidate,
    Measurement,
    SelectionConfig,
    measure,
    select,
)


def candidate(
    number: int, mean: float = 0.0, error: float | None = 0.0, failed: int = 0, training: float = 0.0,
    named: int | None = None,
) -> Candidate:  # fmt: skip
    return Candidate(
        number, f"program-{number}", training, Measurement(mean, error, 4, failed), named
    )


def chosen(rule: str, *candidates: Candidate, tie_break: str = "fewer_failures") -> int:
    return select(candidates, SelectionConfig(rule, tie_break)).submission


def test_validation_mean_takes_the_highest_mean() -> None:
    assert (
        chosen("validation_mean", candidate(1, 2.0), candidate(2, 3.0, failed=4), candidate(3, 1.0))
        == 2
    )


def test_a_tie_goes_to_fewer_failures_then_to_the_latest() -> None:
    assert chosen("validation_mean", candidate(1, 3.0, failed=0), candidate(2, 3.0, failed=1)) == 1
    assert chosen("validation_mean", candidate(1, 3.0, failed=1), candidate(2, 3.0, failed=1)) == 2


def test_the_papers_tie_break_is_the_latest_alone() -> None:
    tied = (candidate(1, 3.0, failed=0), candidate(2, 3.0, failed=1), candidate(3, 2.0))
    assert chosen("validation_mean", *tied, tie_break="latest") == 2


def test_the_lower_bound_prefers_the_steady_to_the_lucky() -> None:
    """10 - 1.645 x 2 = 6.71 is below 8 - 1.645 x 0.5 = 7.1775; at an error of 1.7 it is 7.2035."""
    assert chosen("validation_lcb", candidate(1, 8.0, 0.5), candidate(2, 10.0, 2.0)) == 1
    assert chosen("validation_lcb", candidate(1, 8.0, 0.5), candidate(2, 10.0, 1.7)) == 2
    assert chosen("validation_lcb", candidate(1, 8.0, None), candidate(2, 8.5, 0.5)) == 1


def test_training_mean_takes_what_the_agent_saw() -> None:
    assert (
        chosen("training_mean", candidate(1, 9.0, training=1.0), candidate(2, 0.0, training=2.0))
        == 2
    )
    unmeasured = [Candidate(n, "p", 1.0, None, None) for n in (1, 2)]
    assert chosen("training_mean", *unmeasured) == 2


def test_last_is_the_latest_in_whatever_order() -> None:
    assert chosen("last", candidate(3), candidate(1), candidate(2, 9.0)) == 3


def test_agent_first_is_the_first_that_finish_named() -> None:
    assert chosen("agent_first", candidate(1, named=1), candidate(2, named=0), candidate(3)) == 2
    assert chosen("agent_first", candidate(1), candidate(2)) == 2


def test_an_unknown_rule_names_the_near_one() -> None:
    with pytest.raises(
        ConfigError,
        match=r"selection.rule: 'validation_men' is unknown. Did you mean 'validation_mean'\?",
    ):
        SelectionConfig("validation_men", "latest")
    with pytest.raises(
        ConfigError,
        match=r"selection\.tie_break: one of fewer_failures, latest is needed, found 'x'",
    ):
        SelectionConfig("last", "x")


@pytest.mark.parametrize("rule", [rule for rule in RULES if RULES[rule].needs_validation])
def test_a_rule_that_needs_validation_says_so_without_it(rule: str) -> None:
    config = SelectionConfig(rule, "latest")
    assert config.needs_validation
    with pytest.raises(ConfigError, match="needs Validation"):
        select([Candidate(1, "p", 0.0, None, None)], config)


CANDIDATES = st.lists(
    st.builds(
        lambda mean, failed, training, named: (mean, failed, training, named),
        st.integers(-3, 3).map(float), st.integers(0, 2), st.integers(-3, 3).map(float), st.none() | st.integers(0, 9),
    ),
    min_size=1, max_size=6,
).map(lambda rows: [candidate(n + 1, m, 0.5, f, t, named) for n, (m, f, t, named) in enumerate(rows)])  # fmt: skip


@pytest.mark.parametrize("rule", sorted(RULES))
@given(candidates=CANDIDATES, random=st.randoms())
def test_the_choice_is_a_candidate_and_does_not_depend_on_the_order(
    rule: str, candidates: list[Candidate], random: object
) -> None:
    if len({c.named for c in candidates if c.named is not None}) < sum(
        c.named is not None for c in candidates
    ):
        return  # `finish` names a Submission once
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    config = SelectionConfig(rule, "fewer_failures")
    assert select(shuffled, config) == select(candidates, config)
    assert select(candidates, config) in candidates


@given(CANDIDATES, st.sampled_from(["fewer_failures", "latest"]))
def test_no_candidate_beats_the_validation_choice(
    candidates: list[Candidate], tie_break: str
) -> None:
    best = select(candidates, SelectionConfig("validation_mean", tie_break))
    for other in candidates:
        assert best.validation is not None
        assert other.validation is not None
        assert other.validation.mean <= best.validation.mean


def test_measure_by_hand() -> None:
    """1, 2, 3, 4: mean 2.5, sample variance 5/3, standard error sqrt(5/12)."""
    measured = measure([1.0, 2.0, 3.0, 4.0], failed=1)
    assert measured == Measurement(2.5, measured.standard_error, 4, 1)
    assert measured.standard_error == pytest.approx(math.sqrt(5 / 12))
    assert measure([7.0], 0) == Measurement(7.0, None, 1, 0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.randoms())
def test_a_measurement_does_not_depend_on_the_order_of_episodes(
    scores: list[float], random: object
) -> None:
    shuffled = list(scores)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert measure(shuffled, 0) == measure(scores, 0)
