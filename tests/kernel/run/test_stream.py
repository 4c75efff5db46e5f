"""Transcripts get their times from the Host and their Submissions from the session's answers, else
from the times."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evopolicy.kernel.ports.transcript import Step, ToolCall, Transcript, Usage
from evopolicy.kernel.run.stream import (
    joined,
    load_transcripts,
    plain,
    read_transcript,
    timed,
    write_transcript,
)

EVENTS: list[dict[str, Any]] = [
    {"event": "agent_started", "attempt": 1, "time": 100.0},
    {"event": "reserved", "submission": 1, "time": 112.0},
    {"event": "reserved", "submission": 2, "time": 131.0},
    {"event": "agent_started", "attempt": 2, "time": 200.0},
    {"event": "reserved", "submission": 3, "time": 205.0},
]


def step(text: str, line: int, *calls: ToolCall) -> Step:
    return Step("agent", text, calls=calls, line=line)


def submits(line: int, result: str | None = None) -> ToolCall:
    return ToolCall(
        str(line), "shell", {"command": "evopolicy-session submit program"}, result, line=line
    )


def test_a_line_came_when_the_nearest_listed_one_before_it_did() -> None:
    made = Transcript((step("a", 0), step("b", 4, ToolCall("1", "shell", line=4, result_line=9))))
    first, second = timed(made, [(0, 0.5), (4, 10.0), (7, 12.5)]).steps
    assert (first.seconds, second.seconds, second.calls[0].started, second.calls[0].ended) == (
        0.5,
        10.0,
        10.0,
        12.5,
    )


def test_without_times_nothing_is_said_of_them() -> None:
    made = Transcript((step("a", 0),))
    assert timed(made, []) == made


def test_a_step_leads_to_the_submission_the_sessions_answer_names() -> None:
    made = Transcript((
        step("first", 0, submits(0, '{"state": "published", "submission": 2}')),
        step("second", 1, submits(1, 'text {\\"submission\\": 1, ...')),
        step("reads", 2, ToolCall("9", "shell", {"command": "cat feedback"}, '{"submission": 2}')),
    ))  # fmt: skip
    assert [s.submission for s in joined(made, EVENTS, 1).steps] == [2, 1, None]


def test_where_no_answer_names_one_the_call_under_way_led_to_it() -> None:
    made = timed(
        Transcript(
            (
                step("a", 0, submits(0)),
                step("talk", 1),
                step("b", 2, submits(2)),
                step("c", 3, submits(3)),
            )
        ),
        [(0, 10.0), (1, 20.0), (2, 30.0), (3, 40.0)],
    )
    assert [s.submission for s in joined(made, EVENTS, 1).steps] == [1, None, 2, None]


def test_an_attempt_has_no_part_in_submissions_before_it() -> None:
    made = Transcript(
        (
            step("again", 0, submits(0, '{"submission": 1}')),
            step("new", 1, submits(1, '{"submission": 3}')),
        )
    )
    assert [s.submission for s in joined(made, EVENTS, 2).steps] == [None, 3]


def test_a_transcript_is_kept_whole_and_loaded_in_the_order_of_its_attempts(tmp_path: Path) -> None:
    kept = [
        Transcript(
            (step(f"{n}", 0, ToolCall("1", "shell", {"a": [1]}, "x", True)),),
            Usage(1),
            session_id=str(n),
        )
        for n in range(1, 12)
    ]
    for number, transcript in enumerate(kept, 1):
        (tmp_path / "agent" / f"attempt-{number}").mkdir(parents=True)
        write_transcript(tmp_path / "agent" / f"attempt-{number}", transcript)
    assert load_transcripts(tmp_path) == kept


def test_a_cut_line_of_times_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_text("a\nb\n")
    (tmp_path / "stdout.times").write_text("0 0.1\n1 2.")
    agent = SimpleNamespace(
        read=lambda lines, _: Transcript(tuple(step(x, n) for n, x in enumerate(lines)))
    )
    assert [s.seconds for s in read_transcript(agent, tmp_path).steps] == [0.1, 2.0]
    (tmp_path / "stdout.times").write_text("0 0.1\n1")
    assert [s.seconds for s in read_transcript(agent, tmp_path).steps] == [0.1, 0.1]


def test_half_a_character_a_huge_number_and_a_secret_cost_no_transcript(tmp_path: Path) -> None:
    said = "half \ud83d and a-secret"
    call = ToolCall(
        "1",
        "shell",
        {"command": "submit", said: [said, float("inf")]},
        '"submission": ' + "9" * 5000,
    )
    made = joined(Transcript((Step("agent", said, calls=(call,)),), error=said), EVENTS, 1)
    kept = plain(made, lambda text: text.replace("a-secret", "***"))
    assert kept.steps[0].text == "half ? and ***"
    assert kept.steps[0].calls[0].arguments == {
        "command": "submit",
        "half ? and ***": ["half ? and ***", None],
    }
    write_transcript(tmp_path, kept)


def test_a_word_that_comes_again_and_again_is_looked_through_once() -> None:
    """Or a hundred thousand short lines cost the Host most of a minute at the end of the agent that
    printed them."""
    looked: list[str] = []

    def mask(text: str) -> str:
        looked.append(text)
        return text.replace("a-secret", "***")

    said = ["again", "a-secret", "x" * 40]
    kept = plain(
        Transcript(tuple(Step("agent", text, line=n) for n, text in enumerate(said * 100))), mask
    )
    assert [s.text for s in kept.steps] == ["again", "***", "x" * 40] * 100
    assert (
        looked.count("again")
        == looked.count("a-secret")
        == looked.count("agent")
        == looked.count("text")
        == 1
    )


def test_what_is_nested_deeper_than_a_reader_goes_costs_no_transcript(tmp_path: Path) -> None:
    deep: Any = "the end"
    for _ in range(200):
        deep = [deep]
    logs = tmp_path / "agent" / "attempt-1"
    logs.mkdir(parents=True)
    said = Transcript(
        (Step("agent", calls=(ToolCall("1", "write", {"deep": deep, "path": "x.py"}),)),)
    )
    write_transcript(logs, plain(said))
    [kept] = load_transcripts(tmp_path)
    [call] = kept.steps[0].calls
    assert call.arguments["path"] == "x.py"
    assert "nested too deeply" in str(call.arguments["deep"])
