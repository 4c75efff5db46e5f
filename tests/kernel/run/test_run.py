"""The Run: the failure table row by row, from the agent's start to the record's last line."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evopolicy.analysis.records.scores import run_status
from evopolicy.kernel.errors import AgentError, ExecutionError, RecordError
from evopolicy.kernel.ports.benchmark import BenchmarkSpec
from evopolicy.kernel.ports.outcome import Fault
from evopolicy.kernel.ports.pool import PoolConfig
from evopolicy.kernel.ports.protocols import Progress
from evopolicy.kernel.run.result import graded_path
from evopolicy.kernel.run.run import RunPlan, run
from evopolicy.kernel.session.journal import Journal
from evopolicy.kernel.session.record import Run, load_run
from evopolicy.kernel.session.selection import SelectionConfig
from evopolicy.kernel.session.submission import read_graded
from tests.kernel.bench import (
    AGENT_LIMITS,
    BUDGET,
    POOL,
    AgentCalls,
    FunctionAgent,
    Stage,
    Tally,
    events,
    names,
    wait_until,
)


def good(call: AgentCalls) -> None:
    """Two Submissions, the better one first, then `finish`."""
    call.submit(5, "0:3")
    call.submit(2, "3:6")
    call("finish")


def unfinished(call: AgentCalls) -> None:
    call.submit(5, "0:3")
    call.submit(2, "3:6")


def stage(tmp_path: Path, *functions: Any, **options: Any) -> Stage:
    return Stage(tmp_path, functions or (good,), **options)


def mean(stage: Stage, split: str, value: int) -> float:
    episodes = getattr(stage.planned, split)
    return float(
        sum(4 * (value + episode.scenario["offset"]) for episode in episodes) / len(episodes)
    )


def outcome(finished: Run) -> dict[str, Any]:
    """What must be the same of two equal Runs."""
    state, result = finished.state, finished.result
    return {
        "submissions": [
            (s.program, s.indices, s.status, s.score, s.failures) for s in state.submissions
        ],
        "candidates": state.candidates,
        "validation": dict(result.validation),
        "selected": (result.selected, result.selected_submission),
        "assessment": result.assessment,
        "valid": (result.valid, result.reasons),
    }


# --- the way that is meant ------------------------------------------------------------------------


def test_a_run_submits_hands_off_validates_selects_and_assesses(tmp_path: Path) -> None:
    made = stage(tmp_path)
    finished = run(made.plan())
    assert names(made.folder) == [
        "opened", "agent_started", "reserved", "published", "reserved", "published", "closed", "agent_ended", "handoff",
        "validated", "validated", "selected", "assessed", "ended",
    ]  # fmt: skip
    assert (finished.finished, finished.valid, finished.result.reasons) == (True, True, ())
    assert (finished.state.closed_by, finished.state.agent_ended, finished.state.agent_exit_code) == (
        "finish", "finished", 0,
    )  # fmt: skip
    assert finished.result.selected_submission == 1
    assert finished.result.assessment is not None
    assert finished.result.assessment.mean == pytest.approx(mean(made, "assessment", 5))
    assert finished.result.assessment.episodes == 5
    first, second = (s.program for s in finished.state.submissions)
    assert finished.result.validation[first].mean == pytest.approx(mean(made, "validation", 5))
    assert finished.result.validation[second].mean == pytest.approx(mean(made, "validation", 2))
    assert finished.program(first).is_dir()
    assert load_run(made.folder) == finished


def test_nothing_of_validation_or_assessment_is_ever_under_the_workspace(tmp_path: Path) -> None:
    made = stage(tmp_path)
    run(made.plan())
    inside = {path.relative_to(made.workspace).parts[0] for path in made.workspace.rglob("*")}
    assert inside == {"program", "feedback"}
    assert {path.name for path in (made.workspace / "feedback").iterdir()} == {"0001", "0002"}


def test_validation_starts_after_the_agents_processes_are_gone(tmp_path: Path) -> None:
    made = stage(tmp_path)
    seen: list[bool] = []
    private = {episode.seed for episode in (*made.planned.validation, *made.planned.assessment)}

    def watch(_program: Path, episode: Any) -> None:
        if episode.seed in private:
            seen.append(any(thread.name == "agent" for thread in threading.enumerate()))

    made.executor.fault = watch
    run(made.plan())
    assert seen
    assert not any(seen)


def test_a_finished_run_is_returned_as_it_is(tmp_path: Path) -> None:
    made = stage(tmp_path)
    first = run(made.plan())
    before, ran = names(made.folder), len(made.executor.ran)
    assert run(made.plan()) == first
    assert (names(made.folder), len(made.executor.ran)) == (before, ran)
    assert made.launcher.started == 1


def test_two_equal_runs_give_identical_scores(tmp_path: Path) -> None:
    one, two = (run(stage(tmp_path / name).plan()) for name in ("one", "two"))
    assert outcome(one) == outcome(two)


def test_the_same_program_submitted_twice_is_validated_once(tmp_path: Path) -> None:
    def twice(call: AgentCalls) -> None:
        call.submit(5, "0:3")
        call.submit(5, "3:6")

    made = stage(tmp_path, twice)
    finished = run(made.plan())
    assert names(made.folder).count("validated") == 1
    assert finished.result.selected_submission == 2


@pytest.mark.parametrize(
    ("rule", "selected", "validations"),
    [
        ("validation_mean", 1, 2),
        ("validation_lcb", 1, 2),
        ("training_mean", 1, 0),
        ("last", 2, 0),
        ("agent_first", 2, 0),
    ],
)
def test_each_rule_selects_and_measures_only_what_it_needs(
    tmp_path: Path, rule: str, selected: int, validations: int
) -> None:
    made = stage(tmp_path, selection=SelectionConfig(rule, "latest"))
    finished = run(made.plan())
    assert finished.result.selected_submission == selected
    assert names(made.folder).count("validated") == validations


def named(call: AgentCalls) -> None:
    call.submit(5, "0:3")
    call.submit(2, "3:5")
    call.submit(3, "5")
    call("finish", candidates=[3, 2])


@pytest.mark.parametrize(
    ("candidates", "agent", "handed", "selected"),
    [
        ("all", named, (1, 2, 3), 1),
        ("named", named, (3, 2), 3),
        ("named", unfinished, (2,), 2),
        ("named", good, (2,), 2),
    ],
)
def test_candidates_are_all_or_what_finish_named_or_the_last(
    tmp_path: Path, candidates: str, agent: Any, handed: tuple[int, ...], selected: int
) -> None:
    made = stage(tmp_path, agent, budget=replace(BUDGET, candidates=candidates))
    finished = run(made.plan())
    assert finished.state.candidates == handed
    assert finished.result.selected_submission == selected


def test_exhaust_ends_by_itself_and_is_valid(tmp_path: Path) -> None:
    def all_of_it(call: AgentCalls) -> None:
        call.submit(5, "0:6")
        call.submit(2, "0:2")
        call.sleep_for_ever()

    made = stage(
        tmp_path, all_of_it, budget=replace(BUDGET, finish="exhaust"),
        limits=replace(AGENT_LIMITS, finish_grace_seconds=0.0),
    )  # fmt: skip
    finished = run(made.plan())
    assert (finished.state.closed_by, finished.state.agent_ended, finished.valid) == (
        "budget",
        "finished",
        True,
    )


# --- the failure table, row by row ----------------------------------------------------------------


def test_row_policy_fails__charged_graded_valid(tmp_path: Path) -> None:
    def bad(call: AgentCalls) -> None:
        answer = call.submit(5, "0:3", body="raise ValueError('my own bug')")
        assert answer["submission"]["failed_episodes"] == {"exception": 3}
        (row, *_) = call("feedback")["feedback"]["by_episode"]
        assert (row["failure"]["kind"], row["failure"]["step"]) == ("exception", 0)
        assert "my own bug" in row["failure"]["traceback"]
        call("finish")

    finished = run(stage(tmp_path, bad).plan())
    assert finished.valid
    assert finished.state.agent_exit_code == 0
    (submission,) = finished.state.submissions
    assert (submission.score, submission.units_used, submission.failures) == (
        -1.0,
        3,
        {"exception": 3},
    )
    assert finished.result.assessment is not None
    assert (finished.result.assessment.mean, finished.result.assessment.failed) == (-1.0, 5)


def test_row_program_refused__free_not_graded_valid(tmp_path: Path) -> None:
    def refused(call: AgentCalls) -> None:
        (call.workspace / "program" / "link").symlink_to("/etc/passwd")
        with pytest.raises(Exception, match="link: is a symlink"):
            call.submit(5, "0:3")
        (call.workspace / "program" / "link").unlink()
        good(call)

    made = stage(tmp_path, refused)
    finished = run(made.plan())
    assert finished.valid
    assert finished.state.agent_exit_code == 0
    assert finished.state.refusals == 1
    assert [s.units_used for s in finished.state.submissions] == [3, 6]


def test_row_fault_in_a_submission_that_a_retry_mends__valid(tmp_path: Path) -> None:
    made = stage(tmp_path)
    faults = [Fault("environment", "flaky")]
    made.executor.fault = lambda *_: faults.pop() if faults else None
    assert run(made.plan()).valid


def test_row_fault_that_stays__submission_fails_run_goes_on_and_is_marked(tmp_path: Path) -> None:
    made = stage(tmp_path)
    broken = made.planned.training[4].seed
    made.executor.fault = lambda _, episode: (
        Fault("engine", "x") if episode.seed == broken else None
    )
    finished = run(made.plan())
    assert [s.status for s in finished.state.submissions] == ["published", "failed"]
    assert [s.units_used for s in finished.state.submissions] == [3, 6]
    assert finished.state.candidates == (1,)
    assert (finished.finished, finished.valid, finished.result.reasons) == (
        True,
        False,
        ("engine_fault",),
    )
    said = finished.state.explained(("engine_fault", "wall_time"))
    assert (
        said
        == "wall_time, engine_fault: 1 of the Episodes faulted 2 times; Episode 4: engine fault: x"
    )
    assert finished.result.assessment is not None
    tried = [seed for _, seed in made.executor.ran if seed == broken]
    assert len(tried) == 1 + made.episode_retries


def crash(call: AgentCalls) -> None:
    unfinished(call)
    raise RuntimeError("the agent's own bug")


class LaterClock:
    """The Host's clock as `run_attempt` reads it; `hang` moves it on once it has done its work."""

    def __init__(self) -> None:
        self.shift = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.shift


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> LaterClock:
    later = LaterClock()
    monkeypatch.setattr("evopolicy.kernel.run.attempt.time", later)
    monkeypatch.setattr("evopolicy.kernel.clock.time", later)
    return later


