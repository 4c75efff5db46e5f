"""Selection: which of the handed-off candidates is measured on Assessment. A rule is one object,
with all it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from evopolicy.kernel.errors import ConfigError
from evopolicy.kernel.named import distribution_of, load_named

TIE_BREAKS = ("fewer_failures", "latest")
GROUP = "evopolicy.selection"
"""Entry points of other distributions, each to a SelectionRule; a name of ours cannot be taken
over."""


@dataclass(frozen=True)
class SelectionConfig:
    """How the candidate to be measured is chosen. Raises ConfigError for an unknown rule or
    tie-break."""

    rule: str
    """A name in RULES, or what an installed distribution calls its own."""
    tie_break: str
    """'fewer_failures' (fewer Policy failures on Validation, then the latest) or 'latest' (the
    paper's)."""

    def __post_init__(self) -> None:
        selection_rule(self.rule)
        if self.tie_break not in TIE_BREAKS:
            raise ConfigError(
                f"selection.tie_break: one of {', '.join(TIE_BREAKS)} is needed, found "
                f"'{self.tie_break}'"
            )

    @property
    def needs_validation(self) -> bool:
        """Whether the rule wants the candidates' scores on Validation."""
        return selection_rule(self.rule).needs_validation

    @property
    def breaks_ties(self) -> bool:
        """Whether the rule looks at `tie_break`."""
        return selection_rule(self.rule).breaks_ties


@dataclass(frozen=True)
class Measurement:
    """A Program's scores on one split."""

    mean: float
    standard_error: float | None
    """Sample standard deviation over the square root of n; None for a single Episode."""
    episodes: int
    failed: int
    """Episodes in which the Policy failed."""


def measure(scores: Sequence[float], failed: int) -> Measurement:
    """Mean and standard error of one Episode score each. `scores` is not empty."""
    n = len(scores)
    mean = math.fsum(scores) / n
    if n == 1:
        return Measurement(mean, None, n, failed)
    variance = math.fsum((score - mean) ** 2 for score in scores) / (n - 1)
    return Measurement(mean, math.sqrt(variance / n), n, failed)


@dataclass(frozen=True)
class Candidate:
    """A published Submission that was handed off."""

    submission: int
    program: str
    """Digest."""
    training_score: float
    validation: Measurement | None
    named: int | None
    """Its place in what the agent's `finish` named, from 0; None where it named none or not this
    one."""

    @property
    def validated(self) -> Measurement:
        """Its scores on Validation. Raises ConfigError where it was not measured there."""
        if self.validation is None:
            raise ConfigError(
                "selection.rule: this rule needs Validation; set pool.validation to at least 1"
            )
        return self.validation


@dataclass(frozen=True)
class SelectionRule:
    """A rule with what it needs: all there is to it but its line in RULES, or its entry point, and
    its YAML."""

    choose: Callable[[Sequence[Candidate], SelectionConfig], Candidate]
    """One of the candidates, which are at least one and in the order of their Submissions."""
    needs_validation: bool
    """Whether the candidates are measured on Validation first: without, `validation` may be
    None."""
    breaks_ties: bool
    """Whether it looks at `tie_break`. Where not, Runs under different ones are of one
    condition."""


def highest(
    candidates: Sequence[Candidate], config: SelectionConfig, value: Callable[[Candidate], float]
) -> Candidate:
    """The candidate of the highest `value`; among equal ones as `config.tie_break` says."""

    def rank(candidate: Candidate) -> tuple[float, int, int]:
        measured = candidate.validation
        failed = measured.failed if measured and config.tie_break == "fewer_failures" else 0
        return value(candidate), -failed, candidate.submission

    return max(candidates, key=rank)


def _validation_mean(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    return highest(candidates, config, lambda candidate: candidate.validated.mean)


def _validation_lcb(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    """A steady Program before a lucky one: 1.645 standard errors are 95 % of a normal distribution,
    on one side."""
    return highest(
        candidates, config, lambda c: c.validated.mean - 1.645 * (c.validated.standard_error or 0.0)
    )


def _training_mean(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    return highest(candidates, config, lambda candidate: candidate.training_score)


def _last(candidates: Sequence[Candidate], _: SelectionConfig) -> Candidate:
    return max(candidates, key=lambda candidate: candidate.submission)


def _agent_first(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    named = [candidate for candidate in candidates if candidate.named is not None]
    return (
        min(named, key=lambda candidate: candidate.named or 0)
        if named
        else _last(candidates, config)
    )


RULES: dict[str, SelectionRule] = {
    "validation_mean": SelectionRule(_validation_mean, needs_validation=True, breaks_ties=True),
    "validation_lcb": SelectionRule(_validation_lcb, needs_validation=True, breaks_ties=True),
    "training_mean": SelectionRule(_training_mean, needs_validation=False, breaks_ties=True),
    "last": SelectionRule(_last, needs_validation=False, breaks_ties=False),
    "agent_first": SelectionRule(_agent_first, needs_validation=False, breaks_ties=False),
}
"""By the names of `conf/selection/`, which say in a line what each chooses."""


@cache
def selection_rule(name: str) -> SelectionRule:
    """The rule `name`, ours or an installed distribution's. Raises ConfigError, with the near
    name."""
    rule: SelectionRule = load_named("selection.rule", name, GROUP, RULES, ConfigError)
    return rule


def rule_versions(name: str) -> dict[str, str]:
    """The distribution the rule `name` comes from, with its version; nothing for a rule of ours."""
    return distribution_of(name, GROUP, RULES)


def select(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    """The candidate `config.rule` chooses. `candidates` is not empty."""
    return selection_rule(config.rule).choose(candidates, config)
