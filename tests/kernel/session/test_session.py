"""The Session: what an agent may do, in which order, what it costs, and what stands when things go
wrong."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evopolicy.kernel.errors import Refused
from evopolicy.kernel.ports.outcome import Fault
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import FeedbackConfig
from evopolicy.kernel.session.session import Session
from evopolicy.kernel.session.state import Ledger
from tests.kernel.bench import (
    BUDGET,
    FEEDBACK,
    Stage,
    Tally,
    events,
    names,
    refusal,
    wait_until,
    write_program,
)


class Desk:
    """A Session with no agent but the test."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.folder = stage.folder
        stage.prepare(Path("/nowhere"))
        self.journal = Journal(stage.folder)
        self.ledger = Ledger(self.journal)
        self.progress: list[tuple[int, int]] = []
        self.session = Session(
            stage.site(), self.ledger, lambda done, total: self.progress.append((done, total))
        )

    def __call__(self, verb: str, **arguments: Any) -> dict[str, Any]:
        answer = self.session.handle(verb, arguments)
        return dict(json.loads(json.dumps(answer, allow_nan=False)))

    def submit(
        self, value: int, episodes: str = "0:2", body: str = "pass", **arguments: Any
    ) -> dict[str, Any]:
        write_program(self.stage.workspace / "program", value, body)
        return self("submit", path="program", episodes=episodes, **arguments)

    def refused(self, verb: str, **arguments: Any) -> Refused:
        return refusal(lambda: self(verb, **arguments))

    @property
    def executor(self) -> Any:
        return self.stage.executor

    def close(self) -> None:
        self.executor.gate.set()
        self.session.settle()
        self.journal.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(Stage(tmp_path))
    yield desk
    desk.close()


def make(tmp_path: Path, **options: Any) -> Desk:
    return Desk(Stage(tmp_path / f"desk-{len(list(tmp_path.iterdir()))}", **options))


# --- the way of one Submission --------------------------------------------------------------------


def test_a_fresh_session_is_open_and_says_what_there_is_to_spend(desk: Desk) -> None:
    assert desk("status") == {
        "state": "open",
        "submission": None,
        "budget": {
            "episodes_left": 8, "episodes_total": 8, "submissions_left": 4, "submissions_total": 4,
            "per_submission": 6, "pool_size": 6, "finish": "allow_early",
        },
        "best": None,
        "submissions": [],
        "next": "evopolicy-session submit DIR --episodes SELECTOR",
    }  # fmt: skip


def test_submit_answers_with_score_and_where_the_feedback_lies(desk: Desk) -> None:
    answer = desk.submit(3, "0:2,5")
    submission = answer["submission"]
    offsets: list[Any] = [desk.stage.planned.training[n].scenario["offset"] for n in (0, 1, 5)]
    assert submission["score"] == pytest.approx(12 + 4 * sum(offsets) / 3)
    assert (submission["id"], submission["status"], submission["selector"]) == (
        1,
        "published",
        "0:2,5",
    )
    assert (submission["episodes"], submission["failed_episodes"], submission["summary"]) == (
        3,
        {},
        {"episodes": 3},
    )
    assert answer["state"] == "open"
    assert answer["budget"]["episodes_left"] == 5
    assert answer["best"] == {"submission": 1, "score": submission["score"]}
    assert desk.progress[-1] == (3, 3)
    copy = desk.stage.workspace / submission["feedback"]
    assert json.loads(copy.read_text())["by_episode"][2]["index"] == 5


def test_the_charge_is_in_the_journal_before_an_episode_runs(desk: Desk) -> None:
    desk.executor.gate.clear()
    desk.submit(1, detach=True)
    desk.executor.entered.wait()
    assert events(desk.folder)[-1]["event"] == "reserved"
    assert events(desk.folder)[-1]["units"] == 2
    assert (desk.folder / "programs" / events(desk.folder)[-1]["program"] / "policy.py").exists()


def test_the_feedback_is_on_disk_before_its_journal_line(tmp_path: Path) -> None:
    seen = []
    desk = make(tmp_path)
    desk.journal._listener = lambda event: seen.append(
        (
            event["event"],
            (desk.folder / "submissions" / "0001" / "feedback" / "feedback.json").exists(),
        )
    )
    desk.submit(1)
    assert seen == [("reserved", False), ("published", True)]
    desk.close()