def hang(call: AgentCalls, clock: LaterClock) -> None:
    unfinished(call)
    clock.shift = 5_000.0
    call.sleep_for_ever()


def spend(**usage: float) -> Any:
    def agent(call: AgentCalls) -> None:
        unfinished(call)
        call.say(usage=usage)
        call.sleep_for_ever()

    return agent


def leave(code: int) -> Any:
    def agent(call: AgentCalls) -> None:
        unfinished(call)
        raise SystemExit(code)

    return agent


@pytest.mark.parametrize(
    ("agent", "limits", "reason", "code"),
    [
        (unfinished, {}, "exited", 0),
        (crash, {}, "crashed", 1),
        (leave(7), {}, "crashed", 7),
        (hang, {"wall_seconds": 1_000.0}, "wall_time", None),
        (hang, {"idle_seconds": 1_000.0}, "idle", None),
        (
            spend(input_tokens=60, cached_tokens=30, output_tokens=20, reasoning_tokens=5),
            {"tokens": 100},
            "tokens",
            None,
        ),
        (spend(cost_usd=2.5), {"cost_usd": 2.0}, "cost", None),
    ],
    ids=[
        "exits without finish",
        "crashes",
        "exits with a code",
        "exceeds wall time",
        "is idle",
        "tokens",
        "cost",
    ],
)
def test_row_agent_ends_badly__what_is_published_is_handed_off_and_the_run_is_valid(
    tmp_path: Path,
    clock: LaterClock,
    agent: Any,
    limits: dict[str, Any],
    reason: str,
    code: int | None,
) -> None:
    function = partial(hang, clock=clock) if agent is hang else agent
    made = stage(tmp_path, function, limits=replace(AGENT_LIMITS, **limits))
    finished = run(made.plan())
    assert (finished.state.agent_ended, finished.state.agent_exit_code) == (reason, code)
    assert finished.state.closed_by == reason
    assert finished.state.candidates == (1, 2)
    assert finished.result.selected_submission == 1
    assert (finished.valid, finished.result.reasons) == (True, ())


