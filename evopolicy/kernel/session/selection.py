"""Selection: which of the handed-off candidates is measured on Assessment. Plain functions in the dict RULES."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evopolicy.kernel.errors import ConfigError, did_you_mean

TIE_BREAKS = ("fewer_failures", "latest")
LCB_STANDARD_ERRORS = 1.645
"""One-sided 95 % of a normal distribution."""


@dataclass(frozen=True)
class SelectionConfig:
    """How the candidate to be measured is chosen. Raises ConfigError for an unknown rule or tie-break."""

    rule: str
    """A name in RULES."""
    tie_break: str
    """'fewer_failures' (fewer Policy failures on Validation, then the latest) or 'latest' (the paper's)."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(f"selection.rule: '{self.rule}' is unknown.{did_you_mean(self.rule, RULES)}")
        if self.tie_break not in TIE_BREAKS:
            raise ConfigError(
                f"selection.tie_break: one of {', '.join(TIE_BREAKS)} is needed, found '{self.tie_break}'"
            )

    @property
    def needs_validation(self) -> bool:
        """Whether the rule wants the candidates' scores on Validation."""
        return self.rule in NEED_VALIDATION


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
    """Its place in what the agent's `finish` named, from 0; None where it named none or not this one."""


Rule = Callable[[Sequence[Candidate], SelectionConfig], Candidate]


def validation_mean(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    """The highest mean score on Validation."""
    return _best(candidates, config, lambda candidate: _validated(candidate).mean)


def validation_lcb(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    """The highest Validation mean less 1.645 standard errors: a steady Program before a lucky one."""

    def bound(candidate: Candidate) -> float:
        measured = _validated(candidate)
        return measured.mean - LCB_STANDARD_ERRORS * (measured.standard_error or 0.0)

    return _best(candidates, config, bound)


def training_mean(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    """The highest score the agent saw, each on the Episodes of its own Submission."""
    return _best(candidates, config, lambda candidate: candidate.training_score)


def last(candidates: Sequence[Candidate], _: SelectionConfig) -> Candidate:
    """The latest Submission."""
    return max(candidates, key=lambda candidate: candidate.submission)


def agent_first(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    """The first one the agent's `finish` named; the latest where it named none."""
    named = [candidate for candidate in candidates if candidate.named is not None]
    return min(named, key=lambda candidate: candidate.named or 0) if named else last(candidates, config)


RULES: dict[str, Rule] = {
    "validation_mean": validation_mean,
    "validation_lcb": validation_lcb,
    "training_mean": training_mean,
    "last": last,
    "agent_first": agent_first,
}
NEED_VALIDATION = frozenset({"validation_mean", "validation_lcb"})


def select(candidates: Sequence[Candidate], config: SelectionConfig) -> Candidate:
    """The candidate `config.rule` chooses. `candidates` is not empty."""
    return RULES[config.rule](candidates, config)


def _best(candidates: Sequence[Candidate], config: SelectionConfig, key: Callable[[Candidate], float]) -> Candidate:
    def rank(candidate: Candidate) -> tuple[float, int, int]:
        measured = candidate.validation
        failed = measured.failed if measured and config.tie_break == "fewer_failures" else 0
        return key(candidate), -failed, candidate.submission

    return max(candidates, key=rank)


def _validated(candidate: Candidate) -> Measurement:
    if candidate.validation is None:
        raise ConfigError("selection.rule: this rule needs Validation; set pool.validation to at least 1")
    return candidate.validation