def test_best_is_the_highest_score_and_the_latest_of_equals(desk: Desk) -> None:
    for value in (2, 5, 5):
        desk.submit(value)
    assert desk("status")["best"]["submission"] == 3
    assert [row["status"] for row in desk("status")["submissions"]] == ["published"] * 3


def test_a_policy_that_fails_is_charged_graded_and_told(desk: Desk) -> None:
    answer = desk.submit(1, body="raise ValueError('my own bug')")
    assert answer["submission"]["failed_episodes"] == {"exception": 2}
    assert answer["submission"]["score"] == -1.0
    assert answer["budget"]["episodes_left"] == 6
    (first, _) = desk("feedback")["feedback"]["by_episode"]
    assert "my own bug" in first["failure"]["traceback"]
    assert first["failure"]["step"] == 0
    assert first["output"] == "printed"


# --- waiting --------------------------------------------------------------------------------------


def test_detach_returns_at_once_and_wait_brings_the_result(desk: Desk) -> None:
    desk.executor.gate.clear()
    answer = desk.submit(1, detach=True)
    assert (answer["state"], answer["next"]) == ("running", "evopolicy-session wait")
    assert answer["submission"] == {
        "id": 1, "status": "running", "episodes_total": 2, "selector": "0:2", "episodes_done": 0,
    }  # fmt: skip
    desk.executor.gate.set()
    assert desk("wait")["submission"]["status"] == "published"
    assert desk("wait")["submission"]["status"] == "published", (
        "waiting for what is there returns it again"
    )


def test_block_seconds_bounds_submit_and_wait(tmp_path: Path) -> None:
    desk = make(tmp_path, block_seconds=0.01)
    desk.executor.gate.clear()
    for answer in (desk.submit(1), desk("wait"), desk("wait")):
        assert answer["state"] == answer["submission"]["status"] == "running"
    assert names(desk.folder) == ["reserved"], "running is no refusal and no charge"
    desk.close()


def test_the_same_program_and_selector_sent_again_attaches_without_a_second_charge(
    tmp_path: Path,
) -> None:
    desk = make(tmp_path, block_seconds=0.01)
    desk.executor.gate.clear()
    first, again = desk.submit(1, "0:2"), desk.submit(1, "0,1")
    assert first["submission"]["id"] == again["submission"]["id"] == 1
    assert again["budget"]["episodes_left"] == 6
    assert names(desk.folder) == ["reserved"]
    desk.executor.gate.set()
    desk.session.settle()
    assert desk.submit(1, "0:2")["submission"]["id"] == 2, (
        "once it is published, the same again is a new Submission"
    )
    desk.close()


@pytest.mark.parametrize(("value", "episodes"), [(2, "0:2"), (1, "0:3"), (1, "1,0")])
def test_anything_else_while_one_runs_is_busy(desk: Desk, value: int, episodes: str) -> None:
    desk.executor.gate.clear()
    desk.submit(1, "0:2", detach=True)
    refused = refusal(lambda: desk.submit(value, episodes))
    assert (refused.code, refused.remedy) == ("busy", "evopolicy-session wait")
    assert desk.refused("finish").code == "busy"
    assert desk.refused("check").code == "busy"
    assert desk("status")["budget"]["submissions_left"] == 3


def test_many_equal_calls_at_once_are_one_submission(desk: Desk) -> None:
    desk.executor.gate.clear()
    write_program(desk.stage.workspace / "program", 4)
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(desk, "submit", path="program", episodes="0:3") for _ in range(8)]
        # A call that comes after the Evaluation's end is another Submission: all of them wait
        # before it may end.
        wait_until(lambda: len(desk.session._changed._waiters) == 8)  # type: ignore[attr-defined]
        assert names(desk.folder) == ["reserved"]
        desk.executor.gate.set()
        answers = [call.result() for call in calls]
    assert {answer["submission"]["id"] for answer in answers} == {1}
    assert names(desk.folder).count("reserved") == 1


