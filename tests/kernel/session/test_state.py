"""What a Run's journal adds up to, event by event."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.errors import RecordError
from evopolicy.kernel.session.budget import Budget
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.selection import Measurement
from evopolicy.kernel.session.state import (
    _STEPS,
    AttemptClock,
    Ledger,
    ResultState,
    RunState,
    SubmissionState,
    fold,
)

P, Q = "ab" * 32, "cd" * 32
MEASURED = {"mean": 1.5, "standard_error": None, "episodes": 1, "failed": 0}


def state(*events: tuple[str, dict[str, Any]]) -> RunState:
    return fold(
        {"n": n, "time": float(n), "event": word, **content}
        for n, (word, content) in enumerate(events)
    )


RESERVED = ("reserved", {"submission": 1, "program": P, "selector": "0:3,5", "units": 4})
RESERVED_2 = ("reserved", {"submission": 2, "program": Q, "selector": "1", "units": 1})
PUBLISHED = (
    "published",
    {"submission": 1, "score": 2.5, "failures": {"exception": 1}, "retried": 0, "wall_seconds": 1.0,
     "feedback_seconds": 0.5, "policy_seconds": 0.25},
)  # fmt: skip
BOTH = (RESERVED, PUBLISHED, RESERVED_2, ("published", {"submission": 2, "score": 1.0}))
STARTED = ("agent_started", {"attempt": 1})


def test_nothing_is_an_open_session() -> None:
    assert state() == RunState()
    assert (state().published, state().pending, state().closed_by) == ((), None, "")


@pytest.mark.parametrize(
    "event",
    [
        ("resumed", {"result": "r"}),
        ("evicted", {"artifacts": []}),
    ],
)
def test_what_only_tells_changes_nothing(event: tuple[str, dict[str, Any]]) -> None:
    assert state(event) == RunState()


def test_what_kept_validation_from_an_end_is_told() -> None:
    assert state(("fault", {"where": "validation", "program": P, "message": "m"})) == RunState(
        fault="m"
    )


def test_a_run_began_when_its_journal_was_opened() -> None:
    assert fold([{"n": 0, "time": 7.0, "event": "opened", "key": "k"}]) == RunState(opened=7.0)


def test_reserved_charges_and_is_pending() -> None:
    after = state(RESERVED)
    assert after.pending == SubmissionState(1, P, (0, 1, 2, 5), "running", units_used=4, time=0.0)
    account = after.account(Budget(3, 10, None, "allow_early", "all"), 8)
    assert (account.submissions_used, account.episodes_used) == (1, 4)


def test_published_settles_with_score_failures_and_times() -> None:
    (submission,) = state(RESERVED, PUBLISHED).published
    assert (submission.status, submission.score, submission.failures) == (
        "published",
        2.5,
        {"exception": 1},
    )
    assert (submission.wall_seconds, submission.policy_seconds, submission.time) == (1.0, 0.25, 1.0)
    assert state(RESERVED, PUBLISHED).pending is None


def test_a_failed_submission_stays_charged_and_unpublished() -> None:
    after = state(
        RESERVED, ("submission_failed", {"submission": 1, "reason": "worker died"}), RESERVED_2
    )
    assert [(s.status, s.reason, s.units_used) for s in after.submissions] == [
        ("failed", "worker died", 4), ("running", "", 5),
    ]  # fmt: skip
    assert after.published == ()
    assert after.account(Budget(3, 10, None, "allow_early", "all"), 8).episodes_used == 5


def test_closed_holds_who_closed_it_and_what_was_named() -> None:
    after = state(("closed", {"by": "finish", "named": [2, 1]}))
    assert (after.closed_by, after.named) == ("finish", (2, 1))


def test_attempts_add_up_their_times_and_usage() -> None:
    """A provider's retry must not lose what the attempt before it used."""
    used = {"input_tokens": 10, "output_tokens": None, "cost_usd": 0.5, "cost_is_estimate": False}
    end = {
        "reason": "provider",
        "exit_code": 1,
        "thinking_seconds": 2.0,
        "evaluating_seconds": 1.0,
        "usage": used,
    }
    more = {"input_tokens": 5, "output_tokens": 7, "cost_usd": None, "cost_is_estimate": True}
    again = {
        "reason": "finished",
        "exit_code": 0,
        "thinking_seconds": 3.0,
        "evaluating_seconds": 0.5,
        "usage": more,
    }
    after = state(STARTED, ("agent_ended", end), ("agent_started", {"attempt": 2}))
    assert (after.agent_attempts, after.agent_ended) == (2, "")
    after = state(
        STARTED, ("agent_ended", end), ("agent_started", {"attempt": 2}), ("agent_ended", again)
    )
    assert (after.agent_ended, after.agent_exit_code) == ("finished", 0)
    assert (after.thinking_seconds, after.evaluating_seconds) == (5.0, 1.5)
    assert after.usage == {
        "input_tokens": 15,
        "output_tokens": 7,
        "cost_usd": 0.5,
        "cost_is_estimate": True,
    }