def test_row_agent_never_finishes_after_finish__the_grace_ends_it(tmp_path: Path) -> None:
    def stays(call: AgentCalls) -> None:
        good(call)
        call.sleep_for_ever()

    made = stage(tmp_path, stays, limits=replace(AGENT_LIMITS, finish_grace_seconds=0.05))
    finished = run(made.plan())
    assert (finished.state.agent_ended, finished.state.closed_by, finished.valid) == (
        "finished",
        "finish",
        True,
    )


def test_row_agent_gone_while_its_submission_runs__it_is_still_published(tmp_path: Path) -> None:
    made = stage(tmp_path)

    def detaches(call: AgentCalls) -> None:
        made.executor.gate.clear()
        call.submit(5, "0:3", detach=True)

    made.launcher.functions = [detaches]

    class Open:
        def on_event(self, event: Any) -> None:
            if event["event"] == "agent_ended":
                made.executor.gate.set()

        def on_progress(self, progress: Progress) -> None: ...

    made.observers = [Open()]
    finished = run(made.plan())
    assert names(made.folder)[2:7] == ["reserved", "agent_ended", "published", "closed", "handoff"]
    assert finished.state.candidates == (1,)
    assert finished.valid


def test_row_nothing_was_ever_published__the_initial_program_is_measured_and_flagged(
    tmp_path: Path,
) -> None:
    made = stage(tmp_path, lambda _: None)
    finished = run(made.plan())
    assert (finished.result.selected, finished.result.selected_submission) == (
        finished.record.initial_program,
        None,
    )
    assert finished.result.assessment is not None
    assert finished.result.assessment.mean == pytest.approx(mean(made, "assessment", 0))
    assert (finished.valid, finished.result.reasons) == (True, ("nothing_published",))