def test_many_different_calls_at_once_never_overspend(desk: Desk) -> None:
    for number in range(8):
        write_program(desk.stage.workspace / f"p{number}", number)

    def submit(number: int) -> str:
        for _ in range(200):
            try:
                desk("submit", path=f"p{number}", episodes="0:3")
                return "accepted"
            except Refused as refused:
                if refused.code != "busy":
                    return refused.code
                desk("wait")
        return "starved"

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(submit, range(8)))
    assert ends.count("accepted") == 2
    assert ends.count("over_budget") == 6
    state = desk.ledger.state
    assert sum(len(s.indices) for s in state.submissions) == 6
    assert [event["n"] for event in events(desk.folder)] == list(range(len(events(desk.folder))))


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "arguments", "code"),
    [
        ("submit", {"path": "program", "episodes": ""}, "selector_empty"),
        ("submit", {"path": "program"}, "selector_empty"),
        ("submit", {"path": "program", "episodes": 3}, "selector_empty"),
        ("submit", {"path": "program", "episodes": "x"}, "selector_malformed"),
        ("submit", {"path": "program", "episodes": "0:\ud800"}, "selector_malformed"),
        ("submit", {"path": "program", "episodes": "1,1"}, "selector_duplicate"),
        ("submit", {"path": "program", "episodes": "0:3,2"}, "selector_duplicate"),
        ("submit", {"path": "program", "episodes": "0:7"}, "selector_out_of_pool"),
        ("submit", {"path": "nowhere", "episodes": "0"}, "program_refused"),
        ("submit", {"path": "empty", "episodes": "0"}, "program_refused"),
        ("submit", {"path": "/etc", "episodes": "0"}, "outside_workspace"),
        ("submit", {"path": "program/../..", "episodes": "0"}, "outside_workspace"),
        ("submit", {"path": "nul\0", "episodes": "0"}, "bad_path"),
        ("submit", {"path": "\ud800", "episodes": "0"}, "bad_path"),
        ("submit", {"path": "a\u202eb", "episodes": "0"}, "bad_path"),
        ("submit", {"path": "a\u115fb", "episodes": "0"}, "bad_path"),
        ("submit", {"path": ["program"], "episodes": "0"}, "bad_path"),
        ("submit", {"path": 3, "episodes": "0"}, "bad_path"),
        ("submit", {"path": "program", "episode": "0"}, "bad_request"),
        ("status", {"x" * 100_000: 1}, "bad_request"),
        ("submit", {"path": {"a": 1}, "episodes": "0"}, "bad_path"),
        ("submit", {"path": "x" * 5_000, "episodes": "0"}, "program_refused"),
        ("check", {"path": "empty"}, "program_refused"),
        ("check", {"path": "../x"}, "outside_workspace"),
        ("check", {"path": "\0"}, "bad_path"),
        ("wait", {}, "nothing_submitted"),
        ("feedback", {}, "no_feedback"),
        ("feedback", {"submission": 7}, "no_feedback"),
        ("feedback", {"submission": "1"}, "no_feedback"),
        ("feedback", {"submission": {}}, "no_feedback"),
        ("finish", {"candidates": [9]}, "bad_candidates"),
        ("finish", {"candidates": ["1"]}, "bad_candidates"),
        ("finish", {"candidates": [1, "2"]}, "bad_candidates"),
        ("finish", {"candidates": [True]}, "bad_candidates"),
        ("finish", {"candidates": 5}, "bad_candidates"),
        ("finish", {"candidates": {"a": 1}}, "bad_candidates"),
        ("explode", {}, "unknown_verb"),
        ("_submit", {}, "unknown_verb"),
        ("handle", {}, "unknown_verb"),
        ("x" * 100_000, {}, "unknown_verb"),
    ],
    ids=lambda value: repr(value)[:30] if not isinstance(value, dict) else "",
)
def test_every_refusal_is_free_and_in_the_journal(
    desk: Desk, verb: str, arguments: dict[str, Any], code: str
) -> None:
    write_program(desk.stage.workspace / "program", 1)
    (desk.stage.workspace / "empty").mkdir()
    refused = desk.refused(verb, **arguments)
    assert refused.code == code
    (event,) = events(desk.folder)
    assert (event["event"], event["verb"], event["code"]) == ("refused", verb[:50], code)
    assert len(json.dumps(event)) < 1_500
    account = desk("status")["budget"]
    assert (account["episodes_left"], account["submissions_left"]) == (8, 4)
    assert desk("status")["state"] == "open"


def test_a_misspelt_verb_or_argument_is_named_with_the_near_one(desk: Desk) -> None:
    assert "Did you mean 'submit'?" in desk.refused("sumbit").reason
    assert "Did you mean 'episodes'?" in desk.refused("submit", path="program", episode="0").reason


