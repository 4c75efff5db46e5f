"""What each failure means: one table, which the Run decides by and the tests go through row by
row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

POLICY_FAILED = "policy_failed"
PROGRAM_REFUSED = "program_refused"
ENGINE_FAULT = "engine_fault"
FINISHED = "finished"
NOTHING_PUBLISHED = "nothing_published"
PROVIDER = "provider"
AUTHENTICATION = "authentication"
UNANSWERED = "unanswered"
WAITED = "provider_waits"
UNEXPLAINED = "unexplained_requests"
FAILING_PAID = "failing_paid"
SAME_EPISODES = "same_episodes"
INEXACT = "inexact_repeats"
SEED_SHOWN = "seed_shown"
NOT_STARTED = "not_started"
HOST_KILLED = "host_killed"


@dataclass(frozen=True)
class Meaning:
    """One row. The event's name is a word of the journal."""

    charged: bool
    """Whether Episode units are spent by it."""
    graded: str
    """What is measured in its place; '' for nothing."""
    valid: bool
    """Whether the Run may stand in tables. False: it is kept, marked, and run again by the same
    command."""
    restarts: Literal["never", "always", "where_it_resumes"]
    """Whether a Run that goes on starts its agent again after it."""
    host: str
    """What the Host does."""


_ENDED = "hands off what is published; the reason is recorded"

MEANINGS: dict[str, Meaning] = {
    POLICY_FAILED: Meaning(
        True,
        "the lower of the declared failure score and the score so far",
        True,
        "never",
        "reports kind, message, step and the Policy's own traceback and output in Feedback",
    ),
    PROGRAM_REFUSED: Meaning(False, "", True, "never", "tells the agent the reason"),
    ENGINE_FAULT: Meaning(
        True,
        "",
        False,
        "never",
        "retries the Episode with the same seeds; then fails that Submission and goes on",
    ),
    FINISHED: Meaning(False, "", True, "never", _ENDED),
    "exited": Meaning(False, "", True, "never", _ENDED),
    "crashed": Meaning(False, "", True, "never", _ENDED),
    "wall_time": Meaning(False, "", True, "never", _ENDED),
    "idle": Meaning(False, "", True, "never", _ENDED),
    "tokens": Meaning(False, "", True, "never", _ENDED),
    "cost": Meaning(False, "", True, "never", _ENDED),
    "requests": Meaning(False, "", True, "never", _ENDED),
    "context": Meaning(False, "", True, "never", _ENDED),
    "refusal": Meaning(False, "", True, "never", _ENDED),
    NOTHING_PUBLISHED: Meaning(
        False, "the initial Program", True, "never", "measures the initial Program; flagged"
    ),
    PROVIDER: Meaning(
        False,
        "",
        False,
        "always",
        "resumes the agent with backoff; at the end keeps and measures what there is",
    ),
    AUTHENTICATION: Meaning(
        False,
        "",
        False,
        "always",
        "says which login to mend; keeps and measures what there is, to be run again",
    ),
    UNANSWERED: Meaning(
        False,
        "",
        False,
        "always",
        "says what the model was not asked or refused for; keeps and measures what there is",
    ),
    WAITED: Meaning(
        False,
        "",
        True,
        "never",
        "flags a Run ended by its wall time of which its provider failed a tenth or more",
    ),
    UNEXPLAINED: Meaning(
        False,
        "",
        True,
        "never",
        "flags a Run whose agent asked the model in ways its stream does not tell of",
    ),
    FAILING_PAID: Meaning(
        False,
        "",
        True,
        "never",
        "flags a Run in which a finished Episode scored less than `failure_score`",
    ),
    SAME_EPISODES: Meaning(
        False,
        "",
        True,
        "never",
        "flags a Run on a task of which every Episode seems to be the same",
    ),
    SEED_SHOWN: Meaning(
        False,
        "",
        True,
        "never",
        "flags a Run on a task whose observations have the hidden seed of their Episode in them",
    ),
    INEXACT: Meaning(
        False,
        "",
        True,
        "never",
        "flags a Run on a task that repeats an Episode only up to the rounding of its numbers",
    ),
    NOT_STARTED: Meaning(
        False, "", True, "always", "says what is missing; the Run stays resumable"
    ),
    HOST_KILLED: Meaning(
        False,
        "",
        False,
        "where_it_resumes",
        "goes on from the journal: no second charge, no lost Submission",
    ),
}

REASON_TEXTS = {
    "nothing_published": "nothing was published: the initial Program was measured",
    "provider": "its provider failed",
    "authentication": "its provider refused the login",
    "unanswered": "its model did not answer what it was asked",
    "provider_waits": "its provider failed for a tenth of its wall time or more",
    "host_killed": "the Host was killed",
    "failing_paid": "finished Episodes scored less than failure_score, so failing paid",
    "inexact_repeats": "its task repeats an Episode only up to rounding",
    "seed_shown": "its task's observations show the hidden seed of their Episode",
    "same_episodes": "every Episode of its task seems to be the same",
    "engine_fault": "a Submission met an engine fault",
    "open_network": "its agent had the machine's own network",
    "not_started": "the agent could not be started",
}
"""Reasons of the record, as a reader would say them."""


def invalidates_run(reason: str) -> bool:
    """Whether `reason` keeps a Run out of tables. A word that is not in the table is no failure."""
    return reason in MEANINGS and not MEANINGS[reason].valid


def restarts(ended: str, *, resumes: bool) -> bool:
    """Whether a Run that goes on starts its agent again. `ended`: how it ended last, '' where it
    never started."""
    when = MEANINGS[ended].restarts if ended in MEANINGS else "always" if not ended else "never"
    return when == "always" or (when == "where_it_resumes" and resumes)