def test_row_a_finished_episode_scores_less_than_a_failure__valid_and_flagged(
    tmp_path: Path,
) -> None:
    """Finished Episodes at -250 beside failure_score -100 made crashing pay, without a word."""

    class Dear(Tally):
        @property
        def spec(self) -> BenchmarkSpec:
            return replace(super().spec, remarks=("same_episodes",))

    finished = run(
        stage(
            tmp_path, benchmark=Dear(score_of=lambda outcome: outcome.episode_return - 100)
        ).plan()
    )
    assert (finished.valid, finished.result.reasons) == (True, ("same_episodes", "failing_paid"))


def overloaded(call: AgentCalls) -> None:
    call.say(usage={"input_tokens": 10}, error_kind="overload")
    raise SystemExit(1)


@pytest.mark.parametrize("kind", ["rate_limit", "overload", "network"])
def test_row_provider_fails_for_good__retried_with_backoff_then_measured_and_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(
        "evopolicy.kernel.run.run.time",
        SimpleNamespace(sleep=slept.append, monotonic=time.monotonic),
    )

    def fails(call: AgentCalls) -> None:
        if not call.resumed:
            call.submit(5, "0:3")
        call.say(error_kind=kind)
        raise SystemExit(1)

    made = stage(tmp_path, fails, agent_retries=3, backoff_seconds=4.0)
    finished = run(made.plan())
    assert slept == [4.0, 8.0, 16.0]
    assert finished.state.agent_attempts == 4
    assert (finished.state.agent_ended, finished.state.closed_by) == ("provider", "provider")
    assert (finished.valid, finished.result.reasons) == (False, ("provider",))
    assert finished.result.selected_submission == 1
    assert finished.result.assessment is not None


def test_row_provider_comes_back__the_session_goes_on_and_the_run_is_valid(tmp_path: Path) -> None:
    def back(call: AgentCalls) -> None:
        assert call.resumed
        call.say(usage={"input_tokens": 5, "output_tokens": 2})
        good(call)

    made = stage(tmp_path, overloaded, overloaded, back)
    finished = run(made.plan())
    assert (finished.valid, finished.state.agent_attempts, finished.state.agent_ended) == (
        True,
        3,
        "finished",
    )
    assert finished.state.usage["input_tokens"] == 25, "what the failed attempts used counts"
    assert finished.state.usage["output_tokens"] == 2


@pytest.mark.parametrize(
    ("kind", "reason"), [("context", "context"), ("refusal", "refusal"), ("other", "crashed")]
)
def test_other_provider_errors_are_the_agents_own_end(
    tmp_path: Path, kind: str, reason: str
) -> None:
    def fails(call: AgentCalls) -> None:
        call.say(error_kind=kind)
        raise SystemExit(1)

    made = stage(tmp_path, fails)
    finished = run(made.plan())
    assert (finished.state.agent_ended, finished.valid) == (reason, True)
    assert made.launcher.started == 1


def test_a_refused_login_costs_nothing_where_nothing_was_done_and_spoils_the_run_where_something_was(
    tmp_path: Path,
) -> None:
    def locked_out(call: AgentCalls) -> None:
        call.say(error_kind="authentication")
        raise SystemExit(1)

    def later(call: AgentCalls) -> None:
        call.submit(5, "0:2")
        locked_out(call)

    made = stage(tmp_path, locked_out, later)
    with pytest.raises(AgentError, match="refuses the agent's login"):
        run(made.plan())
    finished = run(made.plan())
    assert (finished.state.agent_ended, finished.valid) == ("authentication", False)
    assert finished.result.assessment is not None, "what there is, is measured"


def test_an_agent_that_finished_is_not_restarted_whatever_its_provider_says(tmp_path: Path) -> None:
    def late(call: AgentCalls) -> None:
        good(call)
        overloaded(call)

    made = stage(tmp_path, late)
    finished = run(made.plan())
    assert (finished.state.agent_ended, finished.valid, made.launcher.started) == (
        "finished",
        True,
        1,
    )