def test_true_is_not_the_first_submission(desk: Desk) -> None:
    desk.submit(1)
    assert desk.refused("feedback", submission=True).code == "no_feedback"


def test_budget_refusals_are_free_too(tmp_path: Path) -> None:
    desk = make(tmp_path, budget=replace(BUDGET, per_submission=3, submissions=2, episodes=4))
    assert refusal(lambda: desk.submit(1, "0:4")).code == "over_cap"
    desk.submit(1, "0:2")
    assert refusal(lambda: desk.submit(1, "0:3")).code == "over_budget"
    desk.submit(1, "0")
    assert refusal(lambda: desk.submit(1, "0")).code == "no_submissions_left"
    assert desk("status")["budget"]["episodes_left"] == 1
    assert desk("status")["next"] == "evopolicy-session finish"
    desk.close()


def test_refusals_cannot_fill_the_disk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evopolicy.kernel.session.session.MAX_REFUSALS", 3)
    for _ in range(6):
        desk.refused("wait")
    assert names(desk.folder) == ["refused"] * 3


# --- check ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("visibility", ["score", "summary", "episodes", "full"])
def test_check_is_free_and_shows_the_policys_traceback_at_every_level(
    tmp_path: Path, visibility: str
) -> None:
    desk = make(tmp_path, feedback=replace(FEEDBACK, visibility=visibility))
    write_program(desk.stage.workspace / "program", 1, "raise ValueError('my own bug')")
    answer = desk("check", path="program")
    assert answer["ok"] is False
    assert "my own bug" in answer["failure"]["traceback"]
    write_program(desk.stage.workspace / "program", 1)
    answer = desk("check", path="program")
    assert (answer["ok"], answer["actions"], answer["output"]) == (True, [1], "checked")
    assert not (desk.folder / "journal.jsonl").read_text()
    desk.close()


def test_checks_leave_nothing_on_the_hosts_disk(desk: Desk) -> None:
    """They are free and without number: an agent could fill the disk with them."""
    for value in range(3):
        write_program(desk.stage.workspace / "program", value)
        desk("check", path="program")
    assert not desk.stage.store.root.exists()
    assert not any(folder.exists() for folder in desk.executor.checked)
    assert sorted(path.name for path in desk.folder.iterdir()) == ["journal.jsonl", "workspace"]