def test_an_attempts_clock_stands_while_its_call_waits_and_is_added_up_by_its_end() -> None:
    def told(
        event: str, thinking: float, evaluating: float, **content: Any
    ) -> tuple[str, dict[str, Any]]:
        return event, {**content, "clock": {"thinking": thinking, "evaluating": evaluating}}

    reserved = told("reserved", 0.5, 0.0, **RESERVED[1], waits=True)
    timed_out = told("wait_ended", 0.5, 3.0, submission=1)
    again = told("wait_began", 0.75, 3.0, submission=1)
    published = told("published", 0.75, 4.0, **PUBLISHED[1])
    steps = [
        (STARTED, AttemptClock()), (reserved, AttemptClock(0.5, 0.0, True)), (timed_out, AttemptClock(0.5, 3.0)),
        (again, AttemptClock(0.75, 3.0, True)), (published, AttemptClock(0.75, 4.0)),
        (("agent_ended", {"reason": "exited", "thinking_seconds": 1.0, "evaluating_seconds": 4.0}), AttemptClock()),
    ]  # fmt: skip
    for last, (_, clock) in enumerate(steps):
        assert state(*(event for event, _ in steps[: last + 1])).attempt == clock
    assert state(reserved, PUBLISHED).attempt.waiting, (
        "what a Host that recovers writes says nothing of its agent"
    )


def test_refusals_are_counted() -> None:
    event = ("refused", {"verb": "submit", "code": "busy", "reason": "r"})
    assert state(event, event).refusals == 2


def test_handoff_keeps_candidates_and_reasons() -> None:
    after = state(("handoff", {"candidates": [1, 3], "reasons": ["provider"]}))
    assert (after.candidates, after.handoff_reasons) == ((1, 3), ("provider",))
    assert state().candidates is None


def test_results_are_kept_by_key() -> None:
    after = state(
        *BOTH,
        ("validated", {"result": "a", "program": P, "measurement": MEASURED, "wall_seconds": 1.0}),
        ("validated", {"result": "a", "program": Q, "measurement": MEASURED, "wall_seconds": 2.0}),
        ("selected", {"result": "a", "program": Q, "submission": 2}),
        ("assessed", {"result": "a", "program": Q, "measurement": MEASURED, "wall_seconds": 4.0}),
        ("ended", {"result": "a", "valid": True, "reasons": ["nothing_published"]}),
        ("selected", {"result": "b", "program": P, "submission": None}),
    )
    measured = Measurement(1.5, None, 1, 0)
    assert after.results["a"] == ResultState(
        {P: measured, Q: measured}, Q, 2, measured, True, True, ("nothing_published",),
        {"validation": 3.0, "assessment": 4.0},
    )  # fmt: skip
    assert after.results["b"] == ResultState(selected=P)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            [("selected", {"result": "a", "program": P, "submission": 2})],
            "line 5.*Submission 2 is another one",
        ),
        (
            [("selected", {"result": "a", "program": Q, "submission": 3})],
            "line 5.*Submission 3 is another one",
        ),
        (
            [("assessed", {"result": "a", "program": Q, "measurement": MEASURED})],
            "line 5.*not the one that was sel",
        ),
        (
            [
                ("selected", {"result": "a", "program": P, "submission": 1}),
                ("assessed", {"result": "a", "program": Q, "measurement": MEASURED}),
            ],
            "line 6.*not the one that was selected",
        ),
    ],
)
def test_what_is_selected_was_published_and_what_is_assessed_was_selected(
    events: list[tuple[str, dict[str, Any]]], message: str
) -> None:
    """The held-out score of one Program was told as another's."""
    with pytest.raises(RecordError, match=message):
        state(*BOTH, *events)


def test_every_event_that_has_a_step_is_tested_here() -> None:
    text = Path(__file__).read_text()
    assert [word for word in _STEPS if f'"{word}"' not in text] == []


def test_an_unknown_event_is_refused_by_name() -> None:
    with pytest.raises(
        RecordError, match="journal: line 2 has the unknown event 'teleported'; update evopolicy"
    ):
        state(RESERVED, ("teleported", {}))


@pytest.mark.parametrize(
    ("word", "content"),
    [
        ("reserved", {}),
        ("reserved", {**RESERVED[1], "selector": "oops"}),
        ("reserved", {**RESERVED[1], "selector": 5}),
        ("reserved", {**RESERVED[1], "units": "x"}),
        ("closed", {"by": "finish"}),
        ("closed", {"by": "finish", "named": 5}),
        ("agent_started", {}),
        ("agent_ended", {"reason": "x", "thinking_seconds": "long"}),
        ("handoff", {"candidates": None, "reasons": []}),
        ("validated", {"result": "a", "program": P, "measurement": {"mean": "x"}}),
        ("assessed", {"result": "a", "program": P}),
        ("selected", {"result": "a"}),
        ("ended", {"result": "a", "valid": True}),
    ],
)
def test_a_corrupt_event_is_named_by_line_and_kind(word: str, content: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match=rf"journal: line 2 \('{word}'\) is corrupt"):
        state(STARTED, (word, content))


def test_the_ledger_moves_journal_and_state_together_from_many_threads(tmp_path: Path) -> None:
    ledger = Ledger(Journal(tmp_path))

    def refuse() -> None:
        for _ in range(25):
            ledger.append("refused", verb="submit", code="busy", reason="")

    threads = [threading.Thread(target=refuse) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.state.refusals == 100
    ledger._journal.close()
    assert Ledger(Journal(tmp_path)).state == ledger.state
