"""What a Run may spend, and its accounting."""

from __future__ import annotations

from dataclasses import dataclass

from evopolicy.kernel.errors import ConfigError, Refused

FINISH_RULES = ("allow_early", "exhaust")
CANDIDATE_RULES = ("all", "named")
MAX_SUBMISSIONS = 20_000
MAX_UNITS = 4_000_000
"""Episode units of one Run. What a journal asks for beyond these would only fill its reader's
memory."""


@dataclass(frozen=True)
class Budget:
    """The limits of a Session. One use of one pool index is one Episode unit."""

    submissions: int
    """Submissions the agent may make."""
    episodes: int
    """Episode units in all."""
    per_submission: int | None
    """Units one Submission may use at most; None: no cap beyond the pool."""
    finish: str
    """'allow_early', or 'exhaust': no early finish, and the Session closes itself when the budget
    is spent."""
    candidates: str
    """'all' published Submissions are candidates for Validation, or those `finish` has 'named'."""

    def __post_init__(self) -> None:
        if self.submissions < 1:
            raise ConfigError(f"budget.submissions: at least 1 is needed, found {self.submissions}")
        if self.episodes < 1:
            raise ConfigError(f"budget.episodes: at least 1 is needed, found {self.episodes}")
        if self.per_submission is not None and self.per_submission < 1:
            raise ConfigError(
                f"budget.per_submission: at least 1 or null is needed, found {self.per_submission}"
            )
        if self.finish not in FINISH_RULES:
            raise ConfigError(
                f"budget.finish: one of {', '.join(FINISH_RULES)} is needed, found '{self.finish}'"
            )
        if self.candidates not in CANDIDATE_RULES:
            raise ConfigError(
                f"budget.candidates: one of {', '.join(CANDIDATE_RULES)} is needed, found "
                f"'{self.candidates}'"
            )

    def check_against(self, pool_size: int) -> None:
        """Raises ConfigError for a combination that makes no sense with a training pool of
        `pool_size` Episodes, and for more than any Run's journal may hold."""
        for key, number, most in (
            ("submissions", self.submissions, MAX_SUBMISSIONS),
            ("episodes", self.episodes, MAX_UNITS),
        ):
            if number > most:
                raise ConfigError(
                    f"budget.{key}: at most {most:,} can be recorded of one Run, found "
                    f"{number:,}; lower it"
                )
        if self.per_submission is not None and self.per_submission > pool_size:
            raise ConfigError(
                f"budget.per_submission: the cap {self.per_submission} is above the pool's "
                f"{pool_size} Episodes; lower it or raise pool.training"
            )
        reach = self.submissions * self.cap(pool_size)
        if self.finish == "exhaust" and reach < self.episodes:
            raise ConfigError(
                f"budget.finish: 'exhaust' cannot be reached: {self.submissions} Submissions of "
                f"at most {self.cap(pool_size)} Episodes spend {reach} of {self.episodes} units; "
                "raise budget.submissions, budget.per_submission or pool.training, or lower "
                "budget.episodes"
            )

    def cap(self, pool_size: int) -> int:
        """Units one Submission can use: an index cannot be named twice in it."""
        return pool_size if self.per_submission is None else min(self.per_submission, pool_size)


@dataclass(frozen=True)
class Account:
    """What has been spent of a Budget with a pool of `pool_size`."""

    budget: Budget
    pool_size: int
    submissions_used: int = 0
    episodes_used: int = 0

    @property
    def submissions_left(self) -> int:
        return self.budget.submissions - self.submissions_used

    @property
    def episodes_left(self) -> int:
        return self.budget.episodes - self.episodes_used

    @property
    def spent(self) -> bool:
        """Nothing more can be submitted."""
        return self.submissions_left == 0 or self.episodes_left == 0

    def check(self, units: int) -> None:
        """Raises Refused where a Submission of `units` Episodes is over the budget, its cap, or
        breaks `exhaust`."""
        if self.submissions_left == 0:
            raise Refused(
                "no_submissions_left",
                f"all {self.budget.submissions} Submissions are used",
                "finish",
            )
        if units > self.episodes_left:
            raise Refused(
                "over_budget",
                f"{units} Episodes are asked for and {self.episodes_left} units are left",
                f"name at most {min(self.episodes_left, self.budget.cap(self.pool_size))} indices"
                if self.episodes_left
                else "finish",
            )
        cap = self.budget.cap(self.pool_size)
        if units > cap:
            raise Refused(
                "over_cap",
                f"{units} Episodes are asked for, one Submission may use {cap}",
                f"name at most {cap}",
            )
        if self.budget.finish == "exhaust":
            self._check_reach(units, cap)

    def _check_reach(self, units: int, cap: int) -> None:
        left, submissions = self.episodes_left - units, self.submissions_left - 1
        if left > submissions * cap:
            least = self.episodes_left - submissions * cap
            raise Refused(
                "unreachable",
                f"after {units} Episodes, {submissions} Submissions of at most {cap} could not "
                f"spend the other {left} units, and this budget has to be spent whole",
                f"name at least {least} indices",
            )