@pytest.mark.parametrize("split", ["validation", "assessment"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_row_fault_in_validation_or_assessment__resumable_never_partial_then_complete(
    tmp_path: Path, split: str, after: int
) -> None:
    made = stage(tmp_path)
    broken = getattr(made.planned, split)[after].seed
    made.executor.fault = lambda _, episode: (
        Fault("environment", "x") if episode.seed == broken else None
    )
    with pytest.raises(
        ExecutionError, match=f"{split} of Program .* cannot be completed: .*run the command again"
    ):
        run(made.plan())
    halted = load_run(made.folder)
    assert not halted.finished
    assert "environment fault: x" in run_status(halted)[1]
    assert names(made.folder)[-1] == "fault"
    assert halted.result.assessment is None
    made.executor.fault = lambda *_: None
    assert outcome(run(made.plan())) == outcome(run(stage(tmp_path / "other").plan()))
    assert made.launcher.started == 1


@pytest.mark.parametrize("split", ["validation", "assessment"])
def test_row_fault_in_validation_or_assessment_that_a_retry_mends(
    tmp_path: Path, split: str
) -> None:
    made = stage(tmp_path)
    private = {episode.seed for episode in getattr(made.planned, split)}
    faults = [Fault("environment", "flaky")]
    made.executor.fault = lambda _, episode: (
        faults.pop() if faults and episode.seed in private else None
    )
    assert run(made.plan()).valid
    assert "fault" not in names(made.folder)


def test_a_policy_that_fails_in_assessment_is_a_result_not_a_fault(tmp_path: Path) -> None:
    def bad(call: AgentCalls) -> None:
        call.submit(5, "0", body="raise ValueError")

    finished = run(stage(tmp_path, bad).plan())
    assert finished.valid
    assert finished.result.assessment is not None
    assert finished.result.assessment.failed == 5


class Raises:
    """An observer that fails at everything it is told."""

    def on_event(self, _event: Any) -> None:
        raise RuntimeError("observer")

    def on_progress(self, _progress: Progress) -> None:
        raise RuntimeError("observer")


def test_row_observer_raises__nothing_changes(tmp_path: Path) -> None:
    observed = run(stage(tmp_path / "a", observers=[Raises(), Raises()]).plan())
    assert outcome(observed) == outcome(run(stage(tmp_path / "b").plan()))
    assert observed.valid


# --- agents that cannot be started ----------------------------------------------------------------


def test_an_agent_that_cannot_be_started_leaves_the_run_for_the_next_try(tmp_path: Path) -> None:
    made = stage(
        tmp_path,
        agent=FunctionAgent(resumes=False, missing=["codex: not found; npm install -g it"]),
    )
    with pytest.raises(AgentError, match="codex: not found"):
        run(made.plan())
    assert names(made.folder) == ["opened", "agent_started", "agent_ended"]
    finished = run(made.plan())
    assert finished.valid
    assert finished.state.agent_attempts == 2


def test_a_stream_that_cannot_be_read_costs_the_transcript_never_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stage(tmp_path)

    def bug(*_: Any) -> Any:
        raise KeyError("parser")

    monkeypatch.setattr(made.agent, "read", bug)
    finished = run(made.plan())
    assert finished.valid
    ended = next(event for event in events(made.folder) if event["event"] == "agent_ended")
    assert ended["error"] == "the transcript cannot be read: KeyError: 'parser'"


# --- progress -------------------------------------------------------------------------------------


def test_progress_tells_phase_episodes_and_best_so_far(tmp_path: Path) -> None:
    seen: list[Progress] = []

    class Watch:
        def on_event(self, event: Any) -> None: ...

        def on_progress(self, progress: Progress) -> None:
            seen.append(progress)

    made = stage(tmp_path, observers=[Watch()])
    run(made.plan())
    phases = list(dict.fromkeys(progress.phase for progress in seen))
    assert phases == ["session", "validation", "assessment", "done"]
    validation = [p for p in seen if p.phase == "validation"]
    assert {p.episodes_total for p in validation} == {6}
    assert [p.episodes_done for p in validation] == sorted(p.episodes_done for p in validation)
    assert validation[-1].episodes_done == 6
    assert seen[-1].submissions == 2
    assert seen[-1].best_score == max(s.score or 0 for s in load_run(made.folder).state.published)


def test_tokens_count_over_all_attempts(tmp_path: Path) -> None:
    def overloaded(call: AgentCalls) -> None:
        call.say(usage={"output_tokens": 70}, error_kind="overload")
        raise SystemExit(1)

    limits = replace(AGENT_LIMITS, tokens=100)
    made = stage(tmp_path, overloaded, spend(output_tokens=40), limits=limits)
    assert run(made.plan()).state.agent_ended == "tokens"


def test_reasoning_tokens_are_not_counted_twice(tmp_path: Path) -> None:
    def thrifty(call: AgentCalls) -> None:
        call.say(usage={"output_tokens": 90, "reasoning_tokens": 80})
        good(call)

    assert (
        run(
            stage(tmp_path, thrifty, limits=replace(AGENT_LIMITS, tokens=100)).plan()
        ).state.agent_ended
        == "finished"
    )


# --- another rule, another size, another Run ------------------------------------------------------


def test_another_selection_rule_never_reruns_an_agent_or_a_measured_episode(tmp_path: Path) -> None:
    made = stage(tmp_path)
    run(made.plan())
    other = stage(tmp_path, selection=SelectionConfig("last", "latest"), result_key="another")
    finished = run(other.plan())
    assert finished.result.selected_submission == 2
    assert other.launcher.started == 0
    assert len(other.executor.ran) == POOL.assessment, "only the newly selected Program is assessed"
    assert load_run(made.folder).record.selection.rule == "last"
    lcb = stage(tmp_path, selection=SelectionConfig("validation_lcb", "latest"), result_key="lcb")
    run(lcb.plan())
    assert lcb.executor.ran == [], "everything it needs was measured before"


def test_an_earlier_rule_asked_for_again_gives_its_own_result_and_runs_nothing(
    tmp_path: Path,
) -> None:
    first = run(stage(tmp_path).plan())
    run(stage(tmp_path, selection=SelectionConfig("last", "latest"), result_key="another").plan())
    again = stage(tmp_path)
    finished = run(again.plan())
    assert (finished.record.selection.rule, finished.result) == ("validation_mean", first.result)
    assert (again.launcher.started, again.executor.ran) == (0, [])
    assert load_run(again.folder).result.selected_submission == 1


def test_a_run_is_loaded_with_any_of_its_results_and_the_rule_of_that_one(tmp_path: Path) -> None:
    first = run(stage(tmp_path).plan())
    pool = replace(POOL, assessment=POOL.assessment + 2)
    made = stage(
        tmp_path, selection=SelectionConfig("last", "latest"), pool=pool, result_key="another"
    )
    second = run(made.plan())
    before = load_run(made.folder).under(first.record.result_key)
    assert (before.result, before.finished, before.valid) == (first.result, True, True)
    assert (before.record.selection, before.record.pool) == (
        first.record.selection,
        first.record.pool,
    )
    assert (before.record.entry, before.state) == (second.record.entry, second.state)
    assert load_run(made.folder).under("another") == load_run(made.folder).under("") == second
    assert not load_run(made.folder).under("never").finished
    back = run(stage(tmp_path).plan())
    assert back.under("another").record.pool == pool, "following a rule again forgets no other"
    assert list(back.record.other_rules) == ["another"]


def test_a_larger_private_split_measures_only_what_is_new(tmp_path: Path) -> None:
    run(stage(tmp_path).plan())
    more = stage(tmp_path, pool=replace(POOL, validation=5, assessment=7), result_key="larger")
    finished = run(more.plan())
    assert finished.result.assessment is not None
    assert finished.result.assessment.episodes == 7
    assert len(more.executor.ran) == 2 * 2 + 2
    assert finished.result.assessment.mean == pytest.approx(mean(more, "assessment", 5))


def test_a_folder_that_holds_another_run_is_refused(tmp_path: Path) -> None:
    run(stage(tmp_path).plan())
    with pytest.raises(RecordError, match="run: holds the Run key, not other; use another folder"):
        run(stage(tmp_path, key="other").plan())


def test_a_run_that_another_process_holds_is_refused(tmp_path: Path) -> None:
    made = stage(tmp_path)
    journal = Journal(made.folder)
    with pytest.raises(RecordError, match="another process is running this Run"):
        run(made.plan())
    journal.close()
    assert run(made.plan()).valid


def test_the_private_episodes_are_kept_with_every_outcome(tmp_path: Path) -> None:
    made = stage(tmp_path)
    finished = run(made.plan())
    graded = read_graded(graded_path(made.folder, "assessment", finished.result.selected or ""))
    assert [one.outcome.index for one in graded] == list(range(5))
    graded_path(made.folder, "validation", "broken").write_text("{}\n")
    with pytest.raises(RecordError, match="is corrupt"):
        read_graded(graded_path(made.folder, "validation", "broken"))


# --- limits and clocks ----------------------------------------------------------------------------


def test_time_thinking_counts_over_all_attempts(tmp_path: Path, clock: LaterClock) -> None:
    """A provider's retries must not give an agent its wall time anew: 600 and 600 seconds are over
    1,000."""

    def thinks_then_fails(call: AgentCalls) -> None:
        clock.shift += 600.0
        overloaded(call)

    def thinks_on(call: AgentCalls) -> None:
        clock.shift += 600.0
        call.sleep_for_ever()

    made = stage(
        tmp_path, thinks_then_fails, thinks_on, limits=replace(AGENT_LIMITS, wall_seconds=1_000.0)
    )
    finished = run(made.plan())
    ended = [event["reason"] for event in events(made.folder) if event["event"] == "agent_ended"]
    assert ended == ["provider", "wall_time"]
    assert finished.state.thinking_seconds > 1_200.0


def test_an_evaluation_costs_the_agent_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate opens only once far more than the agent's wall time has gone by on the Host's
    clock."""
    made = stage(tmp_path, limits=replace(AGENT_LIMITS, wall_seconds=100.0))
    shift = [0.0]
    shifted = SimpleNamespace(monotonic=lambda: time.monotonic() + shift[0])
    for module in ("clock", "run.attempt", "session.session"):
        monkeypatch.setattr(f"evopolicy.kernel.{module}.time", shifted)
    evaluate = made.executor.evaluate

    def slow(*arguments: Any, **more: Any) -> Any:
        wait_until(lambda: not made.gateway.handlers or _blocked(made))
        shift[0] += 1_000.0
        return evaluate(*arguments, **more)

    monkeypatch.setattr(made.executor, "evaluate", slow)
    finished = run(made.plan())
    assert (finished.state.agent_ended, finished.valid) == ("finished", True)
    assert finished.state.evaluating_seconds >= 2_000.0
    assert finished.state.thinking_seconds < 1_000.0


def _blocked(made: Stage) -> bool:
    (session,) = made.gateway.handlers.values()
    return bool(session._blocked._inside)


# --- records --------------------------------------------------------------------------------------


def test_the_record_holds_no_absolute_path(tmp_path: Path) -> None:
    made = stage(tmp_path)
    run(made.plan())
    for path in (made.folder / "record.json", made.folder / "journal.jsonl"):
        assert str(tmp_path) not in path.read_text()


def test_a_moved_run_loads(tmp_path: Path) -> None:
    made = stage(tmp_path / "here")
    finished = run(made.plan())
    (tmp_path / "here").rename(tmp_path / "there")
    moved = load_run(tmp_path / "there" / "run")
    assert moved.state == finished.state
    assert (moved.program(finished.result.selected or "") / "policy.py").exists()


@pytest.mark.parametrize("sizes", [(1, 0, 1), (3, 1, 1)])
def test_the_smallest_pools_run(tmp_path: Path, sizes: Sequence[int]) -> None:
    training, validation, assessment = sizes
    rule = "validation_mean" if validation else "training_mean"
    made = stage(
        tmp_path, lambda call: call.submit(5, "0"), pool=PoolConfig("derived", training, validation, assessment, 0),
        selection=SelectionConfig(rule, "latest"),
    )  # fmt: skip
    finished = run(made.plan())
    assert finished.valid
    assert finished.result.assessment is not None
    assert finished.result.assessment.standard_error is None


def test_every_visibility_level_runs(tmp_path: Path) -> None:
    for visibility in ("score", "summary", "episodes", "full"):
        made = stage(
            tmp_path / visibility, benchmark=Tally(artifact_names=["a"]),
            feedback=replace(Stage(tmp_path / "x").feedback, visibility=visibility),
        )  # fmt: skip
        assert run(made.plan()).valid
        content = json.loads((load_run(made.folder).feedback(1) / "feedback.json").read_text())
        assert ("by_episode" in content) == (visibility in ("episodes", "full"))


# --- numbers of somebody else's -------------------------------------------------------------------

NO_COUNTS: list[Any] = [
    2**53 + 1, 2**63, 2**64, 10**30, -1, -(2**63) - 1, True, 1.5, float("nan"), float("inf"), "7" * 5_000, [1], {}
]  # fmt: skip


@pytest.mark.parametrize(
    "field", ["input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "requests"]
)
def test_what_is_no_count_in_an_agents_usage_is_left_out_and_the_run_ends(
    tmp_path: Path, field: str
) -> None:
    for number, wrong in enumerate(NO_COUNTS):

        def agent(call: AgentCalls, wrong: Any = wrong) -> None:
            call.submit(5, "0:2")
            call.say(usage={field: wrong, "cache_write_tokens": 2**53})
            call("finish")

        finished = run(stage(tmp_path / str(number), agent).plan())
        assert (finished.finished, finished.valid) == (True, True), wrong
        assert finished.state.usage[field] is None, wrong
        assert finished.state.usage["cache_write_tokens"] == 2**53


@pytest.mark.parametrize("wrong", [-0.5, float("nan"), float("inf"), 1e300, True, "much", 10**400])
def test_what_is_no_cost_is_left_out_too(tmp_path: Path, wrong: Any) -> None:
    def agent(call: AgentCalls) -> None:
        call.submit(5, "0:2")
        call.say(usage={"cost_usd": wrong, "output_tokens": 3})

    finished = run(stage(tmp_path, agent).plan())
    assert (
        finished.valid,
        finished.state.usage["cost_usd"],
        finished.state.usage["output_tokens"],
    ) == (True, None, 3)


@pytest.mark.parametrize("value", [1e101, -1e101, 1e308])
def test_a_score_beyond_all_reckoning_is_a_fault_and_no_record_that_cannot_be_read(
    tmp_path: Path, value: float
) -> None:
    made = stage(
        tmp_path, benchmark=Tally(score_of=lambda outcome: value if outcome.index else 1.0)
    )
    finished = run_to_the_end(made)
    assert [s.status for s in finished.state.submissions] == ["failed", "failed"]
    assert load_run(made.folder).state == finished.state


def run_to_the_end(made: Stage) -> Run:
    """The Run as far as it gets: Validation and Assessment of such a Benchmark cannot be
    completed."""
    with pytest.raises(ExecutionError, match=r"nor at most 1e\+100"):
        run(made.plan())
    return load_run(made.folder)


# --- an agent that cannot be started --------------------------------------------------------------


@pytest.mark.parametrize("resumes", [True, False])
@pytest.mark.parametrize(
    "error", [OSError(24, "Too many open files"), OSError(28, "No space left on device")]
)
def test_a_fault_of_the_machine_at_the_agents_start_loses_nothing(
    tmp_path: Path, error: OSError, resumes: bool
) -> None:
    made = stage(tmp_path, agent=FunctionAgent(resumes=resumes))
    start, faults = made.launcher.start, [error]

    def failing(*arguments: Any) -> Any:
        if faults:
            raise faults.pop()
        return start(*arguments)

    made.launcher.start = failing  # type: ignore[method-assign,assignment]
    with pytest.raises(RecordError, match="nothing is lost: mend that and run the command again"):
        run(made.plan())
    finished = run(made.plan())
    ended = [event["reason"] for event in events(made.folder) if event["event"] == "agent_ended"]
    assert (ended, finished.valid, finished.result.reasons) == (
        ["not_started", "finished"],
        True,
        (),
    )


@pytest.mark.parametrize("resumes", [True, False])
def test_nor_where_the_journal_cannot_say_so_any_more(tmp_path: Path, resumes: bool) -> None:
    """The Host of a full disk: neither the agent's folder nor a further line of the journal can be
    written."""
    made = stage(tmp_path, agent=FunctionAgent(resumes=resumes))
    start, append = made.launcher.start, Journal.append

    def full(self: Journal, event: str, **content: Any) -> Any:
        if event == "agent_ended" and made.launcher.started == 0:
            raise OSError(28, "No space left on device")
        return append(self, event, **content)

    def failing(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    made.launcher.start = failing  # type: ignore[method-assign,assignment]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RecordError, match="nothing is lost"):
        patch.setattr(Journal, "append", full)
        run(made.plan())
    made.launcher.start = start  # type: ignore[method-assign]
    finished = run(made.plan())
    assert (finished.state.agent_ended, finished.valid, finished.result.reasons) == (
        "finished",
        True,
        (),
    )


# --- other versions -------------------------------------------------------------------------------

MEASURING = {"python": "3.11.7", "gymnasium": "1.0.0"}


def with_versions(plan: RunPlan, **versions: str) -> RunPlan:
    measuring = {name: versions.get(name, version) for name, version in MEASURING.items()}
    return replace(
        plan, record=replace(plan.record, versions={**measuring, **versions}), measuring=measuring
    )


@pytest.mark.parametrize(
    "after", ["opened", "agent_started", "reserved", "published", "closed", "handoff", "selected"]
)
def test_a_run_never_goes_on_under_other_versions_of_what_an_outcome_depends_on(
    tmp_path: Path, after: str
) -> None:
    made = stage(tmp_path)
    cut_after(made, with_versions(made.plan()), after)
    before = (made.folder / "journal.jsonl").read_bytes()
    other = with_versions(made.plan(), gymnasium="1.1.0")
    with pytest.raises(
        RecordError,
        match=r"run: began with gymnasium 1\.0\.0 and would go on with gymnasium 1\.1\.0",
    ):
        run(other)
    assert (made.folder / "journal.jsonl").read_bytes() == before, (
        "nothing was written, so nothing is mixed"
    )
    finished = run(with_versions(made.plan()))
    assert (finished.valid, finished.record.versions) == (True, MEASURING)
    assert run(other) == finished, "a finished one is read whatever is installed"
    ruled = replace(other, record=replace(other.record, result_key="another rule"))
    with pytest.raises(RecordError, match="which would mix Episodes of both"):
        run(ruled)


@pytest.mark.parametrize(
    ("after", "refused"), [("published", True), ("handoff", False), ("selected", False)]
)
def test_another_version_of_the_agents_program_matters_while_its_agent_may_start(
    tmp_path: Path, after: str, refused: bool
) -> None:
    made = stage(tmp_path)
    cut_after(made, with_versions(made.plan(), codex="1"), after)
    if not refused:
        assert run(with_versions(made.plan(), codex="2")).valid
        return
    with pytest.raises(RecordError, match="began with codex 1 and would go on with codex 2"):
        run(with_versions(made.plan(), codex="2"))


def cut_after(made: Stage, plan: RunPlan, event: str) -> None:
    """The Run as a Host leaves it that is killed after its first `event`."""
    run(plan)
    at = names(made.folder).index(event)
    journal = made.folder / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[: at + 1]))
    shutil.rmtree(made.folder / "evaluations")
    if event == "opened":
        shutil.rmtree(made.folder / "agent")