def test_a_check_does_not_stop_the_agents_clock(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an agent that checks for ever would never meet its wall time."""
    started, go = threading.Event(), threading.Event()
    check = desk.executor.check

    def slow(*arguments: Any) -> Any:
        started.set()
        go.wait()
        return check(*arguments)

    monkeypatch.setattr(desk.executor, "check", slow)
    write_program(desk.stage.workspace / "program", 1)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(desk, "check", path="program")
        started.wait()
        assert desk.session.blocked_seconds == 0.0
        go.set()
        call.result()
    assert desk.session.blocked_seconds == 0.0


def test_a_second_check_waits_no_longer_than_a_call_may(tmp_path: Path) -> None:
    desk = make(tmp_path, block_seconds=0.01)
    write_program(desk.stage.workspace / "program", 1)
    desk.session._engine.acquire()
    assert desk.refused("check", path="program").code == "busy"
    desk.session._engine.release()
    assert desk("check", path="program")["ok"]
    desk.close()


# --- the agent's clock ----------------------------------------------------------------------------


def test_the_clock_stands_still_only_while_a_call_blocks(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("evopolicy.kernel.clock.time", SimpleNamespace(monotonic=lambda: now[0]))
    desk.executor.gate.clear()
    desk.submit(1, detach=True)
    now[0] += 10
    assert desk.session.blocked_seconds == 0.0, "detached: the agent thinks, its clock runs"
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(desk, "wait") for _ in range(2)]
        wait_until(lambda: desk.session._blocked._inside == 2)
        now[0] += 5
        assert desk.session.blocked_seconds == 5.0, "two calls at once count once"
        desk.executor.gate.set()
        for call in calls:
            call.result()
    now[0] += 7
    assert desk.session.blocked_seconds == 5.0


# --- both finish rules ----------------------------------------------------------------------------


def test_finish_closes_names_candidates_and_ends_everything(desk: Desk) -> None:
    desk.submit(1)
    desk.submit(2)
    answer = desk("finish", candidates=[2, 1, 2])
    assert answer["state"] == "finished"
    assert answer["next"].startswith("nothing")
    assert events(desk.folder)[-1]["named"] == [2, 1]
    assert refusal(lambda: desk.submit(3)).code == "finished"
    assert desk.refused("finish").code == "finished"
    assert desk.refused("check").code == "finished"
    assert desk("wait")["submission"]["id"] == 2, "what is there can still be read"
    assert desk("feedback", submission=1)["folder"] == "feedback/0001"


def test_allow_early_may_finish_before_anything(desk: Desk) -> None:
    assert desk("finish")["state"] == "finished"


def test_exhaust_refuses_an_early_finish_and_closes_by_itself(tmp_path: Path) -> None:
    desk = make(tmp_path, budget=replace(BUDGET, finish="exhaust"))
    assert desk.refused("finish").code == "not_exhausted"
    desk.submit(1, "0:6")
    assert desk.refused("finish").code == "not_exhausted"
    assert desk.submit(2, "0:2")["state"] == "finished"
    assert [event.get("by") for event in events(desk.folder) if event["event"] == "closed"] == [
        "budget"
    ]
    assert desk.refused("finish").code == "finished"
    desk.close()


def test_exhaust_refuses_selectors_that_make_the_whole_unreachable(tmp_path: Path) -> None:
    desk = make(tmp_path, budget=replace(BUDGET, finish="exhaust", submissions=2))
    assert refusal(lambda: desk.submit(1, "0")).code == "unreachable"
    desk.submit(1, "0:2")
    assert refusal(lambda: desk.submit(1, "0:5")).code == "unreachable"
    assert desk.submit(1, "0:6")["state"] == "finished"
    desk.close()


def test_exhaust_closes_after_a_fault_as_well(tmp_path: Path) -> None:
    desk = make(tmp_path, budget=replace(BUDGET, finish="exhaust", submissions=1, episodes=2))
    desk.executor.fault = lambda *_: Fault("engine", "worker died")
    assert desk.submit(1, "0:2")["state"] == "finished"
    assert names(desk.folder) == ["reserved", "submission_failed", "closed"]
    desk.close()


# --- faults ---------------------------------------------------------------------------------------


def test_a_fault_that_a_retry_mends_is_not_seen(desk: Desk) -> None:
    faults = [Fault("environment", "flaky")]
    desk.executor.fault = lambda *_: faults.pop() if faults else None
    assert desk.submit(1)["submission"]["status"] == "published"
    assert events(desk.folder)[-1]["retried"] == 1


def test_a_fault_that_stays_fails_the_submission_keeps_the_charge_and_goes_on(desk: Desk) -> None:
    desk.executor.fault = lambda *_: Fault("engine", "seed 12345 crashed /host/path")
    answer = desk.submit(1)
    assert answer["submission"]["status"] == "failed"
    assert "12345" not in json.dumps(answer), "the cause is the Host's to know"
    assert answer["budget"]["episodes_left"] == 6
    assert "12345" in events(desk.folder)[-1]["reason"]
    desk.executor.fault = lambda *_: None
    assert desk.submit(1)["submission"]["id"] == 2
    assert desk.refused("feedback", submission=1).code == "no_feedback"
    assert refusal(lambda: desk("finish", candidates=[1])).code == "bad_candidates"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            Tally(score_of=lambda outcome: float(cast(Any, outcome.measures["nothing"]))),
            "tally: score raised KeyError: 'nothing'",
        ),
        (Tally(score_of=lambda _: float("nan")), "the score nan is not finite"),
        (
            Tally(summarize_of=lambda _: {"bad": float("nan")}),
            "tally: summary.bad: nan is not finite",
        ),
        (Tally(summarize_of=lambda _: 5), "tally: summarize raised TypeError"),  # type: ignore[arg-type, return-value]
        (
            Tally(summarize_of=lambda outcomes: {"x": outcomes[9]}),
            "tally: summarize raised IndexError",
        ),
        (
            Tally(artifact_names=["../up"]),
            "the artifact name '../up' is taken or not a portable relative path",
        ),
        (Tally(artifact_names=["same", "same"]), "the artifact name 'same' is taken"),
        (
            Tally(artifact_names=["output/0001.txt"]),
            "'output' is the name of a file and of a folder",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bug_of_the_benchmark_costs_its_submission_never_the_run(
    tmp_path: Path, broken: Tally, reason: str
) -> None:
    desk = make(tmp_path, benchmark=broken, feedback=FeedbackConfig("full", 10**9, replays=False))
    assert desk.submit(1)["submission"]["status"] == "failed"
    assert reason in events(desk.folder)[-1]["reason"]
    assert desk.session.failure is None
    desk.close()


def test_a_benchmark_that_names_a_file_it_never_wrote_costs_its_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make(tmp_path, feedback=FeedbackConfig("full", 10**9, replays=False))

    def missing(_results: Any, folder: Path) -> Any:
        return [(folder / "x").read_bytes()]

    monkeypatch.setattr(desk.stage.benchmark, "artifacts", missing)
    assert desk.submit(1)["submission"]["status"] == "failed"
    assert "artifacts raised FileNotFoundError" in events(desk.folder)[-1]["reason"]
    desk.close()


def test_an_engine_bug_is_an_engine_fault(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: Any, **__: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr(desk.executor, "evaluate", bug)
    assert desk.submit(1)["submission"]["status"] == "failed"
    assert "the engine raised KeyError" in events(desk.folder)[-1]["reason"]


# --- the Host's own failure -----------------------------------------------------------------------


def fill_disk(desk: Desk) -> None:
    def full(_data: bytes) -> None:
        raise OSError(28, "No space left on device")

    desk.journal._write = full  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("call", ["submit", "finish", "refusal"])
def test_a_disk_that_fills_during_a_call_stops_the_session(desk: Desk, call: str) -> None:
    desk.submit(1)
    fill_disk(desk)
    calls = {
        "submit": lambda: desk.submit(2),
        "finish": lambda: desk("finish"),
        "refusal": lambda: desk("explode"),
    }
    assert refusal(calls[call]).code == "host_failed"
    assert isinstance(desk.session.failure, OSError)
    assert refusal(lambda: desk.submit(2)).code == "host_failed"
    assert desk.refused("finish").code == "host_failed"
    assert names(desk.folder) == ["reserved", "published"]


def test_a_disk_that_fills_during_an_evaluation_wakes_those_who_wait(desk: Desk) -> None:
    desk.executor.gate.clear()
    desk.submit(1, detach=True)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(desk.refused, "wait")
        fill_disk(desk)
        desk.executor.gate.set()
        assert call.result().code == "host_failed"
    assert desk.refused("wait").code == "host_failed", "no busy loop of 'running'"
    assert not desk.session.running
    assert names(desk.folder) == ["reserved"], "still charged once, still to be published"


def test_a_disk_that_fills_while_a_program_is_stored_charges_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evopolicy.kernel.files.program._write_tree", full)
    assert refusal(lambda: desk.submit(1)).code == "host_failed"
    assert desk.ledger.state.submissions == ()


def test_no_thread_to_evaluate_in_leaves_the_submission_to_the_next_host(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            desk.submit(1)
    assert isinstance(desk.session.failure, RuntimeError)
    desk.session.settle()
    assert desk.ledger.state.pending is not None


# --- recovery -------------------------------------------------------------------------------------


def again(desk: Desk) -> Desk:
    """The next Host, after this one was killed."""
    desk.session.abandon()
    desk.executor.gate.set()
    desk.session.settle()
    desk.journal.close()
    return Desk(desk.stage)


def test_what_was_charged_is_evaluated_without_a_second_charge(tmp_path: Path) -> None:
    desk = make(tmp_path)
    desk.executor.gate.clear()
    desk.submit(4, detach=True)
    desk.executor.entered.wait()
    after = again(desk)
    assert names(after.folder) == ["reserved"], "an abandoned Evaluation publishes nothing"
    after.session.recover()
    after.session.settle()
    assert names(after.folder) == ["reserved", "published"]
    assert after("status")["budget"]["episodes_left"] == 6
    assert (after.stage.workspace / "feedback" / "0001" / "feedback.json").exists()
    after.close()


def test_a_published_submission_gets_its_copy_after_a_kill(tmp_path: Path) -> None:
    desk = make(tmp_path)
    desk.submit(4)
    copy = desk.stage.workspace / "feedback" / "0001"
    copy.rename(desk.folder / "aside")
    after = again(desk)
    after.session.recover()
    assert (copy / "feedback.json").exists()
    assert names(after.folder) == ["reserved", "published"]
    after.close()


def test_exhaust_closes_itself_after_a_kill_between_the_last_outcome_and_the_end(
    tmp_path: Path,
) -> None:
    desk = make(tmp_path, budget=replace(BUDGET, finish="exhaust", episodes=2))
    desk.session._close_when_spent = lambda: None  # type: ignore[method-assign]
    desk.submit(4)
    after = again(desk)
    after.session.recover()
    assert [event.get("by") for event in events(after.folder)] == [None, None, "budget"]
    after.close()


def test_the_hosts_close_waits_for_what_is_in_flight(desk: Desk) -> None:
    desk.executor.gate.clear()
    desk.submit(1, detach=True)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(desk.session.close, "exited")
        assert desk("status")["state"] == "running"
        desk.executor.gate.set()
        closing.result()
    assert names(desk.folder) == ["reserved", "published", "closed"]


def test_the_hosts_close_leaves_a_failed_session_open_for_the_next_host(desk: Desk) -> None:
    desk.session.failure = OSError(28, "No space left on device")
    desk.session.close("exited")
    assert not desk.session.finished


# --- feedback in the workspace --------------------------------------------------------------------


def test_the_feedback_verb_answers_from_the_record_whatever_the_agent_did_to_its_copy(
    desk: Desk,
) -> None:
    desk.submit(1)
    desk.submit(2)
    copies = desk.stage.workspace / "feedback"
    (copies / "0001" / "feedback.json").write_text('{"score": 1e9}')
    copies.rename(desk.stage.workspace / "aside")
    copies.symlink_to("/")
    assert desk("feedback")["feedback"]["submission"] == 2
    assert desk("feedback", submission=1)["feedback"]["score"] < 100
    assert desk.submit(3)["submission"]["status"] == "published"
    assert desk("status")["best"]["submission"] == 3


def test_bulk_artifacts_are_evicted_from_record_and_workspace_alike(tmp_path: Path) -> None:
    feedback = FeedbackConfig("full", 2_500, replays=False)
    desk = make(tmp_path, benchmark=Tally(artifact_names=["a", "b"]), feedback=feedback)
    for value in (1, 2, 3):
        desk.submit(value)
    here = [desk.stage.workspace / "feedback" / f"{n:04d}" for n in (1, 2, 3)]
    there = [desk.folder / "submissions" / f"{n:04d}" / "feedback" for n in (1, 2, 3)]
    for place, name in itertools.product((here, there), ("a", "b")):
        assert [(copy / name).exists() for copy in place] == [False, False, True]
    evicted = [event["artifacts"] for event in events(desk.folder) if event["event"] == "evicted"]
    assert evicted == [[["0001", "a"], ["0001", "b"]], [["0002", "a"], ["0002", "b"]]]
    desk.close()


def test_full_renders_the_pictured_episodes_and_drops_the_traces(tmp_path: Path) -> None:
    desk = make(tmp_path, feedback=FeedbackConfig("full", 10**6, replays=True))
    desk.submit(1, "4,2")
    folder = desk.folder / "submissions" / "0001"
    assert (folder / "feedback" / "replays" / "0004.gif").read_bytes() == b"gif"
    assert sorted(path.name for path in folder.iterdir()) == ["feedback", "outcomes.jsonl"]
    desk.close()


@pytest.mark.parametrize("visibility", ["score", "summary", "episodes", "full"])
def test_no_answer_and_no_file_ever_holds_a_seed(tmp_path: Path, visibility: str) -> None:
    desk = make(tmp_path, feedback=FeedbackConfig(visibility, 10**6, replays=True))
    answers = [
        desk.submit(1),
        desk("status"),
        desk("feedback"),
        desk("check", path="program"),
        desk("wait"),
    ]
    texts = [json.dumps(answers)]
    texts += [
        path.read_text(errors="replace")
        for path in desk.stage.workspace.rglob("*")
        if path.is_file()
    ]
    texts += [(desk.folder / "journal.jsonl").read_text()]
    hidden = [
        str(number)
        for split in ("training", "validation", "assessment")
        for episode in getattr(desk.stage.planned, split)
        for number in (episode.seed, episode.policy_seed)
    ]
    assert not [number for number in hidden for text in texts if number in text]
    desk.close()
