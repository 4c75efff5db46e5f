"""An attempt as spans, without MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript
from evopolicy.kernel.secrecy.secrets import Masker
from evopolicy.kernel.session.journal import Journal, read_journal
from evopolicy.kernel.session.record import Run
from evopolicy.tracking import spans
from evopolicy.tracking.spans import Attempt, Span, Trace, ended_attempts

KEY = "sk-abcdefghijklmnopqrstuvwxyz012345"


def attempts(run: Run, lines: int | None = None) -> list[Attempt]:
    return list(
        ended_attempts(run.folder, run.record, "me", list(read_journal(run.folder))[:lines])
    )


def trace_of(run: Run, mask: Masker | None = None) -> Trace:
    trace = attempts(run)[0].trace(mask or Masker())
    assert trace is not None
    return trace


def by_name(trace: Trace) -> Mapping[str, Span]:
    return {span.name: span for span in trace.spans}


@pytest.fixture
def run(make_run: Callable[..., Run], lay_attempt: Callable[..., Path]) -> Run:
    run = make_run()
    lay_attempt(run.folder)
    return run


def test_messages_calls_submissions_and_evaluations_are_a_tree(run: Run) -> None:
    trace = trace_of(run)
    names = {span.key: span.name for span in trace.spans}
    assert [(span.name, span.type, names.get(span.parent, "")) for span in trace.spans] == [
        ("attempt 1", "AGENT", ""),
        ("user", "CHAIN", "attempt 1"),
        ("turn 1", "CHAT_MODEL", "attempt 1"),
        ("shell", "TOOL", "turn 1"),
        ("turn 2", "CHAT_MODEL", "attempt 1"),
        ("edit", "TOOL", "turn 2"),
        ("shell", "TOOL", "turn 2"),
        ("Submission 1", "TASK", "shell"),
        ("Evaluation of Submission 1", "EVALUATOR", "Submission 1"),
        ("turn 3", "CHAT_MODEL", "attempt 1"),
        ("Submission 2", "TASK", "attempt 1"),
        ("Evaluation of Submission 2", "EVALUATOR", "Submission 2"),
    ]
    submitting = next(span for span in trace.spans if "submit" in str(span.inputs))
    assert by_name(trace)["Submission 1"].parent == submitting.key
    assert len({span.key for span in trace.spans}) == len(trace.spans)


def test_times_are_those_of_the_stream_and_the_journal(run: Run) -> None:
    zero = run.record.created + 1
    found = {
        name: (span.start - zero, span.end - zero) for name, span in by_name(trace_of(run)).items()
    }
    assert found["attempt 1"] == (0.0, 6.0), "until the Host saw its end"
    assert found["turn 1"] == (0.0, 0.625), "from what came before to its last result"
    assert found["turn 2"] == (0.625, 2.25)
    assert found["turn 3"] == (2.25, 4.5)
    assert found["Submission 1"] == (1.0, 2.0)
    assert found["edit"] == pytest.approx((0.8, 0.9))


def test_an_evaluation_is_no_longer_than_its_episodes_took(run: Run) -> None:
    attempt = attempts(run)[0]
    events = tuple(
        {**event, "wall_seconds": 0.25} if event["event"] == "published" else event
        for event in attempt.events
    )
    trace = replace(attempt, events=events).trace(Masker())
    assert trace is not None
    evaluation = by_name(trace)["Evaluation of Submission 1"]
    assert evaluation.end - evaluation.start == 0.25
    assert (evaluation.attributes["score"], evaluation.attributes["policy_seconds"]) == (100.0, 0.5)


def test_what_was_said_done_and_spent_is_in_them(run: Run) -> None:
    trace = trace_of(run)
    found = by_name(trace)
    root = found["attempt 1"]
    assert root.outputs == {
        "ended": "finished", "submissions": 2, "best_training_score": 200.0, "last_message": "It balances.",
    }  # fmt: skip
    assert (root.attributes["usage.output_tokens"], root.attributes["turns"]) == (1200, 3)
    assert (root.attributes["thinking_seconds"], root.attributes["evaluating_seconds"]) == (
        10.0,
        3.0,
    )
    assert found["turn 1"].outputs == {"text": "I read the **task**.", "tools": "shell"}
    assert found["turn 1"].attributes["reasoning"] == "What balances a pole?"
    assert found["turn 2"].attributes["submission"] == 1
    assert (found["edit"].error, found["edit"].inputs) == ("no such file", {"path": "policy.py"})
    assert found["shell"].error is None
    assert found["Submission 1"].inputs["selector"] == "0:8"
    assert found["Submission 1"].outputs == {
        "status": "published",
        "score": 100.0,
        "failures": {"exception": 2},
    }
    assert trace.response == "finished, 2 Submissions, best training score 200"
    assert trace.tags["session_id"] == "sess-1"


def test_an_attempt_without_times_is_written_all_the_same(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Path], transcript: Transcript
) -> None:
    def untimed(step: Step) -> Step:
        calls = tuple(replace(call, started=None, ended=None) for call in step.calls)
        return replace(step, seconds=None, calls=calls)

    run = make_run()
    lay_attempt(
        run.folder, replace(transcript, steps=tuple(map(untimed, transcript.steps)), seconds=None)
    )
    assert all(span.start <= span.end for span in trace_of(run).spans)


def test_a_failed_attempt_says_why(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Path]
) -> None:
    run = make_run(reason="provider", valid=False)
    lay_attempt(run.folder, Transcript(error="529 overloaded", error_kind="overload"))
    trace = trace_of(run)
    assert trace.spans[0].error == "529 overloaded"
    assert trace.tags["terminal_reason"] == "provider"


def test_no_secret_and_no_image_is_in_any_span(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Path]
) -> None:
    run = make_run()
    text = f"{KEY} hunter2hunter2 ![x](http://192.0.2.1/x.png)"
    nested = {
        "messages": [{"content": [{"image_url": {"url": text}}]}],
        "api_key": "plain-looking",
        "n": 3,
    }
    call = ToolCall("c", "shell", {text: text, **nested}, text, failed=True)
    lay_attempt(
        run.folder, Transcript((Step("agent", text, text, (call,)), Step("user", text)), error=text)
    )
    written = str(trace_of(run, Masker.of({"HARMLESS": "hunter2hunter2"}, ["HARMLESS"])))
    assert KEY not in written
    assert "hunter2" not in written
    assert "plain-looking" not in written
    assert "![" not in written
    arguments = by_name(trace_of(run))["shell"].inputs
    assert arguments["n"] == 3
    assert isinstance(arguments["messages"], str), "the UI takes a list of messages for a chat"


def test_long_texts_are_cut_and_say_so(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Path]
) -> None:
    run = make_run()
    many = {f"key{n}": "y" * 5000 for n in range(50)}
    call = ToolCall("c", "shell", many, "z" * 20_000, started=0.1, ended=0.2)
    half = f"{'x' * (spans.TEXT - 10)} {KEY} {'x' * 20_000}"
    lay_attempt(run.folder, Transcript((Step("agent", half, calls=(call,)),)))
    found = by_name(trace_of(run))
    said = found["turn 1"].outputs["text"]
    assert len(said) < spans.TEXT + 200
    assert "sk-" not in said, "masked before it is cut"
    assert said.endswith("characters; whole in agent/attempt-1/transcript.json)")
    assert "(cut: 8,000 of 20,000 characters" in found["shell"].outputs["result"]
    assert len(str(found["shell"].inputs)) < 3 * spans.TEXT


def test_of_a_very_long_transcript_the_middle_is_left_out(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "STEPS", 10)
    monkeypatch.setattr(spans, "TRACE_TEXT", 1_000)
    run = make_run()
    lay_attempt(
        run.folder, Transcript(tuple(Step("agent", f"{n} " + "x" * 2_000) for n in range(30)))
    )
    trace = trace_of(run)
    said = [span.outputs["text"].split()[0] for span in trace.spans if span.type == "CHAT_MODEL"]
    assert said == [str(n) for n in (*range(5), *range(25, 30))]
    assert (
        trace.spans[0]
        .attributes["left_out"]
        .startswith("20 messages of the middle; whole in agent/attempt-1/")
    )
    assert sum(len(str(span.outputs)) for span in trace.spans) < 15 * spans.SHORT_TEXT
    assert "Submission 2" in by_name(trace)


def test_an_attempt_counts_once_it_ended_and_left_its_transcript(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Path]
) -> None:
    run = make_run()
    events = [event["event"] for event in read_journal(run.folder)]
    end = events.index("agent_ended") + 1
    assert attempts(run) == []
    lay_attempt(run.folder)
    assert attempts(run, end - 1) == []
    assert [attempt.version for attempt in attempts(run, end)] == [0]
    assert [attempt.version for attempt in attempts(run, end + 1)] == [1], (
        "now its transcript is the last one"
    )


def test_a_spoilt_transcript_is_no_trace(run: Run) -> None:
    (run.folder / "agent" / "attempt-1" / "transcript.json").write_text('{"steps": [')
    assert attempts(run)[0].trace(Masker()) is None


def test_each_attempt_has_its_own_submissions(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Path]
) -> None:
    run = make_run(until="opened")
    journal = Journal(run.folder)
    charged = {"program": "ab" * 32, "selector": "0:8", "units": 8}
    for number, reason in ((1, "provider"), (2, "finished")):
        if number > 1:
            journal.append("agent_started", attempt=number)
        journal.append("reserved", submission=number, **charged)
        settled: dict[str, Any] = {"reason": "engine"} if number == 1 else {"score": 3.0}
        journal.append(
            "submission_failed" if number == 1 else "published", submission=number, **settled
        )
        journal.append("agent_ended", reason=reason)
        lay_attempt(run.folder, Transcript(), number)
    journal.close()
    first, second = (attempt.trace(Masker()) for attempt in attempts(run))
    assert first is not None and second is not None
    assert [span.name for span in first.spans] == [
        "attempt 1",
        "Submission 1",
        "Evaluation of Submission 1",
    ]
    assert first.spans[1].error == "engine"
    assert [span.name for span in second.spans] == [
        "attempt 2",
        "Submission 2",
        "Evaluation of Submission 2",
    ]
    assert first.id != second.id


def test_the_end_of_an_attempt_whose_host_was_killed_is_its_last_output(
    make_run: Callable[..., Run], lay_attempt: Callable[..., Path], transcript: Transcript
) -> None:
    run = make_run(until="opened")
    journal = Journal(run.folder)
    journal.append("agent_ended", reason="host_killed")
    journal.close()
    lay_attempt(run.folder, transcript)
    root = trace_of(run).spans[0]
    assert root.end - root.start == transcript.seconds
